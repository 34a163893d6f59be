"""The server: sessions that survive restarts, and the endpoints (REST, OpenEnv, MCP) through which clients use them.

Nothing is imported here: the ledger and the sessions need no web framework, the endpoints do.
"""
