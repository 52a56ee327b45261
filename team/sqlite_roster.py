"""A roster in an SQLite file, for several processes of one machine.

Read with: ``roster.py`` (what is promised), ``roster_steps.py`` (the rules), ``sqlite_place.py`` (the file).
"""

import os
import sqlite3
from collections.abc import Callable
from typing import Final

import msgspec

from unspool.kernel.clock import SystemClock
from unspool.kernel.ports import Clock

from .roster import MAX_MEMBERS, MemberInfo
from .roster_steps import RosterHead, RosterSteps
from .sqlite_place import POLL_S, SqlitePlace
from .stepped_roster import SteppedRoster

_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS roster_head (
      one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER NOT NULL, version INTEGER NOT NULL,
      line BLOB NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS roster_members (
      name TEXT NOT NULL PRIMARY KEY, line BLOB NOT NULL) WITHOUT ROWID""",
)
_encode: Final = msgspec.json.Encoder().encode
_member: Callable[[bytes], MemberInfo] = msgspec.json.Decoder(MemberInfo).decode
_head: Callable[[bytes], RosterHead] = msgspec.json.Decoder(RosterHead).decode


class SqliteRoster(SteppedRoster):
    """A ``Roster`` in a file, which is made if it is missing; its folder must be on a local disk. The team's mailbox
    and board may be in the same file.

    What was done survives the death of the process; with ``full`` also that of the machine, and each change waits for
    the disk. ``max_members``, besides the lead, is what this process heeds. Times are ``clock.time()``, which is the
    machine's for all processes. A process that is forked makes its own. Close it: its thread and its connection are
    there until then.

    Raises:
        TeamError: the file cannot be opened, or is something else; (all methods) it cannot be read or written.
        ValueError: ``max_members`` or ``poll_s`` is not positive.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Clock | None = None,
        *,
        max_members: int = MAX_MEMBERS,
        poll_s: float = POLL_S,
        full: bool = False,
    ) -> None:
        used = clock or SystemClock()
        place = SqlitePlace(
            path,
            _TABLES,
            lambda connection: SqliteRosterSteps(connection, used, max_members),
            used,
            poll_s=poll_s,
            full=full,
        )
        super().__init__(place, used)


class SqliteRosterSteps(RosterSteps):
    """All members are in memory, and read again where another process has changed one."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock, max_members: int) -> None:
        super().__init__(clock, max_members)
        self._execute = connection.execute
        self._stored = self.head

    def begin(self) -> None:
        row = self._execute("SELECT revision, line FROM roster_head").fetchone()
        if row is None:
            self.head, self.all = RosterHead(), {}
        elif row[0] != self._stored.revision:
            lines = self._execute("SELECT line FROM roster_members").fetchall()
            self.head, self.all = (
                _head(row[1]),
                {info.name: info for info in (_member(line) for (line,) in lines)},
            )
        self._stored = self.head

    def stored_version(self) -> int:
        row = self._execute("SELECT version FROM roster_head").fetchone()
        return 0 if row is None else int(row[0])

    def end(self) -> None:
        if self.head.revision == self._stored.revision:
            return
        for name in self.changed:
            info = self.all.get(name)
            if info is None:
                self._execute("DELETE FROM roster_members WHERE name = ?", (name,))
            else:
                self._execute("INSERT OR REPLACE INTO roster_members VALUES (?, ?)", (name, _encode(info)))
        self.changed.clear()
        head = self.head
        self._execute(
            "INSERT OR REPLACE INTO roster_head VALUES (1, ?, ?, ?)",
            (head.revision, head.team.version, _encode(head)),
        )
        self._stored = head

    def forget(self) -> None:
        self.head = self._stored = RosterHead(revision=-1)
        self.all = {}
        self.changed.clear()
