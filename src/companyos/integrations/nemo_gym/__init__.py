"""A resources server for NeMo Gym, and its configuration."""
