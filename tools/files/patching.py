"""Changes to several files as a model writes them, and how the hunks of one file are applied to its text.

Pure functions. Read with: ``patch_v4a.py`` and ``patch_unified.py`` (the two forms), ``hunk_place.py`` (where a hunk
belongs), ``apply_patch.py`` (the tool).
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from unspool.kernel.errors import ToolError

from .hunk_place import Finder, Place
from .hunks import Hunk, HunkLine
from .newlines import first_newline, newline_of, split_lines

Kind: TypeAlias = Literal["add", "update", "delete"]


class FilePatch(NamedTuple):
    """What a patch does with one file. ``text`` is the content of an added one, ``note`` is for the model."""

    kind: Kind
    path: str
    hunks: tuple[Hunk, ...] = ()
    text: str = ""
    move_to: str = ""
    note: str = ""


class Patched(NamedTuple):
    """A text with hunks applied. ``fuzz`` is 0 where all fitted exactly; ``notes`` say what did not."""

    text: str
    fuzz: int
    notes: list[str]


def patch_text(text: str, hunks: Sequence[Hunk]) -> Patched:
    """``text`` with every hunk applied; what no hunk removes keeps its bytes.

    Raises:
        ToolError: a hunk fits nowhere, or in several places. It names the hunk by number.
    """
    lines = split_lines(text)
    finder = Finder(lines)
    placed: list[tuple[Place, list[str]]] = []
    for number, hunk in enumerate(hunks, 1):
        try:
            place = finder.find(hunk)
        except ToolError as error:
            raise ToolError(f"hunk {number} of {len(hunks)}: {error}") from error
        placed.append((place, _new_lines(hunk, place, lines, first_newline(text))))
    notes = [f"hunk {n}: {place.note}" for n, (place, _) in enumerate(placed, 1) if place.note]
    fuzz = sum(place.fuzz for place, _ in placed)
    done: list[str] = []
    at = 0
    for place, new in sorted(placed, key=lambda each: each[0].start):
        done += [*lines[at : place.start], *new]
        at = place.stop
    done += lines[at:]
    newline = first_newline(text)
    ended = [line if newline_of(line) else line + newline for line in done[:-1]]
    return Patched("".join([*ended, *done[-1:]]), fuzz, notes)


def _new_lines(hunk: Hunk, place: Place, lines: Sequence[str], newline: str) -> list[str]:
    """The lines that stand for those of ``place``. A new one gets the newline of the line it replaces or follows."""
    literal = _shows_newlines(hunk, lines, place)
    done: list[str] = []
    at = place.start
    replaced: list[str] = []  # newlines of lines removed since the last one that stays, still to be given out
    last = HunkLine(" ", "")
    for line in hunk.lines:
        if line.mark == "+":
            body = line.text.removesuffix("\r")
            if place.indent:
                body = place.indent.line(body)
            near = replaced.pop(0) if len(replaced) > 1 else replaced[0] if replaced else _before(lines, at)
            end = ("\r\n" if line.text.endswith("\r") else "\n") if literal else near or newline
            done.append(body + end if line.has_newline else line.text)
        elif line.mark == "-":
            replaced.append(newline_of(lines[at]))
        else:
            done.append(lines[at])
            replaced.clear()
        last = line if line.mark != "-" else last
        at += line.mark != "+"
    is_open = bool(lines) and place.stop == len(lines) and not newline_of(lines[-1])
    if is_open and last.mark == "+" and not hunk.ends_file:  # nothing was said of it: the end stays open
        done[-1] = done[-1].removesuffix("\n").removesuffix("\r")
    return done


def _before(lines: Sequence[str], at: int) -> str:
    """The newline of the line before, or of the first one."""
    return newline_of(lines[max(at - 1, 0)]) if lines else ""


def _shows_newlines(hunk: Hunk, lines: Sequence[str], place: Place) -> bool:
    """Whether the writer of the hunk saw newlines: its lines have a \\r at their ends where the file's have one.

    Where no line tells, it is believed if the file has no newline at all, or the hunk has a \\r.
    """
    pairs = zip(hunk.old, lines[place.start : place.stop], strict=True)
    seen = [line.text.endswith("\r") == (newline_of(old) == "\r\n") for line, old in pairs if newline_of(old)]
    if seen:
        return all(seen)
    return not lines or not newline_of(lines[0]) or any(line.text.endswith("\r") for line in hunk.lines)
