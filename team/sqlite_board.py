"""A task board in an SQLite file, for several processes of one machine.

Read with: ``board.py`` (what is promised), ``sqlite_shelf.py`` (the tables), ``sqlite_place.py`` (the file).
"""

import os
import sqlite3

from unspool.kernel.clock import SystemClock
from unspool.kernel.ports import Clock

from .board import KEPT_FINISHED, MAX_UNFINISHED
from .board_steps import BoardSteps
from .sqlite_place import POLL_S, SqlitePlace
from .sqlite_shelf import TABLES, SqliteShelf
from .stepped_board import SteppedBoard


class SqliteBoard(SteppedBoard):
    """A ``Board`` in a file, which is made if it is missing; its folder must be on a local disk. The team's mailbox
    and roster may be in the same file.

    What was done survives the death of the process; with ``full`` also that of the machine, and each change waits for
    the disk. The limits are what this process heeds. Leases end by ``clock.time()``, which is the machine's for all
    processes. A process that is forked makes its own. Close it: its thread and its connection are there until then.

    Raises:
        TeamError: the file cannot be opened, or is something else; (all methods) it cannot be read or written.
        ValueError: it is to take no task, or ``poll_s`` is not positive.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Clock | None = None,
        *,
        max_unfinished: int = MAX_UNFINISHED,
        kept_finished: int = KEPT_FINISHED,
        poll_s: float = POLL_S,
        full: bool = False,
    ) -> None:
        used = clock or SystemClock()

        def make(connection: sqlite3.Connection) -> SqliteBoardSteps:
            return SqliteBoardSteps(SqliteShelf(connection), used, max_unfinished, kept_finished)

        super().__init__(SqlitePlace(path, TABLES, make, used, poll_s=poll_s, full=full), used)


class SqliteBoardSteps(BoardSteps):
    """The steps on what is stored."""

    def __init__(self, shelf: SqliteShelf, clock: Clock, max_unfinished: int, kept_finished: int) -> None:
        super().__init__(shelf, clock, max_unfinished, kept_finished)
        self._stored = shelf

    def begin(self) -> None:
        self._stored.begin()

    def stored_version(self) -> int:
        return self._stored.stored_version()

    def end(self) -> None:
        self._stored.end()

    def forget(self) -> None:
        """Nothing is kept: the next step reads what it needs."""
