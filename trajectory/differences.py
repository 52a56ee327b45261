"""Where two facts differ, field by field.

Read with: ``replay.py``.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from unspool.kernel.codec import Codec
from unspool.kernel.events import Fact

_SHOWN: Final = 200  # characters of a value that a line shows
ABSENT: Final = "(absent)"


class FieldDiff(Struct, frozen=True):
    """One field: its path, what was recorded and what the replay made of it, as JSON values."""

    path: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        return f"{self.path}: {_shown(self.recorded)} → {_shown(self.replayed)}"


class Difference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first fact of a replay that is not the one that was recorded.

    ``what``: ``changed`` (another fact, or other fields), ``extra`` (the log had ended), ``missing`` (the
    replay ended, or waits for something that the log does not tell), ``failed`` (the replayed code raised).
    """

    seq: int
    what: Literal["changed", "extra", "missing", "failed"]
    message: str
    recorded: str = ""
    replayed: str = ""
    fields: tuple[FieldDiff, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"fact {self.seq}: {self.message}", *(f"  {field}" for field in self.fields)])


def difference_of(recorded: Fact, replayed: Fact, codec: Codec) -> Difference | None:
    """How two facts differ; None where they are the same, byte for byte."""
    before, after = codec.encode(recorded), codec.encode(replayed)
    if before == after or codec.encode(codec.decode(before)) == after:
        return None
    old, new = msgspec.json.decode(before), msgspec.json.decode(after)
    kinds = str(old.get("type")), str(new.get("type"))
    fields = tuple(_differences("", old, new))
    message = f"{kinds[0]} differs" if kinds[0] == kinds[1] else f"{kinds[0]} was recorded, {kinds[1]} came"
    if not fields:
        return None  # the same values, written in another order
    return Difference(
        seq=recorded.seq, what="changed", message=message, recorded=kinds[0], replayed=kinds[1], fields=fields
    )


def _differences(path: str, old: Any, new: Any) -> Iterator[FieldDiff]:
    match old, new:
        case dict(), dict():
            for key in {**old, **new}:
                inner = f"{path}.{key}" if path else str(key)
                yield from _differences(inner, old.get(key, ABSENT), new.get(key, ABSENT))
        case list(), list() if len(old) == len(new):
            for index, (left, right) in enumerate(zip(old, new, strict=True)):
                yield from _differences(f"{path}[{index}]", left, right)
        case _ if old != new or type(old) is not type(new):
            yield FieldDiff(path, old, new)
        case _:
            return


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
