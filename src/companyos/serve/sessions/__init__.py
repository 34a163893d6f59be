"""Sessions: episodes that many clients use at once and that survive restarts of the server."""
