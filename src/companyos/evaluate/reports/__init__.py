"""Reports: runs as an HTML page, as tables and as figures."""
