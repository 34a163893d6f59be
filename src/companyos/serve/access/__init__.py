"""Access control: roles of tokens, quotas and allowed origins."""
