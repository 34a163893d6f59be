"""Links: a task as an address that tells nobody what is true in it.

A task id may name causes (`…-50-cfo_away.1`), and whoever follows a link is about to find those out. So a link holds the
id under a stream of bytes, with a check that a mistyped one does not pass. Every server reads every link: it keeps the
secret from eyes, not from somebody who reads this file.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from hashlib import blake2b

from companyos.errors import BadTask
from companyos.task import MAX_LENGTH, TaskId

_CHECK = 6  # bytes
_LONGEST = 4 * (MAX_LENGTH + _CHECK) // 3 + 4


def link_code(task: TaskId) -> str:
    """A task as it stands in a link."""
    text = str(task).encode()
    check = _check(text)
    return urlsafe_b64encode(check + _covered(text, check)).rstrip(b"=").decode()


def task_of(code: str) -> TaskId:
    """The task that a link is for; `BadTask` where it is for none."""
    try:
        if len(code) > _LONGEST:
            raise ValueError
        raw = urlsafe_b64decode(code.encode("ascii") + b"=" * (-len(code) % 4))
        check, text = raw[:_CHECK], _covered(raw[_CHECK:], raw[:_CHECK])
        if _check(text) != check:
            raise ValueError
    except (Error, ValueError):
        raise BadTask("this link leads to no task; it may have been cut short") from None
    return TaskId.parse(text.decode())


def _check(text: bytes) -> bytes:
    return blake2b(text, digest_size=_CHECK, person=b"companyos link").digest()


def _covered(text: bytes, check: bytes) -> bytes:
    """Covers a text, or uncovers it: no two tasks are covered alike, since the check is part of the key."""
    stream = b"".join(blake2b(bytes([n]), key=check, person=b"companyos link").digest() for n in range(len(text) // 64 + 1))
    return bytes(one ^ other for one, other in zip(text, stream, strict=False))
