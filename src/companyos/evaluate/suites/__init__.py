"""Suites: frozen lists of task ids."""
