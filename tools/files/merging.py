"""What stands in a file in place of an old text. Pure functions.

Lines that the old and the new text share keep the bytes that they have in the file, whatever the model
made of their newlines, indentation or quotes. A changed line takes the newline of the line it replaces.
"""

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from .indent import Reindent
from .newlines import pieces

_MAX_COMPARED = 400  # lines between the shared ends that are compared one with another


class Change(NamedTuple):
    """Items ``start`` to ``end`` of one sequence stand as ``first`` to ``stop`` in the other.

    ``same`` tells those that are shared from those that are replaced.
    """

    same: bool
    start: int
    end: int
    first: int
    stop: int


def replacement(found: str, old: str, new: str, newline: str, indent: Reindent | None = None) -> str:
    """The text for a place in a file.

    ``found`` is what stands there, with the file's newlines; ``old`` and ``new`` have \\n. ``newline`` is
    the file's first one, for new lines that replace none.
    """
    bodies, newlines = pieces(found, newline)
    if len(bodies) == old.count("\n"):  # the last line of the file, which has no newline
        old, new = old.removesuffix("\n"), new.removesuffix("\n")
    lines = [body + end for body, end in zip(bodies, [*newlines, ""], strict=True)]
    new_lines = _lines(new)
    done: list[str] = []
    for change in changes(_lines(old), new_lines):
        if change.same:
            done += lines[change.start : change.end]
            continue
        for at, line in enumerate(new_lines[change.first : change.stop], change.start):
            body = line.removesuffix("\n")
            done.append(indent.line(body) if indent else body)
            if body != line:
                near = min(at, max(change.end - 1, 0), len(newlines) - 1)
                done.append(newlines[near] if newlines else newline)
    return "".join(done)


def changes(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    """How ``new`` comes from ``old``, in order. Of long ones only the shared ends are found."""
    head, tail = shared_ends(old, new)
    old_stop, new_stop = len(old) - tail, len(new) - tail
    if head:
        yield Change(True, 0, head, 0, head)
    if max(old_stop, new_stop) - head <= _MAX_COMPARED:
        matcher = SequenceMatcher(None, old[head:old_stop], new[head:new_stop], autojunk=False)
        for tag, start, end, first, stop in matcher.get_opcodes():
            yield Change(tag == "equal", head + start, head + end, head + first, head + stop)
    else:
        yield Change(False, head, old_stop, head, new_stop)
    if tail:
        yield Change(True, old_stop, len(old), new_stop, len(new))


def shared_ends(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """How many items are the same at the start and, of the rest, at the end."""
    least = min(len(one), len(other))
    head = _most(lambda start, stop: one[start:stop] == other[start:stop], least)
    tail = _most(
        lambda start, stop: (
            one[len(one) - stop : len(one) - start] == other[len(other) - stop : len(other) - start]
        ),
        least - head,
    )
    return head, tail


def _most(is_same: Callable[[int, int], bool], limit: int) -> int:
    """The largest number up to ``limit`` with everything before it the same; compares slices, which is fast."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if is_same(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _lines(text: str) -> list[str]:
    """Lines with their newlines, and what is after the last newline, which may be empty."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines
