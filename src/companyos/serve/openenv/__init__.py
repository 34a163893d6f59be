"""OpenEnv's protocol: WebSocket, JSON-RPC and discovery."""
