"""Web pages: a person plays, watches and replays episodes in a browser.

Every page works without JavaScript and loads nothing from other hosts. Templates escape all text, so that no text of a
record can become HTML.
"""
