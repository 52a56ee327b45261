"""Boxes in an SQLite file: the tables, and each step of a mailbox as a few statements in an open transaction.

A step that cannot be done yet gives ``LATER`` and has changed nothing. ``arrived`` and ``room`` name the boxes in
which letters came to wait, or which have room, for those who wait here; other processes see that the file changed.

Read with: ``sqlite_worker.py`` (who opens and ends the transactions), ``sqlite_mailbox.py``.
"""

import sqlite3
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

import msgspec

from unspool.kernel.ports import Clock

from .letters import DeadLetter, Delivery, Letter
from .mailbox import CLOSED, FULL, KEPT_DEAD_LETTERS, KEPT_IDS, UNKNOWN, BoxInfo
from .refusals import closed, unknown

TABLES: Final = (
    """CREATE TABLE boxes (
      row INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, state TEXT NOT NULL, capacity INTEGER NOT NULL,
      number INTEGER NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0, closings INTEGER NOT NULL DEFAULT 0)""",
    # letters that are not acknowledged; those with a reader are out to it
    """CREATE TABLE letters (
      row INTEGER PRIMARY KEY, box INTEGER NOT NULL, number INTEGER NOT NULL, sender TEXT NOT NULL,
      id TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 0, reader TEXT, until REAL, line BLOB NOT NULL)""",
    "CREATE UNIQUE INDEX letters_by_id ON letters (box, id)",
    "CREATE UNIQUE INDEX letters_by_number ON letters (box, number)",
    "CREATE INDEX letters_waiting ON letters (box, number) WHERE reader IS NULL",
    "CREATE INDEX letters_out ON letters (box, sender, reader) WHERE reader IS NOT NULL",
    "CREATE INDEX letters_leased ON letters (box, until) WHERE reader IS NOT NULL",
    """CREATE TABLE seen (box INTEGER NOT NULL, id TEXT NOT NULL, number INTEGER NOT NULL,
      PRIMARY KEY (box, id)) WITHOUT ROWID""",
    "CREATE INDEX seen_by_number ON seen (box, number)",
    """CREATE TABLE dead (row INTEGER PRIMARY KEY AUTOINCREMENT, sender TEXT NOT NULL, line BLOB NOT NULL,
      reason TEXT NOT NULL, at REAL NOT NULL)""",
)

_NEXT: Final = """
SELECT row, number, attempt, line FROM letters AS this WHERE box = ? AND reader IS NULL AND NOT EXISTS (
  SELECT 1 FROM letters AS other
  WHERE other.box = this.box AND other.sender = this.sender AND other.reader IS NOT NULL AND other.reader <> ?)
ORDER BY number LIMIT ?
"""
_INFOS: Final = """
SELECT name, state, capacity, held,
  (SELECT count(*) FROM letters WHERE box = boxes.row AND reader IS NOT NULL AND until > ?)
FROM boxes ORDER BY name
"""

encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
decode: Callable[[bytes], Letter] = msgspec.json.Decoder(Letter).decode


class Later(Enum):
    LATER = "later"


LATER: Final = Later.LATER
"""What was asked for cannot be done yet: there is no letter, or no room."""


class _Box(NamedTuple):
    row: int
    state: Literal["busy", "resting", "closed"]
    capacity: int
    held: int
    closings: int


