"""Links: a task as an address that tells nobody what is true in it, and a session as one that lets nobody work in it.

A task id may name causes (`…-50-cfo_away.1`), and whoever follows a link is about to find those out. So a link holds the
id under a stream of bytes, with a check that a mistyped one does not pass. Every server reads every link: it keeps the
secret from eyes, not from somebody who reads this file. Links to watch a session hold its id under a key of the server's,
so that they show the session and give nobody the id, which is all one needs to step in it.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from hashlib import blake2b

from companyos.core.errors import BadTask
from companyos.core.task import MAX_LENGTH, TaskId

_CHECK = 6  # bytes
_LONGEST = 4 * (MAX_LENGTH + _CHECK) // 3 + 4


def link_code(task: TaskId) -> str:
    """A task as it stands in a link."""
    return cover(str(task))


def task_of(code: str) -> TaskId:
    """The task that a link is for; `BadTask` where it is for none."""
    text = uncover(code)
    if text is None:
        raise BadTask("this link leads to no task; it may have been cut short")
    return TaskId.parse(text)


def cover(text: str, key: bytes = b"") -> str:
    """A text as it stands in a link. With a key (of up to 32 bytes) only who has it can read it, or make one."""
    raw = text.encode()
    check = _check(raw, key)
    return urlsafe_b64encode(check + _covered(raw, check + key)).rstrip(b"=").decode()


def uncover(code: str, key: bytes = b"") -> str | None:
    """The text that was covered; None where none was, or by another key."""
    try:
        if len(code) > _LONGEST:
            raise ValueError
        raw = urlsafe_b64decode(code.encode("ascii") + b"=" * (-len(code) % 4))
        check, text = raw[:_CHECK], _covered(raw[_CHECK:], raw[:_CHECK] + key)
        if _check(text, key) != check:
            raise ValueError
        return text.decode()
    except (Error, ValueError):
        return None


def _check(text: bytes, key: bytes) -> bytes:
    return blake2b(text, digest_size=_CHECK, key=key, person=b"companyos link").digest()


def _covered(text: bytes, key: bytes) -> bytes:
    """Covers a text, or uncovers it: no two texts are covered alike, since the check is part of the key."""
    stream = b"".join(blake2b(bytes([n]), key=key, person=b"companyos link").digest() for n in range(len(text) // 64 + 1))
    return bytes(one ^ other for one, other in zip(text, stream, strict=False))
