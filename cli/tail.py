"""``unspool tail``: the last facts of a session, one a line, and those that come.

Read with: ``places.py``, ``unspool.kernel.trace`` (the lines).
"""

from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime
from typing import Final

import anyio

from unspool.kernel.codec import Record
from unspool.kernel.events import AgentStart, Fact, MessageEnd
from unspool.kernel.trace import line

from .output import console, raw_stdout
from .places import Place
from .view import printable

_CHARS: Final = 160  # of a line


def tail(place: Place, count: int, *, follow: bool, as_json: bool) -> int:
    """Print the last ``count`` facts; with ``follow`` those after them too, until a signal ends the process."""
    print_record = _print_json() if as_json else _print_text()
    last, kept = 0, deque[Record](maxlen=count)
    for record in place.records():
        last = record.fact.seq
        kept.append(record)
    for record in kept:
        print_record(record)
    if follow:
        anyio.run(_follow, place, last, print_record)
    return 0


async def _follow(place: Place, last: int, print_record: Callable[[Record], None]) -> None:
    async with aclosing(place.follow(last)) as records:
        async for record in records:
            print_record(record)


def _print_json() -> Callable[[Record], None]:
    out = raw_stdout()

    def print_record(record: Record) -> None:
        out.write(record.raw + b"\n")
        out.flush()

    return print_record


def _print_text() -> Callable[[Record], None]:
    out = console()

    def print_record(record: Record) -> None:
        fact = record.fact
        time = datetime.fromtimestamp(fact.time).strftime("%H:%M:%S")
        text = f"{fact.seq:>6}  {time}  {printable(_line(fact))}"
        out.print(text if len(text) <= _CHARS else f"{text[:_CHARS]}…", soft_wrap=True)

    return print_record


def _line(fact: Fact) -> str:
    """The fact in a line, with the ids that ``fork --before`` understands."""
    tag, _, rest = line(fact).partition(" ")
    match fact:
        case AgentStart():
            return f"{tag} {fact.run_id} {rest}"
        case MessageEnd():
            return f"{tag} {fact.id} {rest}"
        case _:
            return f"{tag} {rest}"
