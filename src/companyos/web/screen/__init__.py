"""Episodes as screenshots: a headless browser, and clicks and keys on a page."""
