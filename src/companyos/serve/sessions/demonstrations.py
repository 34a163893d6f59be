"""The ids of demonstrations: sessions in which the server itself plays an agent. `companyos.web` starts them.

The id names the agent, so that every worker can continue the session. Only the server knows the id.
"""

_PREFIX = "~watch."


def demonstration_prefix(agent: str) -> str:
    """Return the start of the ids of all demonstrations by an agent."""
    return f"{_PREFIX}{agent}"


def demonstrator(session_id: str) -> str:
    """Return the name of the agent that plays a session, or an empty text if it is not a demonstration."""
    if not session_id.startswith(_PREFIX):
        return ""
    return session_id.removeprefix(_PREFIX).rpartition(".")[0]  # the id ends in a dot and a random text
