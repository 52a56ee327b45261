"""A roster in the memory of one process.

Read with: ``roster.py`` (what is promised), ``roster_steps.py``.
"""

from unspool.kernel.clock import SystemClock
from unspool.kernel.ports import Clock

from .place import MemoryPlace
from .roster import MAX_MEMBERS
from .roster_steps import RosterSteps
from .stepped_roster import SteppedRoster


class MemoryRoster(SteppedRoster):
    """A ``Roster`` that is gone with the process. One event loop uses it.

    Raises:
        ValueError: ``max_members``, besides the lead, is not positive.
    """

    def __init__(self, clock: Clock | None = None, *, max_members: int = MAX_MEMBERS) -> None:
        clock = clock or SystemClock()
        super().__init__(MemoryPlace(RosterSteps(clock, max_members), clock), clock)
