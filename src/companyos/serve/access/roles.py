"""Roles: who a caller is, and which places are open to them.

A **trainer** resets, forks, rolls out, replays and reads verdicts; with the admin token it also inspects. An **agent**
steps in its own session and looks at it, and nothing else: its replies have no task id, no reward and no verdict. A token
says which of the two a caller is. There are two kinds of agent tokens: one that the reply to a trainer's reset carries,
good for that session alone, and those of an exam (`COMPANYOS_AGENT_TOKENS`), which may also reset. On a server without
tokens a caller is neither: they may do what a trainer does, but see what is true in a task only after it has ended.
"""

import hmac
import secrets
from hashlib import blake2b

import msgspec

from companyos.serve.ledger import Header
from companyos.serve.ops.settings import Settings

HOSTS = "/mcp-server"  # MCP over HTTP
_MARK = "agent."  # how the token of one session begins
_OF_SESSION = frozenset(
    {"/step", "/render", "/manifest", "/close", "/health", "/ready", "/docs", "/openapi.json", "/list_environments", HOSTS}
    | {f"{dialect}/{name}" for dialect in ("", "/tools") for name in ("ws", "mcp", "state", "schema", "metadata", "health")}
)
_OF_EXAM = _OF_SESSION | {"/reset", "/companyos/splits", "/companyos/num_tasks"}


class Caller(msgspec.Struct, frozen=True):
    """Who asks, and for which session, where a header or the token says so."""

    owner: str  # the digest of the token, or what stands for the agent of one session; empty: anybody
    admin: bool
    session_id: str
    agent: bool = False  # is shown no task id, no reward and no verdict
    bound: str = ""  # the one session that the token is for: cannot begin another
    trusted: bool = False  # a trainer or the admin: is shown what is true in a task at any time

    @property
    def counted_as(self) -> str:
        """Whose quota a request counts against. The agent of one session has none: its session has a limit of its own."""
        return "" if self.bound else self.owner


class Roles:
    """Reads tokens, and makes those for single sessions. Their key is `COMPANYOS_WATCH_KEY`, which all workers share."""

    def __init__(self, settings: Settings) -> None:
        self._exam = settings.exam
        self._trainers = frozenset(map(digest_of, settings.tokens))
        self._agents = frozenset(map(digest_of, settings.agent_tokens))
        self._admin = digest_of(settings.admin_token) if settings.admin_token else None
        secret = (settings.watch_key or secrets.token_hex()).encode()
        self._key = blake2b(secret, digest_size=32, person=b"companyos agent").digest()

    @property
    def need_token(self) -> bool:
        """Whether every request has to bring a token."""
        return bool(self._trainers or self._agents)

    def caller(self, token: bytes, session_id: str) -> Caller | None:
        """Who brings this token (empty: none); None where it is not one that this server knows, and it needs one."""
        # Digests are compared, so the time that it takes tells nothing about a token.
        who = digest_of(token) if token else None
        admin = who is not None and who == self._admin
        if self._exam:
            owner = who if who is not None and who in self._agents else ""
            known = owner or admin or not self._agents
            return Caller(owner, admin, session_id, agent=True) if known else None
        if bound := self._session_of(token):
            return Caller(agent_of(bound), False, session_id or bound, agent=True, bound=bound)
        owner = who if who is not None and who in self._trainers else ""
        if not (owner or admin or not self._trainers):
            return None
        return Caller(owner, admin, session_id, trusted=bool(owner) or admin)

    def admits(self, caller: Caller, path: str) -> bool:
        """Whether a place is open to a caller."""
        if not caller.agent:
            return True
        return path in (_OF_SESSION if caller.bound else _OF_EXAM) or (caller.admin and path == "/metrics")

    def agent_token(self, session_id: str) -> str:
        """A token for the agent of one session."""
        return f"{_MARK}{session_id}.{self._seal(session_id)}"

    def _session_of(self, token: bytes) -> str:
        """The session that an agent's token is for; empty where it is no such token."""
        text = token.decode("latin-1")
        session_id, _, seal = text.removeprefix(_MARK).rpartition(".")
        is_ours = text.startswith(_MARK) and session_id.isascii() and seal.isascii()
        return session_id if is_ours and hmac.compare_digest(seal, self._seal(session_id)) else ""

    def _seal(self, session_id: str) -> str:
        return blake2b(session_id.encode(), key=self._key, digest_size=24).hexdigest()


def agent_of(session_id: str) -> str:
    """What stands in place of an owner for the agent of one session. No digest of a token looks like it."""
    return f"agent:{session_id}"


def may_use(owner: str | None, header: Header) -> bool:
    """Whether a session is open to an owner; None stands for the one who runs the server."""
    return owner is None or owner == header.owner or owner == agent_of(header.session_id)


def digest_of(token: str | bytes) -> str:
    """What stands for a token in memory and in the ledger."""
    return blake2b(token.encode() if isinstance(token, str) else token, digest_size=16).hexdigest()
