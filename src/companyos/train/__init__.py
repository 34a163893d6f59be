"""Training: language models that learn to work here, and a small learner that needs none."""
