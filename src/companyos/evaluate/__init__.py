"""Evaluation: how good agents are, where they fail, and how certain the numbers are."""
