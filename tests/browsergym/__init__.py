"""Tests of the BrowserGym tasks. They have their own environment, because BrowserGym pins an old Playwright."""
