"""Evaluate: how good an agent is, in numbers that anyone can recompute from a file of calls."""
