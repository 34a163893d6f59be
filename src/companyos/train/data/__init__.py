"""Training data: episodes as token sequences, demonstrations and expert labels."""
