"""Tasks that ran when a session was cut off, found in its facts. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import ValidationError, convert
from msgspec.structs import replace

from unspool.kernel.events import Event, MessageEnd, QueueChanged, ToolExecEnd

from .entry import Task

_ID = re.compile(r"[a-z][a-z0-9_]{0,31}-([0-9]{1,15})", re.ASCII)


def tasks_of(facts: Iterable[Event]) -> tuple[Task, ...]:
    """The newest that these facts say of each task, in order of their start.

    Tools say it in ``details``, in ``details["task"]`` or ``details["tasks"]``, notices in ``metadata["task"]``.
    """
    known: dict[tuple[str, float], Task] = {}  # an id alone may come again where nothing was restored
    for fact in facts:
        for said in _said(fact):
            key = said.id, said.started_at
            if key not in known or not known[key].ended:
                known[key] = said
    return tuple(sorted(known.values(), key=lambda task: task.started_at))


def lost(task: Task) -> Task:
    """A task whose end nobody has seen, as it is told after a resume."""
    text = "the process that ran it ended before it did"
    if task.pid is not None:
        text += f"; whether its own process {task.pid} still runs is not known"
    return replace(task, status="lost", error=text, told="", notice_error="")


def number_of(id: str) -> int:
    """The number in an id: 3 for ``shell-3``."""
    found = _ID.fullmatch(id)
    return int(found[1]) if found else 0


def _said(fact: Event) -> Iterator[Task]:
    values: list[Any] = []
    match fact:
        case ToolExecEnd():
            several = fact.details.get("tasks")
            values = [fact.details, fact.details.get("task"), *(several if isinstance(several, list) else ())]
        case MessageEnd() | QueueChanged():
            values = [fact.message.metadata.get("task")] if fact.message is not None else []
        case _:
            return
    for value in values:
        if isinstance(value, dict):
            try:
                task = convert(value, Task)
            except ValidationError:
                continue  # another tool's, or a host's, of the same name
            if _ID.fullmatch(task.id):
                yield task
