"""Language models to train: loading them, and their forward passes."""
