"""The kinds of letters, and the names that are nobody's.

Read with: ``letters.py``, ``texts.py`` (how a model sees them).
"""

from typing import Final

HOST: Final = "host"  # the sender of what the host says; a person's words, shown as they are
ALL: Final = "all"

MESSAGE: Final = "message"
BROADCAST: Final = "broadcast"
TASK: Final = "task"  # a task of the board that the member has claimed while it was idle
IDLE: Final = "idle"  # a member rests; the text is its last answer
ERROR: Final = "error"  # a run of a member failed
ENDED: Final = "ended"  # a member has ended
UNDELIVERABLE: Final = "undeliverable"
PING_PONG: Final = "ping_pong"
SYNTHESIS: Final = "synthesis"
SHUTDOWN_REQUEST: Final = "shutdown_request"
SHUTDOWN_APPROVED: Final = "shutdown_approved"
SHUTDOWN_REJECTED: Final = "shutdown_rejected"

REPORTS: Final = frozenset({MESSAGE, IDLE, ERROR, ENDED})  # what a lead sums up
FROM_TEAM: Final = frozenset({IDLE, ERROR, ENDED, UNDELIVERABLE, PING_PONG, SYNTHESIS})
"""What is sent about a member, not by its model: nobody is told when it cannot be delivered."""
