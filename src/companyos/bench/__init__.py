"""Speed: our own measurements, and races against other environments."""
