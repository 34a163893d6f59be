"""Integrations: what other people's trainers take for an environment. Each is one file, and imports no trainer."""
