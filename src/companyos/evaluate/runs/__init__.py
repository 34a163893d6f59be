"""Runs: an agent plays the tasks of a suite, and every episode becomes a file."""
