"""CompanyOS in the layout that `openenv push` expects."""
