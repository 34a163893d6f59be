"""Agents that ask a language model: prompts, endpoints, and parsing of what the model wrote."""
