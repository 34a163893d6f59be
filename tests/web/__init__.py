"""Pages in a browser: these tests need the extra `web-dev` and a Chromium; `make test-web` brings both."""
