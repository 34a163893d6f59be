"""The three apps that an agent works with, and the tools that each of them offers."""
