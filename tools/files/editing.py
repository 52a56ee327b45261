"""One text replaced by another inside a file's text. Pure functions.

Nothing outside the places that are replaced changes, whatever newlines and characters stand there.
Read with: ``matching.py`` (what counts as the old text), ``merging.py`` (what takes its place),
``candidates.py`` (what is said when nothing does).
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from unspool.kernel.errors import ToolError
from unspool.tools.text import count_text, shown

from .candidates import not_found
from .matching import Match, Matcher, find_match
from .merging import replacement
from .newlines import View

_MAX_LINES = 8  # line numbers named in an error
_MAX_SHOWN = 120  # characters of the replaced text that are told
_APART_FROM: Mapping[Matcher, str] = {
    "fuzzy": "blanks at line ends, or quotes, dashes, spaces and other characters that look alike",
    "escapes": 'escapes such as \\n and \\", read as the characters they stand for, in new_string too',
    "indentation": "indentation; new_string was indented as the file is",
    "block_anchor": "some of the lines between its first and its last one, which fit",
}


class Edited(NamedTuple):
    """A text after an edit. ``replaced`` is what stood in the first place, ``lines`` are those of all places."""

    text: str
    matcher: Matcher
    lines: list[int]
    replaced: str

    @property
    def note(self) -> str:
        """What to tell a model whose old text was not matched exactly, else ``""``."""
        if self.matcher == "exact":
            return ""
        what = "several lines: see the diff"
        if "\n" not in self.replaced.rstrip("\r\n") and len(self.replaced) <= _MAX_SHOWN:
            what = shown(self.replaced)
        return f"not an exact match: old_string fits apart from {_APART_FROM[self.matcher]}. Replaced: {what}"


def edit_text(text: str, old: str, new: str, *, replace_all: bool = False) -> Edited:
    """``text`` with ``old`` replaced by ``new``, in its only place or, with ``replace_all``, in every place.

    Raises:
        ToolError: ``old`` is empty, not there, there more than once, or replacing it changes nothing.
    """
    if not old:
        raise ToolError(_empty(text))
    view = View(text)
    plain_old, plain_new = view.plain(old), view.plain(new)
    if plain_old == plain_new:
        raise ToolError("old_string and new_string are the same: nothing to change")
    match = find_match(view, plain_old, plain_new, loose=not replace_all)
    if match is None:
        raise ToolError(not_found(view, plain_old))
    lines = view.lines(span.start for span in match.spans)
    if match.overlapping or (len(lines) > 1 and not replace_all):
        raise ToolError(_not_unique(match, lines))
    edited = _replaced(view, match)
    if edited == text:
        raise ToolError("the edit changes nothing: the file already has new_string in that place")
    first = match.spans[0]
    return Edited(edited, match.matcher, lines, text[first.start : first.end])


def _replaced(view: View, match: Match) -> str:
    done: list[str] = []
    at = 0
    for span, indent in zip_longest(match.spans, match.indents):
        found = view.text[span.start : span.end]
        done += [view.text[at : span.start], replacement(found, match.old, match.new, view.newline, indent)]
        at = span.end
    return "".join([*done, view.text[at:]])


def _empty(text: str) -> str:
    if not text:
        return "old_string is empty, and so is the file: use write_file to give it content"
    return "old_string is empty: give the text to replace, or use write_file to replace the whole file"


def _not_unique(match: Match, lines: Sequence[int]) -> str:
    if match.overlapping:
        return (
            f"old_string occurs several times, overlapping, from line {lines[0]}: give a longer one, with the "
            "lines around it"
        )
    numbers = [str(line) for line in dict.fromkeys(lines)]
    named = ", ".join(numbers[:_MAX_LINES]) + (", …" if len(numbers) > _MAX_LINES else "")
    where = "line" if len(numbers) == 1 else "lines"
    how = "" if match.matcher == "exact" else f" (apart from {_APART_FROM[match.matcher].partition(';')[0]})"
    return (
        f"Found {count_text(len(lines), 'occurrence')} of old_string{how}, in {where} {named}: add lines around it "
        "until it is unique, or set replace_all"
    )
