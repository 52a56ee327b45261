"""What can go wrong between members of a team; each is also what a model reads when its tool call failed.

Read with: ``mailbox.py``, ``roster.py``.
"""

from unspool.kernel.errors import ToolError


class TeamError(ToolError):
    """The team cannot do what was asked."""


class UnknownMember(TeamError):
    """There is no member of that name."""


class BoxClosed(TeamError):
    """The reader of the box has stopped: it takes no letters."""


class BoxFull(TeamError):
    """The box holds as many letters as it may: its reader has to read first."""


class NameTaken(TeamError):
    """There is a member of that name, or the name is reserved."""
