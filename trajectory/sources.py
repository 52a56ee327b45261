"""Where facts come from: whatever a caller has at hand.

Read with: ``loading.py``, ``sessions.py``.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias, runtime_checkable

from unspool.kernel.codec import Record
from unspool.kernel.events import Fact

from .lines import LogPath
from .loading import iter_facts


@runtime_checkable
class HasRecords(Protocol):
    """A log that can be read at once."""

    def records(self) -> Iterator[Record]: ...


Source: TypeAlias = "LogPath | HasRecords | Iterable[Fact]"
"""A JSONL file, an open log, or facts: ``sessions.facts(id)``, a list."""


def facts_from(source: Source) -> Iterator[Fact]:
    """The facts of a source, from the first on.

    Raises:
        LogError: a log that cannot be read, or is damaged.
    """
    if isinstance(source, str | os.PathLike):
        return iter_facts(source)
    if isinstance(source, HasRecords):
        return (record.fact for record in source.records())
    return iter(source)
