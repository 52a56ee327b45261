"""Where a hunk of a patch belongs in a file. Pure functions.

Its context and removed lines are compared with the file's: exactly (but for \\r at their ends), then without
blanks at line ends, then without blanks at both ends and with look-alikes made alike. The first comparison
under which they are found decides, and under it the place must be clear: where the line number says, or the
only one after the hunk before, or the only one at all. Never a guess.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from typing import NamedTuple

from unspool.kernel.errors import ToolError
from unspool.tools.text import shown

from .candidates import is_searchable, similar
from .folding import fold
from .hunks import Hunk
from .indent import Reindent

_MAX_PLACES = 100  # that are counted
_MAX_NAMED = 8
_MAX_QUOTED = 80  # characters


class Place(NamedTuple):
    """Lines ``start`` to ``stop`` of a file, counted from 0. ``fuzz`` is as in the reference V4A implementation."""

    start: int
    stop: int
    fuzz: int = 0
    note: str = ""
    indent: Reindent | None = None


class _Way(NamedTuple):
    """A way to compare lines."""

    key: Callable[[str], str]
    fuzz: int
    note: str


_EXACT = _Way(lambda line: line, 0, "")
_TRIMMED = _Way(str.rstrip, 1, "fits apart from blanks at line ends (fuzz 1)")
_LOOSE = _Way(lambda line: fold(line).strip(), 100, "fits apart from indentation or look-alikes (fuzz 100)")


class _Keys:
    """The lines of a file under one comparison, ready to be searched."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._text = _pattern(lines)
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        self._count = len(lines)

    def find(self, wanted: Sequence[str], start: int = 0) -> Iterator[int]:
        """Where all of ``wanted`` stand, from line ``start`` on."""
        pattern = _pattern(wanted)
        at = self._text.find(pattern, self._starts[start]) if start <= self._count else -1
        while at >= 0:
            yield bisect_left(self._starts, at)
            at = self._text.find(pattern, at + 1)

    def has(self, wanted: Sequence[str], at: int) -> bool:
        """Whether ``wanted`` stand at line ``at``."""
        return 0 <= at <= self._count and self._text.startswith(_pattern(wanted), self._starts[at])


