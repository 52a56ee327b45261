"""Peers that work together: identities, mailboxes, shutdown."""

if __name__ != "unspool.team":
    raise ImportError("team/ is not a top-level package: import unspool.team")

from .board import (
    Board,
    BoardFull,
    BoardTask,
    TaskDraft,
    TaskHeld,
    TaskStatus,
    UnknownTask,
    WrongTaskStatus,
)
from .board_conformance import check_board
from .errors import BoxClosed, BoxFull, NameTaken, TeamError, UnknownMember
from .letters import Cause, DeadLetter, Delivery, Letter
from .mailbox import BoxInfo, Mailbox
from .mailbox_conformance import check_mailbox
from .memory_board import MemoryBoard
from .memory_mailbox import MemoryMailbox
from .memory_roster import MemoryRoster
from .roster import MemberInfo, Owner, Roster, StaleMember, TeamInfo, WrongStatus, all_are, find_cycle, waits
from .roster_conformance import check_roster
from .sqlite_board import SqliteBoard
from .sqlite_mailbox import SqliteMailbox
from .sqlite_roster import SqliteRoster

__all__ = [
    "Board",
    "BoardFull",
    "BoardTask",
    "BoxClosed",
    "BoxFull",
    "BoxInfo",
    "Cause",
    "DeadLetter",
    "Delivery",
    "Letter",
    "Mailbox",
    "MemberInfo",
    "MemoryBoard",
    "MemoryMailbox",
    "MemoryRoster",
    "NameTaken",
    "Owner",
    "Roster",
    "SqliteBoard",
    "SqliteMailbox",
    "SqliteRoster",
    "StaleMember",
    "TaskDraft",
    "TaskHeld",
    "TaskStatus",
    "TeamError",
    "TeamInfo",
    "UnknownMember",
    "UnknownTask",
    "WrongStatus",
    "WrongTaskStatus",
    "all_are",
    "check_board",
    "check_mailbox",
    "check_roster",
    "find_cycle",
    "waits",
]
