"""Tasks that members take when they have nothing else to do.

A claimed task reaches its member as a letter to itself, whose id follows from the claim: so that the box shows that
something is under way, and a member that died between claim and letter gets it all the same, once.

Read with: ``board.py``, ``member_loop.py``.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from .board import Board, BoardTask, Tasks
from .kinds import TASK
from .letters import Letter
from .member import Member, Members

if TYPE_CHECKING:
    from .team import Team


async def claim_task(board: Board, member: Member) -> Letter | None:
    """The next task for a member, as a letter to itself: one that it holds and has not been told of, or a new one."""
    if not member.held_seen:
        for task in await board.list({"claimed"}, assignee=member.name):
            letter = _letter(task, member)
            if letter.id not in member.seen:
                return letter
        member.held_seen = True
    claimed = await board.claim(member.name, tags=member.tags)
    return None if claimed is None else _letter(claimed, member)


def _letter(task: BoardTask, member: Member) -> Letter:
    return Letter(
        id=f"{member.info.session}/task/{task.id}.{task.attempts}",
        sender=member.name,
        to=member.name,
        text=task_text(task),
        kind=TASK,
        sent_at=member.team.clock.time(),
        data={"task": task.id, "attempt": task.attempts},
    )


def task_text(task: BoardTask) -> str:
    """A task as the member reads it that has claimed it."""
    text = f"{task.title}\n\n{task.text}" if task.text else task.title
    return f"{text}\n\n(This is task {task.id} of the board, it is yours. Call finish_task with its outcome.)"


async def has_work_for(board: Board, members: Members) -> bool:
    """Whether a member that claims tasks is about to: there is one that it can have."""
    claiming = [each for each in members.values() if each.claims and not each.finished and not each.pending]
    if not claiming:
        return False
    tasks = await board.list()
    unfinished = {task.id for task in tasks if task.status != "done"}
    free = [task for task in tasks if task.status == "open" and unfinished.isdisjoint(task.depends_on)]
    return any(set(each.tags) <= set(task.tags) for each in claiming for task in free)


async def watch_board(team: "Team") -> None:
    """Wake members that claim tasks whenever there is something new to claim."""
    known: frozenset[tuple[str, str]] = frozenset()
    while True:
        known = _standing(await team.board.wait(_differs(known)) or ())
        for member in team.members.values():
            if member.claims and not member.finished:
                member.wake()


def _standing(tasks: Tasks) -> frozenset[tuple[str, str]]:
    return frozenset((task.id, task.status) for task in tasks)


def _differs(known: frozenset[tuple[str, str]]) -> Callable[[Tasks], bool]:
    return lambda tasks: _standing(tasks) != known
