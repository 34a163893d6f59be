"""Datasets of episodes, and lists of task ids by split."""
