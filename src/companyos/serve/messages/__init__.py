"""Messages on the wire: request and reply bodies, and their JSON."""
