"""Reports: runs as an HTML page, as tables in the terminal and as figures."""
