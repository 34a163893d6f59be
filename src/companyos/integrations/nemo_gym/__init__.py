"""NeMo Gym: a resources server, and how NeMo Gym is told of it."""
