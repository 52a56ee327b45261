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
from .limits import TeamLimits
from .mailbox import BoxInfo, Mailbox
from .mailbox_conformance import check_mailbox
from .member import Ending, Member
from .memory_board import MemoryBoard
from .memory_mailbox import MemoryMailbox
from .memory_roster import MemoryRoster
from .result import MemberResult, TeamResult
from .roster import MemberInfo, Owner, Roster, StaleMember, TeamInfo, WrongStatus, all_are, find_cycle, waits
from .roster_conformance import check_roster
from .shutdown import ShutdownAnswer
from .sqlite_board import SqliteBoard
from .sqlite_mailbox import SqliteMailbox
from .sqlite_roster import SqliteRoster
from .team import Team
from .team_tools import team_tools
from .texts import letter_text

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
    "Ending",
    "Letter",
    "Mailbox",
    "Member",
    "MemberInfo",
    "MemberResult",
    "MemoryBoard",
    "MemoryMailbox",
    "MemoryRoster",
    "NameTaken",
    "Owner",
    "Roster",
    "ShutdownAnswer",
    "SqliteBoard",
    "SqliteMailbox",
    "SqliteRoster",
    "StaleMember",
    "TaskDraft",
    "TaskHeld",
    "TaskStatus",
    "Team",
    "TeamError",
    "TeamInfo",
    "TeamLimits",
    "TeamResult",
    "UnknownMember",
    "UnknownTask",
    "WrongStatus",
    "WrongTaskStatus",
    "all_are",
    "check_board",
    "check_mailbox",
    "check_roster",
    "find_cycle",
    "letter_text",
    "team_tools",
    "waits",
]
