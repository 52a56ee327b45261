"""Where facts come from: whatever a caller has at hand.

Read with: ``loading.py``, ``sessions.py``.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias, runtime_checkable

from unspool.kernel.codec import Record
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact

from .files import is_database
from .lines import LogPath
from .loading import iter_facts


@runtime_checkable
class HasRecords(Protocol):
    """A log that can be read at once."""

    def records(self) -> Iterator[Record]: ...


Source: TypeAlias = "LogPath | HasRecords | Iterable[Fact]"
"""A JSONL file, an open log, or facts: ``sessions.facts(id)``, a list."""


def facts_from(source: Source) -> Iterator[Fact]:
    """The facts of a source, in their order.

    Raises:
        LogError: a log that cannot be read, or is damaged; facts that are missing or stand in another order.
        TypeError: it is none of these.
    """
    if isinstance(source, str | os.PathLike):
        return _of_file(source)
    if isinstance(source, HasRecords):
        return (record.fact for record in source.records())
    return _in_order(source)


def _of_file(path: LogPath) -> Iterator[Fact]:
    try:
        yield from iter_facts(path)
    except LogError as error:
        if error.details.get("kind") == "not_a_log" and is_database(path):
            what = "log: this is a file of many sessions, give SqliteSessions(path).facts(session)"
            raise LogError(what, kind="not_a_log", path=os.fspath(path)) from None
        raise


def _in_order(facts: Iterable[Fact]) -> Iterator[Fact]:
    last = 0
    for fact in facts:
        if last and fact.seq != last + 1:
            raise LogError("log: a fact is missing", kind="gap", expected=last + 1, seq=fact.seq)
        last = fact.seq
        yield fact
