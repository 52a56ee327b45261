"""The tasks of a board in SQLite tables: each question of a step as one query in its transaction.

Read with: ``board_steps.py`` (``Shelf``), ``sqlite_board.py``.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, Final

from .board import BoardTask
from .board_drafts import decode, encode

TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS board_head (
      one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL, number INTEGER NOT NULL)""",
    # the lowest rank that is ready is claimed first; ``outcome`` is the version in which it got one
    """CREATE TABLE IF NOT EXISTS board_tasks (
      number INTEGER PRIMARY KEY, key TEXT, rank INTEGER NOT NULL, ready INTEGER NOT NULL, holder TEXT, until REAL,
      outcome INTEGER, done INTEGER NOT NULL, line BLOB NOT NULL)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS board_tasks_by_key ON board_tasks (key) WHERE key IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS board_tasks_ready ON board_tasks (rank, number) WHERE ready",
    "CREATE INDEX IF NOT EXISTS board_tasks_held ON board_tasks (holder, number) WHERE holder IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS board_tasks_leased ON board_tasks (until) WHERE until IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS board_tasks_finished ON board_tasks (outcome)",
    """CREATE TABLE IF NOT EXISTS board_needs (
      need INTEGER NOT NULL, task INTEGER NOT NULL, PRIMARY KEY (need, task)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS board_needs_by_task ON board_needs (task)",
)
_PUT: Final = "INSERT OR REPLACE INTO board_tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
# in pieces, so that no query is under way when the task that was found is written
_READY: Final = """
SELECT rank, number, line FROM board_tasks WHERE ready AND (rank, number) > (?, ?) ORDER BY rank, number LIMIT 64
"""
_OLDEST: Final = """
SELECT number FROM board_tasks AS this WHERE outcome IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM board_needs JOIN board_tasks AS other ON other.number = board_needs.task
  WHERE board_needs.need = this.number AND NOT other.done)
ORDER BY outcome LIMIT ?
"""


class SqliteShelf:
    """A ``Shelf``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self.version = 0
        self.number = 0
        self._stored = (0, 0)

    def begin(self) -> None:
        row = self._execute("SELECT version, number FROM board_head").fetchone()
        self._stored = (0, 0) if row is None else (row[0], row[1])
        self.version, self.number = self._stored

    def stored_version(self) -> int:
        row = self._execute("SELECT version FROM board_head").fetchone()
        return 0 if row is None else int(row[0])

    def end(self) -> None:
        if (self.version, self.number) != self._stored:
            self._execute("INSERT OR REPLACE INTO board_head VALUES (1, ?, ?)", (self.version, self.number))

    def _tasks(self, condition: str, *values: Any) -> Sequence[BoardTask]:
        rows = self._execute(f"SELECT line FROM board_tasks {condition}", values).fetchall()
        return [decode(line) for (line,) in rows]

    def get(self, id: str) -> BoardTask | None:
        number = _number(id)
        found = () if number is None else self._tasks("WHERE number = ?", number)
        return found[0] if found else None

    def with_key(self, key: str) -> BoardTask | None:
        found = self._tasks("WHERE key = ?", key)
        return found[0] if found else None

    def put(self, task: BoardTask, *, ready: bool) -> None:
        number = int(task.id[1:])
        self._execute(
            _PUT,
            (
                number,
                task.key or None,
                -task.priority,
                ready,
                task.assignee if task.status == "claimed" else None,
                task.until or None,
                self.version if task.is_finished else None,
                task.status == "done",
                encode(task),
            ),
        )
        self._execute("DELETE FROM board_needs WHERE task = ?", (number,))
        needs = [(int(id[1:]), number) for id in task.depends_on]
        self._executemany("INSERT INTO board_needs VALUES (?, ?)", needs)

    def drop(self, id: str) -> None:
        number = int(id[1:])
        self._execute("DELETE FROM board_tasks WHERE number = ?", (number,))
        self._execute("DELETE FROM board_needs WHERE task = ?", (number,))

    def tasks(self) -> Sequence[BoardTask]:
        return self._tasks("ORDER BY number")

    def ready(self) -> Iterator[BoardTask]:
        place = (-(2**62), 0)
        while rows := self._execute(_READY, place).fetchall():
            for rank, number, line in rows:
                place = (rank, number)
                yield decode(line)

    def held_by(self, name: str) -> Sequence[BoardTask]:
        return self._tasks("WHERE holder = ? ORDER BY number", name)

    def expired(self, now: float) -> Sequence[BoardTask]:
        # the plus keeps SQLite from reading all tasks, in their order, to find the few that have a lease
        return self._tasks("WHERE until <= ? ORDER BY +number", now)

    def next_expiry(self) -> float:
        ((until,),) = self._execute("SELECT min(until) FROM board_tasks WHERE until IS NOT NULL").fetchall()
        return inf if until is None else float(until)

    def depending_on(self, id: str) -> Sequence[BoardTask]:
        condition = "WHERE number IN (SELECT task FROM board_needs WHERE need = ?) ORDER BY number"
        return self._tasks(condition, int(id[1:]))

    def unfinished(self) -> int:
        return self._count("outcome IS NULL")

    def finished(self) -> int:
        return self._count("outcome IS NOT NULL")

    def _count(self, condition: str) -> int:
        ((count,),) = self._execute(f"SELECT count(*) FROM board_tasks WHERE {condition}").fetchall()
        return int(count)

    def oldest_finished(self, limit: int) -> Sequence[str]:
        return [f"t{number}" for (number,) in self._execute(_OLDEST, (limit,)).fetchall()]


def _number(id: str) -> int | None:
    """None where there is no task of such an id."""
    digits = id[1:]
    if id[:1] != "t" or not digits.isascii() or not digits.isdecimal() or len(digits) > 18:
        return None
    return int(digits) if digits == str(int(digits)) else None
