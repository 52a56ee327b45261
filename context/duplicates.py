"""What was read twice is shown once.

Read with: ``calls.py`` (what a call reads), ``clearing.py``.
"""

from collections.abc import Sequence
from typing import Final

from unspool.kernel.messages import Message, Text
from unspool.kernel.ports import Edit

from .calls import Answered, Use, answered, call_text, key_of, use_of
from .marks import kind_of, marked
from .shortening import carried, is_gone
from .work import Rewrite, Work

_LEAST: Final = 100  # tokens saved
_SHOWN: Final = 0.9  # of the lines of a part, to say that the whole file shows it


class CollapseDuplicateReads:
    """Puts a line in the place of a result that a newer one makes superfluous; the newest one always stays.

    That is: the same call came again with the same output or more; the same file, or the same part of it, was
    read again, whatever had changed in it; the whole file was read, and shows what a part of it showed. Only
    where it saves 100 tokens, never in the turn under way, and never for the sake of an error.
    """

    name = "collapse_duplicates"

    def __init__(self, *, commits: bool = True) -> None:
        self.commits = commits

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        edits = [
            Edit(start=old.at, stop=old.at + 1, messages=(collapsed,))
            for old, why in _superfluous(answered(work.view), work)
            if work.tokens(old.message) - work.tokens(collapsed := _collapsed(old, why)) >= _LEAST
        ]
        return Rewrite(edits=edits, note=f"{len(edits)} results") if edits else None


def _superfluous(found: Sequence[Answered], work: Work) -> list[tuple[Answered, str]]:
    """The results that a newer one makes superfluous, in order, and what is said in their place."""
    same: dict[str, list[Answered]] = {}  # by call: the newest, and the oldest of those that stay
    wholes: dict[tuple[str, ...], Answered] = {}  # by path: the newest read of all of it
    collapsed: list[tuple[Answered, str]] = []
    for each in reversed(found):
        if each.message.is_error or is_gone(each.message) or not _is_text(each.message):
            continue
        use, key = use_of(each.call), key_of(each.call)
        newer = same.get(key, [])
        why = ""
        if each.at < work.tail and work.tokens(each.message) > _LEAST:
            why = _reason(each, use, newer, wholes.get(use.paths))
        if why:
            collapsed.append((each, why))
            continue
        if kind_of(each.message):
            continue  # shortened: it does not show what it was
        same[key] = [newer[0], each] if newer else [each]
        if use.kind == "read" and not use.part:
            wholes.setdefault(use.paths, each)
    return collapsed[::-1]


def _is_text(message: Message) -> bool:
    return all(type(block) is Text for block in message.content)


def _reason(old: Answered, use: Use, newer: Sequence[Answered], whole: Answered | None) -> str:
    """Why a result is superfluous; empty where it is not."""
    if any(old.message.text in each.message.text for each in newer):
        return "the same output came again later"
    if use.kind != "read":
        return ""
    if newer or (whole is not None and not use.part):
        return "an older version; it was read again later"
    if whole is not None and _is_shown(old.message.text, whole):
        return f"the newer {call_text(whole.call)} shows it"
    return ""


def _is_shown(part: str, whole: Answered) -> bool:
    """Whether a newer read shows the lines of an older one; notes at its end may differ, and a line or two."""
    lines = {line.strip() for line in part.splitlines() if line.strip()}
    shown = {line.strip() for line in whole.message.text.splitlines()}
    return len(lines & shown) >= _SHOWN * len(lines)


def _collapsed(old: Answered, why: str) -> Message:
    text = f"[{call_text(old.call)}: {why}]"
    return marked(old.message, (Text(text),), "collapsed", tool=old.call.name, **carried(old.message))
