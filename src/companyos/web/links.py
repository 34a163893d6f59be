"""Encodes task ids and session ids for links, so that a reader of the link does not see them.

A task id can name hidden causes (`…-50-cfo_away.1`), and a player should find those out by working. A task link therefore
XORs the id with a byte stream and adds a checksum that detects typing errors. It needs no key, so every server can decode
every task link: this hides the id from a casual look, not from somebody who reads this file. A link for watching a session
is encoded with the server's key, because everybody who knows a session's id can step in it.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from hashlib import blake2b

from companyos.core.errors import BadTask
from companyos.core.task import MAX_LENGTH, TaskId

_CHECKSUM_BYTES = 6
_MAX_CODE_LENGTH = 4 * (MAX_LENGTH + _CHECKSUM_BYTES) // 3 + 4  # Base64 writes 3 bytes as 4 characters


def encode_task_link(task: TaskId) -> str:
    """Return the code of a task for a link."""
    return encode_link(str(task))


def decode_task_link(code: str) -> TaskId:
    """Return the task of a link code. Raise `BadTask` if the code names no task."""
    text = decode_link(code)
    if text is None:
        raise BadTask("this link does not lead to a task; it may have been cut short")
    return TaskId.parse(text)


def encode_link(text: str, key: bytes = b"") -> str:
    """Encode a text. With a key (at most 32 bytes), only its owner can decode or create codes."""
    raw = text.encode()
    checksum = _checksum(raw, key)
    return urlsafe_b64encode(checksum + _xor(raw, checksum + key)).rstrip(b"=").decode()


def decode_link(code: str, key: bytes = b"") -> str | None:
    """Return the encoded text, or None if the code is invalid or was made with another key."""
    try:
        if len(code) > _MAX_CODE_LENGTH:
            raise ValueError
        raw = urlsafe_b64decode(code.encode("ascii") + b"=" * (-len(code) % 4))
        checksum, text = raw[:_CHECKSUM_BYTES], _xor(raw[_CHECKSUM_BYTES:], raw[:_CHECKSUM_BYTES] + key)
        if _checksum(text, key) != checksum:
            raise ValueError
        return text.decode()
    except (Error, ValueError):
        return None


def _checksum(text: bytes, key: bytes) -> bytes:
    return blake2b(text, digest_size=_CHECKSUM_BYTES, key=key, person=b"companyos link").digest()


def _xor(text: bytes, key: bytes) -> bytes:
    """XOR a text with a byte stream. The key includes the checksum, so each text has its own stream."""
    blocks = range(len(text) // 64 + 1)  # a digest has 64 bytes
    stream = b"".join(blake2b(bytes([block]), key=key, person=b"companyos link").digest() for block in blocks)
    return bytes(byte ^ mask for byte, mask in zip(text, stream, strict=False))
