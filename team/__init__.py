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
from .pattern_cast import Answer, PatternEnd, Spent, Who
from .pattern_flows import MapReduced, Piped, map_reduce, pipeline
from .pattern_orchestrate import Orchestrated, orchestrate
from .pattern_talks import Debated, Noted, Statement, blackboard, debate
from .pattern_vote import Ballot, Voted, vote
from .result import MemberResult, TeamResult
from .roster import MemberInfo, Owner, Roster, StaleMember, TeamInfo, WrongStatus, all_are, find_cycle, waits
from .roster_conformance import check_roster
from .schedule import Schedule, Step, schedule
from .schedule_links import Link, Point, Problem
from .schedule_replay import LetterDifference, ReplayedTeam, replay_schedule
from .shutdown import ShutdownAnswer
from .sqlite_board import SqliteBoard
from .sqlite_mailbox import SqliteMailbox
from .sqlite_roster import SqliteRoster
from .team import Team
from .team_tools import team_tools
from .texts import letter_text

__all__ = [
    "Answer",
    "Ballot",
    "Board",
    "BoardFull",
    "BoardTask",
    "BoxClosed",
    "BoxFull",
    "BoxInfo",
    "Cause",
    "DeadLetter",
    "Debated",
    "Delivery",
    "Ending",
    "Letter",
    "LetterDifference",
    "Link",
    "Mailbox",
    "MapReduced",
    "Member",
    "MemberInfo",
    "MemberResult",
    "MemoryBoard",
    "MemoryMailbox",
    "MemoryRoster",
    "NameTaken",
    "Noted",
    "Orchestrated",
    "Owner",
    "PatternEnd",
    "Piped",
    "Point",
    "Problem",
    "ReplayedTeam",
    "Roster",
    "Schedule",
    "ShutdownAnswer",
    "Spent",
    "SqliteBoard",
    "SqliteMailbox",
    "SqliteRoster",
    "StaleMember",
    "Statement",
    "Step",
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
    "Voted",
    "Who",
    "WrongStatus",
    "WrongTaskStatus",
    "all_are",
    "blackboard",
    "check_board",
    "check_mailbox",
    "check_roster",
    "debate",
    "find_cycle",
    "letter_text",
    "map_reduce",
    "orchestrate",
    "pipeline",
    "replay_schedule",
    "schedule",
    "team_tools",
    "vote",
    "waits",
]
