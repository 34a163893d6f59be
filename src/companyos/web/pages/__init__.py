"""One module per page of the web interface."""
