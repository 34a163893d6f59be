"""Wire: typed values to JSON and back; what does not fit is named."""

from typing import Generic, TypeVar

import msgspec

from companyos.core.calls import Call, Reply, parse
from companyos.serve.errors import Malformed

T = TypeVar("T")
JSON = "application/json"

encode = msgspec.json.Encoder().encode


class Reader(Generic[T]):
    """Reads bodies of one type."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self._decoder = msgspec.json.Decoder(kind)

    def __call__(self, raw: bytes) -> T:
        """A body; an empty one is an empty object. `Malformed` names the field."""
        try:
            return self._decoder.decode(raw or b"{}")
        except RecursionError:
            raise Malformed("nested too deep") from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Malformed(str(error)) from None


def checked(call: Call) -> Call:
    """A call, if it is one that can be journaled and played again; else `Malformed`."""
    found = parse(call)
    if isinstance(found, Reply):
        raise Malformed("params: nested too deep, or not to be written as JSON")
    return found
