"""Hosts: each with its own tool, in an environment of its own (`make test-hosts`)."""
