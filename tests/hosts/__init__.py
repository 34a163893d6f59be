"""Tests of the hosts, each with its own tool in its own environment (`make test-hosts`)."""
