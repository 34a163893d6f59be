"""JSON encoding and decoding of typed values."""

from typing import Generic, TypeVar

import msgspec

from companyos.core.calls import Call, Reply, parse
from companyos.serve.errors import Malformed

T = TypeVar("T")
JSON = "application/json"

encode = msgspec.json.Encoder().encode


class Reader(Generic[T]):
    """Decodes bodies of one type."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self._decoder = msgspec.json.Decoder(kind)

    def __call__(self, raw: bytes) -> T:
        """Decode a body; an empty body counts as `{}`. Raise `Malformed`, which names the wrong field."""
        try:
            return self._decoder.decode(raw or b"{}")
        except RecursionError:
            raise Malformed("nested too deep") from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Malformed(str(error)) from None


def checked(call: Call) -> Call:
    """Return the call if it can be recorded and replayed; otherwise raise `Malformed`."""
    parsed = parse(call)
    if isinstance(parsed, Reply):
        raise Malformed("params: nested too deep, or not valid JSON")
    return parsed
