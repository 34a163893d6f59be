"""Train: learning from episodes."""
