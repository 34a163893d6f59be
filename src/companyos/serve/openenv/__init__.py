"""The protocol of OpenEnv: WebSocket, JSON-RPC and discovery."""
