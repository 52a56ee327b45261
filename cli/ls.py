"""``unspool ls``: the sessions of a store, the newest first.

Read with: ``places.py``, ``unspool.trajectory.sessions`` (``SessionInfo``).
"""

import re
from datetime import datetime
from typing import Final

import msgspec
from rich.cells import cell_len, set_cell_size

from unspool.kernel.errors import LogError
from unspool.kernel.events import QueueChanged
from unspool.subagent.session_lineage import nested_in
from unspool.trajectory import SessionInfo, Sessions

from .output import console, write_json
from .view import printable

_TITLE: Final = 48  # cells
_RANDOM: Final = re.compile("[0-9a-f]{32}")
_SHORT: Final = 12  # characters of a random id, enough to name it
_HEADINGS: Final = ("session", "title", "facts", "updated", "from")


def ls(
    sessions: Sessions,
    *,
    namespace: str | None,
    sender: str | None,
    limit: int | None,
    everything: bool,
    as_json: bool,
) -> int:
    """Print the sessions, nested ones only with ``everything``; 1 where one is damaged."""
    found, passed_over = [], 0
    for info in sessions.list(namespace=namespace, sender=sender):
        lineage = nested_in(sessions, info)
        if lineage is not None and not everything:
            passed_over += 1
            continue
        found.append((info, lineage.parent if lineage else ""))
        if len(found) == limit:
            break
    if as_json:
        for info, above in found:
            write_json({**msgspec.to_builtins(info), "nested_in": above} if above else info)
        return _status(found)
    if found:
        _print([_HEADINGS, *[_row(sessions, info, above) for info, above in found]])
    if passed_over:
        _tell_hidden(passed_over)
    return _status(found)


def _status(found: list[tuple[SessionInfo, str]]) -> int:
    return 1 if any(info.problem for info, _ in found) else 0


def _tell_hidden(number: int) -> None:
    text = "a nested session is" if number == 1 else f"{number} nested sessions are"
    console().print(f"{text} not listed: show --tree SESSION, ls --all", style="dim", soft_wrap=True)


def short(session: str) -> str:
    """A session's id as lists have it: random ones are cut short."""
    return session[:_SHORT] if _RANDOM.fullmatch(session) else session


def _row(sessions: Sessions, info: SessionInfo, above: str) -> tuple[str, ...]:
    if info.problem:
        return (short(info.session), f"! {info.problem}")
    return (
        short(info.session),
        _fitting(info.title or _first_prompt(sessions, info.session)),
        str(info.facts),
        datetime.fromtimestamp(info.updated).strftime("%Y-%m-%d %H:%M:%S"),
        f"{short(info.parent.session)}@{info.parent.seq}"
        if info.parent
        else f"in {short(above)}"
        if above
        else "",
    )


def _first_prompt(sessions: Sessions, session: str) -> str:
    try:
        for fact in sessions.facts(session):
            if isinstance(fact, QueueChanged) and fact.message is not None:
                return fact.message.text
    except LogError as error:
        return f"! {error}"
    return ""


def _fitting(text: str) -> str:
    """``text`` on one line of so many cells."""
    line = " ".join(printable(text[:1000]).split())
    return line if cell_len(line) <= _TITLE else f"{set_cell_size(line, _TITLE - 1).rstrip()}…"


def _print(rows: list[tuple[str, ...]]) -> None:
    out = console()
    widths = [
        max([cell_len(row[column]) for row in rows if len(row) == len(_HEADINGS)]) for column in range(4)
    ]
    widths[0] = max(cell_len(row[0]) for row in rows)
    for row in rows:
        cells = [
            text.rjust(width) if column == 2 else text + " " * (width - cell_len(text))
            for column, (text, width) in enumerate(zip(row, widths, strict=False))
        ]
        line = "  ".join([*cells, *row[len(cells) :]]).rstrip()
        style = "bold" if row is rows[0] else "red" if len(row) < len(_HEADINGS) else ""
        out.print(printable(line), style=style, soft_wrap=True)
