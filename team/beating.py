"""Says again and again, in a roster that others look at too, that this process still runs its members.

Read with: ``roster.py``.
"""

from typing import TYPE_CHECKING, Final

from .errors import UnknownMember
from .member import Ending
from .roster import SILENCE_S, StaleMember

if TYPE_CHECKING:
    from .team import Team

BEAT_S: Final = SILENCE_S / 4


async def keep_beating(team: "Team") -> None:
    """Until cancelled. A member that somebody else goes by the name of ends here."""
    while True:
        await team.clock.sleep(BEAT_S)
        for member in list(team.members.values()):
            if member.finished:
                continue
            try:
                await team.roster.heartbeat(member.name, generation=member.generation)
            except (StaleMember, UnknownMember):
                member.stop(Ending("stopped", "somebody else goes by its name", stale=True), now=True)
