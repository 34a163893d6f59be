"""Integrations: what other people's trainers take for an environment. Each is one thin file, and alone imports its host."""
