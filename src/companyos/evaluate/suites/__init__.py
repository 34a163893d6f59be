"""Suites: frozen lists of task ids, and how their tasks are selected."""
