"""Peers that work together: identities, mailboxes, shutdown."""

if __name__ != "unspool.team":
    raise ImportError("team/ is not a top-level package: import unspool.team")

from .errors import BoxClosed, BoxFull, NameTaken, TeamError, UnknownMember
from .letters import Cause, DeadLetter, Delivery, Letter
from .mailbox import BoxInfo, Mailbox
from .mailbox_conformance import check_mailbox
from .memory_mailbox import MemoryMailbox
from .sqlite_mailbox import SqliteMailbox

__all__ = [
    "BoxClosed",
    "BoxFull",
    "BoxInfo",
    "Cause",
    "DeadLetter",
    "Delivery",
    "Letter",
    "Mailbox",
    "MemoryMailbox",
    "NameTaken",
    "SqliteMailbox",
    "TeamError",
    "UnknownMember",
    "check_mailbox",
]
