"""Evaluation: what agents are worth, where they break, and how sure one can be of either."""
