"""The tools of the company over the Model Context Protocol (MCP)."""
