"""How likely a result is to be needed again, for the tokens that it takes.

The need is reckoned as memory research reckons it (Anderson and Schooler, 1991): each time that an item, a
path or a command, was touched counts, and fades as a power of the calls made since. What a newer result shows
is hardly needed, and what was edited since is little worth. As in GreedyDual-Size-Frequency, need times the
cost of getting it back is set against the size.

Read with: ``clearing.py`` (the caller), ``calls.py``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from unspool.kernel.messages import AgentMessage

from .calls import Answered, Use, UseKind, key_of, use_of
from .shortening import is_gone

_CALL: Final = 300  # tokens that a call costs which is made again, besides its result
_SHOWN_AGAIN: Final = 0.01  # of the need that is left of what a newer result shows
_EDITED: Final = 0.2  # likewise of what was edited since
# Of a result of each kind: the need for it, and how fast that fades. Of output the newest counts, a file keeps.
_KINDS: Final[Mapping[UseKind, tuple[float, float]]] = {
    "read": (1.0, 0.5),
    "edit": (0.5, 0.5),
    "other": (0.7, 0.7),
    "run": (0.5, 1.0),
    "search": (0.5, 1.0),
    "list": (0.3, 1.0),
}
_TOUCHES: Final[Mapping[UseKind, float]] = {"edit": 2.0, "search": 0.5, "list": 0.5}  # 1 for all others


def worths(found: Sequence[Answered], tokens: Callable[[AgentMessage], int]) -> dict[int, float]:
    """By index in the view, what each result is worth per token; only how they compare means anything.

    ``found`` are all results of a view, in order. Time is counted in results, so that pauses count for
    nothing.
    """
    uses = [use_of(each.call) for each in found]
    keys = [key_of(each.call) for each in found]
    items = [use.paths or (key,) for use, key in zip(uses, keys, strict=True)]
    touches = _touches(uses, items)
    stale = _staleness(found, uses, keys)
    needs: dict[tuple[str, float], float] = {}
    worth: dict[int, float] = {}
    for place, each in enumerate(found):
        kind_need, fading = _KINDS[uses[place].kind]
        need = 0.0
        for item in items[place]:
            known = (item, fading)
            if known not in needs:
                needs[known] = _need(touches[item], len(found), fading)
            need = max(need, needs[known])
        size = max(1, tokens(each.message))
        worth[each.at] = need * kind_need * stale[place] * (1 + _CALL / size)
    return worth


def _touches(uses: Sequence[Use], items: Sequence[Sequence[str]]) -> dict[str, list[tuple[int, float]]]:
    """For each item when it was touched, and how much that says."""
    touches: dict[str, list[tuple[int, float]]] = {}
    for place, (use, touched) in enumerate(zip(uses, items, strict=True)):
        for item in touched:
            touches.setdefault(item, []).append((place, _TOUCHES.get(use.kind, 1.0)))
    return touches


def _need(touches: Sequence[tuple[int, float]], now: int, fading: float) -> float:
    return sum([weight * math.pow(now - place, -fading) for place, weight in touches])


def _staleness(found: Sequence[Answered], uses: Sequence[Use], keys: Sequence[str]) -> list[float]:
    """What is left of the need for each result, after what came later."""
    left = [1.0] * len(uses)
    again: set[str] = set()  # calls made, files read whole
    edited: set[str] = set()
    for place in range(len(uses) - 1, -1, -1):
        use, key = uses[place], keys[place]
        shows_files = use.kind in ("read", "edit") and bool(use.paths)
        if key in again or (shows_files and again.issuperset(use.paths)):
            left[place] = _SHOWN_AGAIN
        elif use.kind == "read" and not edited.isdisjoint(use.paths):
            left[place] = _EDITED
        message = found[place].message
        if message.is_error:
            continue  # it shows nothing and has changed nothing
        if use.kind == "edit":
            edited.update(use.paths)
        if not is_gone(message):
            again.add(key)
            again.update(use.paths if use.kind == "read" and not use.part else ())
    return left
