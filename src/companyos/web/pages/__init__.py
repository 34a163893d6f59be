"""The pages of the web interface, one module for each group of pages."""
