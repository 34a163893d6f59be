"""A small learner that needs only numpy."""
