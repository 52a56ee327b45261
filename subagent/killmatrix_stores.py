"""Where the killed tree is stored: how its sessions are opened to be killed, and looked at afterwards.

Read with: ``killmatrix_processes.py``, ``unspool.trajectory.killmatrix_logs`` (what is opened).
"""

import os
from collections.abc import Callable
from typing import Any

from unspool.trajectory.head import Head
from unspool.trajectory.jsonl import JsonlLog
from unspool.trajectory.jsonl_sessions import JsonlSessions, _Begun
from unspool.trajectory.killmatrix_logs import DoomedJsonl, DoomedSessions, Tell
from unspool.trajectory.killmatrix_points import Points
from unspool.trajectory.killmatrix_stores import Stored, stored_in_database, stored_in_file
from unspool.trajectory.names import SUFFIX
from unspool.trajectory.sessions import Sessions
from unspool.trajectory.sqlite_sessions import SqliteSessions

TellHead = Callable[[str, Head], None]
"""What an acknowledgement is told to: the session, and the head of its log."""


class _DoomedBegun(DoomedJsonl, _Begun):
    """The same for a file that is there already."""


class _DoomedFolder(JsonlSessions):
    def __init__(self, folder: str, points: Points, tell_of: Callable[[str], Tell]) -> None:
        super().__init__(folder)
        self._points, self._tell_of = points, tell_of

    def _log(self, kind: type[JsonlLog], path: str, session: str, **about: Any) -> JsonlLog:
        doomed = _DoomedBegun if kind is _Begun else DoomedJsonl
        return doomed(path, self._points.within(session), self._tell_of(session), session, **about)


def _folder(folder: str) -> str:
    return os.path.join(folder, "sessions")


def _file(folder: str) -> str:
    return os.path.join(folder, "sessions.db")


def doomed_sessions(log: str, folder: str, points: Points, tell: TellHead) -> Sessions:
    """The sessions of a tree in ``folder``, on a kind of log, with the places to die at."""

    def tell_of(session: str) -> Tell:
        return lambda head: tell(session, Head.of(head) or Head(0, ""))

    if log == "jsonl":
        return _DoomedFolder(_folder(folder), points, tell_of)
    return DoomedSessions(_file(folder), points, points.within, tell_of)


def stored_sessions(log: str, folder: str) -> Sessions:
    """The same to be looked at."""
    return JsonlSessions(_folder(folder)) if log == "jsonl" else SqliteSessions(_file(folder))


def stored_facts(log: str, folder: str) -> dict[str, list[Stored]]:
    """What is stored of each session, read without them."""
    if log == "sqlite":
        return stored_in_database(_file(folder))
    place = _folder(folder)
    files = [name for name in sorted(os.listdir(place)) if name.endswith(SUFFIX)]
    return {name.removesuffix(SUFFIX): stored_in_file(os.path.join(place, name)) for name in files}
