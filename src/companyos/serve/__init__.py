"""Serve: episodes behind doors. Sessions that outlive processes, and the doors through which anyone reaches them.

Nothing is imported here: the core of it (`ledger`, `sessions`) needs no web framework, the doors do.
"""