class Finder:
    """Finds the places of the hunks of one file, in order; no two places overlap."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._bodies = [line.removesuffix("\n").removesuffix("\r") for line in lines]
        self._taken: list[Place] = []
        self._shift = 0  # how far the line numbers of the hunk before were off
        self._keys: dict[_Way, _Keys] = {}

    def _under(self, way: _Way) -> _Keys:
        if way not in self._keys:
            self._keys[way] = _Keys([way.key(line) for line in self._bodies])
        return self._keys[way]

    def find(self, hunk: Hunk) -> Place:
        """The place of the next hunk.

        Raises:
            ToolError: it fits nowhere, or in several places.
        """
        place = self._find(hunk) if hunk.old else self._insertion(hunk)
        self._taken.append(place)
        if hunk.first is not None:
            self._shift = place.start - (hunk.first - 1)
        return place

    @property
    def _end(self) -> int:
        """The line after the hunk before."""
        return self._taken[-1].stop if self._taken else 0

    def _insertion(self, hunk: Hunk) -> Place:
        """Where lines belong that have none around them."""
        if not self._bodies:
            return Place(0, 0)
        if hunk.headers:
            start, note = self._below(hunk.headers)
            if not note:
                return Place(start, start)
            raise ToolError(
                f"its header {_quoted(hunk.headers)} was not found: give lines around what is added"
            )
        if hunk.at_end:
            return Place(len(self._bodies), len(self._bodies))
        raise ToolError(
            "it only adds lines: give at least one unchanged line around them, so that it has a place"
        )

    def _find(self, hunk: Hunk) -> Place:
        start, header_note = self._below(hunk.headers)
        is_below = bool(hunk.headers) and not header_note
        old = [line.text.removesuffix("\r") for line in hunk.old]
        for way in (_EXACT, _TRIMMED, _LOOSE):
            places = self._places(hunk, self._under(way), [way.key(line) for line in old], start, is_below)
            if len(places) > 1:
                raise ToolError("; ".join(filter(None, [f"its lines are {_several(places)}", header_note])))
            if not places:
                continue
            [at] = places
            indent = self._indent(hunk, at) if way is _LOOSE else None
            if way is _LOOSE and indent is None:
                continue
            stop = at + len(old)
            end_note = "it is not at the end of the file" if hunk.at_end and stop < len(self._bodies) else ""
            notes = [note for note in (way.note, header_note, end_note) if note]
            return Place(at, stop, way.fuzz, "; ".join(notes), indent)
        raise ToolError(self._not_found(hunk, old))

    def _places(self, hunk: Hunk, keys: _Keys, wanted: list[str], start: int, is_below: bool) -> list[int]:
        """Where ``wanted`` can be meant.

        ``is_below`` says that ``start`` is the line below the hunk's header: the first place is meant, or the
        header itself, if the hunk repeats it.
        """
        if hunk.ends_file or hunk.at_end:
            last = len(self._bodies) - len(wanted)
            if self._fits(keys, wanted, last):
                return [last]
            if hunk.ends_file:
                return []
        if hunk.first is not None:
            for at in (hunk.first - 1 + self._shift, hunk.first - 1):
                if self._fits(keys, wanted, at):
                    return [at]
        if is_below and self._fits(keys, wanted, start - 1):
            return [start - 1]
        places = self._all_free(keys, wanted, start)
        return places[:1] if is_below else places or self._all_free(keys, wanted, 0)

    def _fits(self, keys: _Keys, wanted: list[str], at: int) -> bool:
        return keys.has(wanted, at) and self._is_free(at, len(wanted))

    def _all_free(self, keys: _Keys, wanted: list[str], start: int) -> list[int]:
        free = (at for at in keys.find(wanted, start) if self._is_free(at, len(wanted)))
        return list(islice(free, _MAX_PLACES))

    def _is_free(self, at: int, size: int) -> bool:
        return all(at + size <= place.start or at >= place.stop for place in self._taken)

    def _below(self, headers: Sequence[str]) -> tuple[int, str]:
        """The first line below all headers, each after the one before; and a note where they aren't there.

        A header is compared without the blanks around it.
        """
        at = self._end
        for header in headers:
            wanted = [_LOOSE.key(header)]
            places = list(islice(self._under(_LOOSE).find(wanted, at), _MAX_PLACES))
            if not places and header is headers[0]:  # hunks out of order
                places = list(islice(self._under(_LOOSE).find(wanted), _MAX_PLACES))
            if len(places) > 1:
                raise ToolError(f"its header {shown(header)} is {_several(places)}")
            if not places:
                return self._end, f"its header {_quoted(headers)} was not found"
            at = places[0] + 1
        return at, ""

    def _indent(self, hunk: Hunk, at: int) -> Reindent | None:
        old = [fold(line.text.removesuffix("\r")) for line in hunk.old]
        found = [fold(line) for line in self._bodies[at : at + len(old)]]
        return Reindent.learn(old, found, [line.text for line in hunk.lines if line.mark == "+"])

    def _not_found(self, hunk: Hunk, old: list[str]) -> str:
        if hunk.ends_file and next(self._under(_EXACT).find(old), None) is not None:
            return "it says that the file ends there without a newline, but the lines are not at the end of the file"
        near = similar(self._bodies, old, "the patch") if is_searchable(self._bodies, old) else ""
        text = f"its lines are not in the file: {_quoted(old)}"
        return f"{text}{near}" if near else f"{text}; read the file again and copy the lines exactly"


def _quoted(lines: Sequence[str]) -> str:
    first = next((line for line in lines if line.strip()), "")
    text = shown(first if len(first) <= _MAX_QUOTED else f"{first[:_MAX_QUOTED]}…")
    return text if len(lines) == 1 else f"{text} (and {len(lines) - 1} more)"


def _several(places: Sequence[int]) -> str:
    named = ", ".join(str(at + 1) for at in places[:_MAX_NAMED]) + (", …" if len(places) > _MAX_NAMED else "")
    return f"in several places, at lines {named}: give more lines around the change, or an @@ header above it"


def _pattern(lines: Sequence[str]) -> str:
    """What is searched for: each line between two newlines, so that only whole lines are found."""
    return "\n".join(["", *lines, ""])
