"""Judging one episode by replaying its calls: its outcome, the call that lost it, and its playback."""
