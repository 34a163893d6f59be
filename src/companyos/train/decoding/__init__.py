"""Decoding: models that play many episodes at once."""
