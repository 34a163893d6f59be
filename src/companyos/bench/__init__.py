"""Benchmarks of speed and memory: our own measurements, and comparisons with other environments."""
