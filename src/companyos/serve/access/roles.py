"""Roles: what each client may do, according to its token.

A **trainer** may reset, fork, roll out, replay and read verdicts; with the admin token it may also inspect. An **agent** may
only step in its own session and look at it; its replies contain no task id, no reward and no verdict. There are two kinds of
agent tokens: the reply to a trainer's reset contains one that is valid for that session only, and an exam has its own
(`COMPANYOS_AGENT_TOKENS`), which may also reset. An exam (`companyos serve --exam`) is a server that evaluates agents: all
its clients are agents, and each token has one attempt per task. On a server without tokens a client may do what a trainer
may, except that it sees the ground truth of a task only after the episode has ended.
"""

import hmac
import secrets
from hashlib import blake2b

import msgspec

from companyos.serve.ledger import SessionHeader
from companyos.serve.ops.settings import Settings

MCP_PATH = "/mcp-server"  # MCP over HTTP
_PREFIX = "agent."  # with which the tokens for one session begin
# What an agent may use with a token for one session, and with a token of an exam.
_PATHS_FOR_SESSION_AGENTS = frozenset(
    {
        "/step",
        "/render",
        "/manifest",
        "/close",
        "/health",
        "/ready",
        "/docs",
        "/openapi.json",
        "/list_environments",
        MCP_PATH,
    }
    | {f"{dialect}/{name}" for dialect in ("", "/tools") for name in ("ws", "mcp", "state", "schema", "metadata", "health")}
)
_PATHS_FOR_EXAM_AGENTS = _PATHS_FOR_SESSION_AGENTS | {"/reset", "/companyos/splits", "/companyos/num_tasks"}


class Client(msgspec.Struct, frozen=True):
    """The identity of a client, and the session that its header or token names."""

    owner: str  # the digest of the token, or `agent_of(session)`; empty without a token
    admin: bool
    session_id: str
    agent: bool = False  # must not see a task id, a reward or a verdict
    only_session: str = ""  # the only session that the token is valid for; such a client cannot reset
    trusted: bool = False  # a trainer or the admin: may see the ground truth of a task at any time

    @property
    def quota_owner(self) -> str:
        """The owner whose quota a request counts against. The agent of one session has none: its session has a limit."""
        return "" if self.only_session else self.owner


class Roles:
    """Checks tokens, and signs the agent tokens for single sessions with `COMPANYOS_WATCH_KEY`, which all workers share."""

    def __init__(self, settings: Settings) -> None:
        self._exam = settings.exam
        self._trainers = frozenset(map(digest_of, settings.tokens))
        self._agents = frozenset(map(digest_of, settings.agent_tokens))
        self._admin = digest_of(settings.admin_token) if settings.admin_token else None
        secret = (settings.watch_key or secrets.token_hex()).encode()
        self._key = blake2b(secret, digest_size=32, person=b"companyos agent").digest()

    @property
    def need_token(self) -> bool:
        """Whether every request needs a token."""
        return bool(self._trainers or self._agents)

    def client(self, token: bytes, session_id: str) -> Client | None:
        """Return the client that sends this token, or None if the server needs a token and this one is not valid.

        `token` is empty for a request without a token. `session_id` is the session that the request names, or empty.
        """
        # Digests are compared, so that the duration of the comparison reveals nothing about a token.
        token_digest = digest_of(token) if token else None
        admin = token_digest is not None and token_digest == self._admin
        if self._exam:
            owner = token_digest if token_digest is not None and token_digest in self._agents else ""
            allowed = owner or admin or not self._agents
            return Client(owner, admin, session_id, agent=True) if allowed else None
        if only_session := self._session_of(token):
            session_id = session_id or only_session
            return Client(agent_of(only_session), False, session_id, agent=True, only_session=only_session)
        owner = token_digest if token_digest is not None and token_digest in self._trainers else ""
        if not (owner or admin or not self._trainers):
            return None
        return Client(owner, admin, session_id, trusted=bool(owner) or admin)

    def admits(self, client: Client, path: str) -> bool:
        """Return whether a client may use an endpoint."""
        if not client.agent:
            return True
        paths = _PATHS_FOR_SESSION_AGENTS if client.only_session else _PATHS_FOR_EXAM_AGENTS
        return path in paths or (client.admin and path == "/metrics")

    def agent_token(self, session_id: str) -> str:
        """Return a token for the agent of one session."""
        return f"{_PREFIX}{session_id}.{self._sign(session_id)}"

    def _session_of(self, token: bytes) -> str:
        """Return the session that an agent token is valid for, or "" for any other token."""
        text = token.decode("latin-1")
        session_id, _, signature = text.removeprefix(_PREFIX).rpartition(".")
        is_agent_token = text.startswith(_PREFIX) and session_id.isascii() and signature.isascii()
        return session_id if is_agent_token and hmac.compare_digest(signature, self._sign(session_id)) else ""

    def _sign(self, session_id: str) -> str:
        return blake2b(session_id.encode(), key=self._key, digest_size=24).hexdigest()


def agent_of(session_id: str) -> str:
    """Return the owner name for the agent of one session. No digest of a token looks like it."""
    return f"agent:{session_id}"


def may_use(owner: str | None, header: SessionHeader) -> bool:
    """Return whether an owner may use a session. None stands for the operator of the server."""
    return owner is None or owner == header.owner or owner == agent_of(header.session_id)


def digest_of(token: str | bytes) -> str:
    """Return the digest that represents a token in memory and in the ledger."""
    return blake2b(token.encode() if isinstance(token, str) else token, digest_size=16).hexdigest()
