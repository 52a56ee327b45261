"""The places at which a process may be killed, and how it dies there.

A place is a kind and a number: ``torn:137`` is the 137th time that a process comes to ``torn``. The
session does the same each time, so that a place is met again by its name.

Read with: ``killmatrix.py``, ``killmatrix_logs.py`` (who comes to most of them).
"""

import copy
import os
import signal
from collections import Counter
from typing import Final, NamedTuple, NoReturn

KINDS: Final = {
    "before": "before an append",
    "open": "in the open transaction",
    "torn": "in the middle of the write",
    "written": "written, not acknowledged",
    "acked": "acknowledged",
    "aside": "making the log, large contents",
    "flush": "before a flush",
    "sync": "while the disk is waited for",
    "flushed": "after a flush",
    "tool": "in a tool, before its effect",
    "effect": "in a tool, after its effect",
}


class Place(NamedTuple):
    """Where a process is killed; as text ``<kind>:<number>``, after ``<session>/`` where there are several."""

    kind: str
    number: int
    session: str = ""

    def __str__(self) -> str:
        return f"{self.session}{'/' if self.session else ''}{self.kind}:{self.number}"

    @staticmethod
    def of(text: str) -> "Place":
        """A place from its text.

        Raises:
            ValueError: that is no place.
        """
        session, _, place = text.rpartition("/")
        kind, _, number = place.partition(":")
        if kind not in KINDS or not number.isdecimal():
            raise ValueError(f"a place is <kind>:<number>, this is none: {text!r}")
        return Place(kind, int(number), session)


class Points:
    """Counts the places that a process comes to, and kills it at the one that is its ``end``.

    ``trail`` are the places so far, in order.
    """

    def __init__(self, end: Place | None = None) -> None:
        self.end = end
        self.trail: list[Place] = []
        self._session = ""
        self._counts: Counter[tuple[str, str]] = Counter()

    def within(self, session: str) -> "Points":
        """The same, for what one session of several comes to: its places have numbers of their own."""
        points = copy.copy(self)
        points._session = session
        return points

    def is_end(self, kind: str) -> bool:
        """Count one more place; whether the process is to die here, in the caller's own way."""
        session = self._session
        self._counts[session, kind] += 1
        place = Place(kind, self._counts[session, kind], session)
        self.trail.append(place)
        return place == self.end

    def reach(self, kind: str) -> None:
        """Count one more place; there is no return from the end."""
        if self.is_end(kind):
            die()


def die() -> NoReturn:
    """Kill this process, so that nothing of it can tidy up."""
    os.kill(os.getpid(), signal.SIGKILL)
    while True:  # the signal may need a moment where another thread is asked to take it
        signal.pause()
