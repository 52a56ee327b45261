"""Contents that a log stores by hash, as the values they were.

Read with: ``rebuild.py``, ``recording.py``, ``settings.py``.
"""

from typing import Any, TypeVar

import msgspec
from msgspec.structs import force_setattr

T = TypeVar("T")


def from_blob(blob: Any, kind: type[T]) -> T:
    """The value of ``kind`` that was stored as ``blob``: it has the same hash again.

    A whole number in a field for fractions stays one: 1 and 1.0 are equal, but other texts.
    """
    value = msgspec.convert(blob, kind)
    _restore(blob, value)
    return value


def _restore(blob: Any, value: Any) -> None:
    if isinstance(value, msgspec.Struct) and isinstance(blob, dict):
        for name in value.__struct_fields__:
            given, held = blob.get(name), getattr(value, name)
            if type(given) is int and type(held) is float:
                force_setattr(value, name, given)
    elif isinstance(value, list | tuple):
        for given, held in zip(blob, value, strict=True):
            _restore(given, held)
