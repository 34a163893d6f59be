"""Request and reply bodies, and their JSON."""
