"""A process that runs one member of the killed team, and the mailbox that it may die at.

Read with: ``killmatrix_processes.py``, ``killmatrix_plan.py``.
"""

import os
from collections.abc import Sequence

from unspool.subagent.killmatrix_stores import TellHead, doomed_sessions
from unspool.trajectory.killmatrix_points import Points

from .errors import UnknownMember
from .killmatrix_plan import OTHER, PROMPT, planned_members
from .letters import Delivery, Letter
from .roster import LEAD
from .sqlite_mailbox import SqliteMailbox
from .sqlite_roster import SqliteRoster
from .team import Team

_POLL_S = 0.005


class DoomedMailbox(SqliteMailbox):
    """A mailbox whose user may die before and after each step."""

    def __init__(self, path: str, points: Points) -> None:
        super().__init__(path, poll_s=_POLL_S)
        self._points = points

    async def send(self, letter: Letter, /, *, wait_s: float | None = 0.0) -> bool:
        self._points.reach("before")
        sent = await super().send(letter, wait_s=wait_s)
        self._points.reach("acked")
        return sent

    async def receive(
        self,
        name: str,
        *,
        limit: int = 100,
        wait_s: float | None = 0.0,
        lease_s: float = 60.0,
        reader: str = "",
    ) -> Sequence[Delivery]:
        found = await super().receive(name, limit=limit, wait_s=wait_s, lease_s=lease_s, reader=reader)
        self._points.reach("acked")
        return found

    async def acknowledge(self, name: str, ids: Sequence[str], /) -> None:
        self._points.reach("before")
        await super().acknowledge(name, ids)
        self._points.reach("acked")

    async def rest(self, name: str, notice: Letter | None = None) -> bool:
        self._points.reach("before")
        rests = await super().rest(name, notice)
        self._points.reach("acked")
        return rests


def mailbox_path(folder: str) -> str:
    """Where the letters are."""
    return os.path.join(folder, "mailbox.db")


async def open_boxes(folder: str) -> None:
    """Make the boxes, and send the lead what it begins with."""
    mailbox = SqliteMailbox(mailbox_path(folder))
    for name in (OTHER, LEAD):
        await mailbox.open(name)
    await mailbox.send(PROMPT)
    await mailbox.aclose()


async def run_alone(log: str, folder: str, name: str, points: Points, tell: TellHead) -> None:
    """Run one member, begun or gone on with, until the whole team rests."""
    place = points.within(f"box.{name}")
    mailbox = DoomedMailbox(mailbox_path(folder), place)
    roster = SqliteRoster(os.path.join(folder, "roster.db"))
    sessions = doomed_sessions(log, os.path.join(folder, name), points, tell)
    definition = next(each for each in planned_members() if each.name == name)
    team = Team(mailbox=mailbox, roster=roster, sessions=sessions, definitions=[definition], notices="none")
    try:
        async with team:
            try:
                await team.join(name)
            except UnknownMember:
                await team.add(definition)
            await team.wait_idle()
    finally:
        await mailbox.aclose()
        await roster.aclose()
        sessions.close()
