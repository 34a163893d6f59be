"""Adapters for the frameworks of others (hosts). Each host has one thin file, and only that file imports it."""
