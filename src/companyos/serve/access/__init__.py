"""Who may do what: roles of tokens, quotas and allowed origins."""
