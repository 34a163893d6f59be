"""BrowserGym: the company as its agents meet it. In an environment of its own, since it pins an old Playwright."""