class Boxes:
    """The steps. One thread uses it."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._clock = clock
        self.arrived: set[str] = set()
        self.room: set[str] = set()

    def _find(self, name: str) -> _Box | None:
        query = "SELECT row, state, capacity, held, closings FROM boxes WHERE name = ?"
        row = self._execute(query, (name,)).fetchone()
        return None if row is None else _Box(*row)

    def _box(self, name: str) -> _Box:
        box = self._find(name)
        if box is None:
            raise unknown(name)
        return box

    def _open_box(self, name: str) -> _Box:
        box = self._box(name)
        if box.state == "closed":
            raise closed(name)
        return box

    # --- boxes

    def open(self, name: str, capacity: int) -> None:
        self._execute(
            "INSERT INTO boxes (name, state, capacity) VALUES (?, 'busy', ?) ON CONFLICT (name)"
            " DO UPDATE SET state = 'busy', capacity = excluded.capacity WHERE state = 'closed'",
            (name, capacity),
        )

    def close(self, name: str, reason: str) -> list[DeadLetter]:
        box = self._box(name)
        if box.state == "closed":
            return []
        lines = self._execute("SELECT line FROM letters WHERE box = ? ORDER BY number", (box.row,)).fetchall()
        self._execute("DELETE FROM letters WHERE box = ?", (box.row,))
        self._execute(
            "UPDATE boxes SET state = 'closed', held = 0, closings = closings + 1 WHERE row = ?", (box.row,)
        )
        self.arrived.add(name)  # so that those who wait see that it is closed
        self.room.add(name)
        return [self._bury(line, reason) for (line,) in lines]

    def rest(self, name: str, notice: Letter | None, line: bytes) -> bool:
        box = self._open_box(name)
        if box.held:
            return False
        self._execute("UPDATE boxes SET state = 'resting' WHERE row = ? AND state <> 'resting'", (box.row,))
        if notice is not None:
            self._notify(notice, line)
        return True

    def _notify(self, notice: Letter, line: bytes) -> None:
        box = self._find(notice.to)
        if box is not None and self._knows(box, notice.id):
            return
        if box is not None and box.state != "closed" and box.held < box.capacity:
            self._put(box, notice, line)
            return
        self._bury(line, UNKNOWN if box is None else CLOSED if box.state == "closed" else FULL)

    def infos(self) -> list[BoxInfo]:
        rows = self._execute(_INFOS, (self._clock.time(),)).fetchall()
        return [
            BoxInfo(name=name, state=state, capacity=capacity, waiting=held - out, out=out)
            for name, state, capacity, held, out in rows
        ]

    # --- letters

    def send(self, letter: Letter, line: bytes, closings: int | None) -> bool | Later:
        """``closings`` is how often the box had been closed when the sender began to wait."""
        box = self._box(letter.to)
        if self._knows(box, letter.id):
            return False
        if box.state == "closed" or closings not in (None, box.closings):
            raise closed(letter.to)
        if box.held >= box.capacity:
            return LATER
        self._put(box, letter, line)
        return True

    def closings(self, name: str) -> int:
        return self._box(name).closings

    def capacity(self, name: str) -> int:
        return self._box(name).capacity

    def _knows(self, box: _Box, id: str) -> bool:
        query = (
            "SELECT 1 FROM seen WHERE box = ?1 AND id = ?2"
            " UNION ALL SELECT 1 FROM letters WHERE box = ?1 AND id = ?2"
        )
        return self._execute(query, (box.row, id)).fetchone() is not None

    def _put(self, box: _Box, letter: Letter, line: bytes) -> None:
        ((number,),) = self._execute(
            "UPDATE boxes SET number = number + 1, held = held + 1, state = 'busy' WHERE row = ? RETURNING number",
            (box.row,),
        ).fetchall()
        self._execute(
            "INSERT INTO letters (box, number, sender, id, line) VALUES (?, ?, ?, ?, ?)",
            (box.row, number, letter.sender, letter.id, line),
        )
        self._execute("INSERT INTO seen VALUES (?, ?, ?)", (box.row, letter.id, number))
        self._execute("DELETE FROM seen WHERE box = ? AND number <= ?", (box.row, number - KEPT_IDS))
        self.arrived.add(letter.to)

    def receive(
        self, name: str, limit: int, lease_s: float, reader: str, closings: int | None
    ) -> list[Delivery] | Later:
        """``closings`` is how often the box had been closed when the reader began to wait."""
        box = self._open_box(name)
        if closings not in (None, box.closings):  # it is open again, for another reader
            raise closed(name)
        now = self._clock.time()
        self._execute(
            "UPDATE letters SET reader = NULL, until = NULL WHERE box = ? AND reader IS NOT NULL AND until <= ?",
            (box.row, now),
        )
        rows = self._execute(_NEXT, (box.row, reader, limit)).fetchall()
        if not rows:
            return LATER
        self._executemany(
            "UPDATE letters SET reader = ?, until = ?, attempt = attempt + 1 WHERE row = ?",
            [(reader, now + lease_s, row) for row, *_ in rows],
        )
        self._execute("UPDATE boxes SET state = 'busy' WHERE row = ? AND state <> 'busy'", (box.row,))
        return [
            Delivery(letter=decode(line), number=number, attempt=attempt + 1)
            for _, number, attempt, line in rows
        ]

    def next_expiry(self, name: str) -> float | None:
        """When the next lease of the box is over."""
        query = (
            "SELECT min(until) FROM letters WHERE box = (SELECT row FROM boxes WHERE name = ?)"
            " AND reader IS NOT NULL"
        )
        ((until,),) = self._execute(query, (name,)).fetchall()
        return until if until is None else float(until)

    def acknowledge(self, name: str, ids: Sequence[str]) -> None:
        self._remove(name, ids)

    def refuse(self, name: str, ids: Sequence[str], reason: str) -> list[DeadLetter]:
        return [self._bury(line, reason) for line in self._remove(name, ids)]

    def _remove(self, name: str, ids: Sequence[str]) -> list[bytes]:
        box, lines = self._box(name), []
        _check_texts(ids)
        for id in ids:
            found = self._execute(
                "DELETE FROM letters WHERE box = ? AND id = ? RETURNING line", (box.row, id)
            ).fetchall()
            lines += [line for (line,) in found]
        if lines:
            self._execute("UPDATE boxes SET held = held - ? WHERE row = ?", (len(lines), box.row))
            self.arrived.add(name)  # the next ones of their senders may go to other readers
            self.room.add(name)
        return lines

    def renew(self, name: str, ids: Sequence[str], lease_s: float, reader: str) -> None:
        row, until = self._box(name).row, self._clock.time() + lease_s
        _check_texts([reader, *ids])
        self._executemany(
            "UPDATE letters SET until = ? WHERE box = ? AND id = ? AND reader = ?",
            [(until, row, id, reader) for id in ids],
        )

    def release(self, name: str, ids: Sequence[str] | None, reader: str, *, undo: bool = False) -> None:
        """``undo``: they were not delivered, since who asked for them was cancelled."""
        row = self._box(name).row
        if ids is None:
            held = self._execute(
                "SELECT id FROM letters WHERE box = ? AND reader = ?", (row, reader)
            ).fetchall()
            ids = [id for (id,) in held]
        _check_texts([reader, *ids])
        self._executemany(
            "UPDATE letters SET reader = NULL, until = NULL, attempt = attempt - ?"
            " WHERE box = ? AND id = ? AND reader = ?",
            [(int(undo), row, id, reader) for id in ids],
        )
        self.arrived.add(name)

    # --- dead letters

    def _bury(self, line: bytes, reason: str) -> DeadLetter:
        dead = DeadLetter(letter=decode(line), reason=reason, at=self._clock.time())
        cursor = self._execute(
            "INSERT INTO dead (sender, line, reason, at) VALUES (?, ?, ?, ?)",
            (dead.letter.sender, line, reason, dead.at),
        )
        self._execute("DELETE FROM dead WHERE row <= ?", ((cursor.lastrowid or 0) - KEPT_DEAD_LETTERS,))
        return dead

    def dead_letters(self, sender: str | None) -> list[DeadLetter]:
        rows = self._execute(
            "SELECT line, reason, at FROM dead WHERE ?1 IS NULL OR sender = ?1 ORDER BY row", (sender,)
        ).fetchall()
        return [DeadLetter(letter=decode(line), reason=reason, at=at) for line, reason, at in rows]


def _check_texts(texts: Sequence[str]) -> None:
    """Before anything is written, so that a step is done as a whole.

    Raises:
        UnicodeEncodeError: one has a lone surrogate, which SQLite cannot store.
    """
    "".join(texts).encode()
