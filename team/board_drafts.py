"""Checks what is to be written on a task board, before anything is.

Read with: ``board_steps.py``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from .board import MAX_TASK_BYTES, BoardTask, TaskDraft, UnknownTask
from .errors import TeamError

_ID: Final = re.compile(r"t[0-9]+")
_MAX_PRIORITY: Final = 1_000_000
encode: Callable[[BoardTask], bytes] = msgspec.json.Encoder().encode
decode: Callable[[bytes], BoardTask] = msgspec.json.Decoder(BoardTask).decode


def checked(task: BoardTask) -> BoardTask:
    """The task, with data of its own.

    Raises:
        TeamError: it has no title, is too large, or its priority is out of bounds.
    """
    if not task.title.strip():
        raise TeamError("a task has a title")
    if abs(task.priority) > _MAX_PRIORITY:
        raise TeamError("a priority is between -1000000 and 1000000", priority=task.priority)
    line = encode(task)
    if len(line) > MAX_TASK_BYTES:
        raise TeamError(
            "the task would be too large: write it to a file, and name that",
            task=task.id,
            bytes=len(line),
            max_bytes=MAX_TASK_BYTES,
        )
    return decode(line)


def check_key(draft: TaskDraft) -> None:
    """Raises:
    TeamError: the key looks like an id.
    """
    if _ID.fullmatch(draft.key):
        raise TeamError("a key does not look like an id", key=draft.key)


def new_ids(drafts: Sequence[TaskDraft], known: Callable[[str], bool], number: int) -> dict[int, str]:
    """The ids of those drafts, by place, that are to be added, numbered on from ``number``; of several with one key
    the first is."""
    ids: dict[int, str] = {}
    keys: set[str] = set()
    for place, draft in enumerate(drafts):
        check_key(draft)
        if draft.key and (draft.key in keys or known(draft.key)):
            continue
        keys.add(draft.key)
        number += 1
        ids[place] = f"t{number}"
    return ids


def resolved(needs: Sequence[str], find: Callable[[str], str | None]) -> tuple[str, ...]:
    """Ids for ids and keys, each once.

    Raises:
        UnknownTask: one is neither.
    """
    ids: dict[str, None] = {}
    for need in needs:
        id = find(need)
        if id is None:
            raise UnknownTask("there is no such task to depend on, list them", task=need)
        ids[id] = None
    return tuple(ids)


def check_no_circle(start: str, needs: Mapping[str, Sequence[str]] | Callable[[str], Sequence[str]]) -> None:
    """Raises:
    TeamError: the task depends on itself, directly or through others.
    """
    of = needs if callable(needs) else lambda id: needs.get(id, ())
    seen: set[str] = set()
    rest = list(of(start))
    while rest:
        id = rest.pop()
        if id == start:
            raise TeamError("a task cannot depend on itself, also not through others", task=start)
        if id not in seen:
            seen.add(id)
            rest.extend(of(id))
