"""Tests of the web pages. They need the extra `web-dev` and Chromium; `make test-web` installs both."""
