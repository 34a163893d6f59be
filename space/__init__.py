"""CompanyOS as `openenv push` wants it laid out."""
