"""A record decoded once: what checks its number and what takes its fact share the work.

Read with: ``jsonl_reading.py``, ``sqlite.py``, ``damage.py`` (who check), ``loading.py``, ``verify.py`` (who take).
"""

from collections.abc import Callable
from typing import TypeAlias

from unspool.kernel.codec import Codec
from unspool.kernel.errors import CodecError
from unspool.kernel.events import Fact

from .blobs import has_references
from .record import peek

NumberOf: TypeAlias = Callable[[bytes], int]
"""Gives the number of a stored record; raises what ``peek`` raises."""


def number_of(line: bytes) -> int:
    """The number of a stored record, for whoever does not want its fact."""
    return peek(line).seq


class Once:
    """Decodes records; whoever asks for the number of one first, and then for its fact, pays once."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self._decode = codec.decode
        self._line = b""
        self._fact: Fact | None = None

    def number_of(self, line: bytes) -> int:
        """The number of a stored record, also of one that does not fit its type."""
        if has_references(line):
            return number_of(line)
        try:
            fact = self._decode(line)
        except (CodecError, RecursionError):
            return number_of(line)
        self._line, self._fact = line, fact
        return fact.seq

    def decode(self, line: bytes) -> Fact:
        """The fact of a stored record.

        Raises:
            CodecError: as ``Codec.decode``.
        """
        fact = self._fact
        return fact if fact is not None and line is self._line else self._decode(line)
