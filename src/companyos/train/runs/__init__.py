"""Training runs: logs and checkpoints, evaluation of checkpoints, plots, and trained models as agents."""
