"""Ranges of a text, and where one text occurs in another. Pure functions."""

from typing import NamedTuple

from unspool.kernel.errors import ToolError

MAX_PLACES = 100_000


class Span(NamedTuple):
    """A range of characters, the end not included."""

    start: int
    end: int


def find_all(text: str, old: str, shared: int = 0) -> list[Span]:
    """Every place of ``old`` in ``text`` that does not overlap an earlier one.

    Where there is only one such place and another overlaps it, that one comes second. ``shared`` is how
    many characters at the end of one place may begin the next one.

    Raises:
        ToolError: there are more than 100,000 places.
    """
    spans: list[Span] = []
    size, step = len(old), len(old) - shared
    at = text.find(old)
    while at >= 0:
        if len(spans) == MAX_PLACES:
            raise ToolError(f"old_string occurs more than {MAX_PLACES} times: give a longer one")
        spans.append(Span(at, at + size))
        at = text.find(old, at + step)
    if len(spans) == 1 and (at := text.find(old, spans[0].start + 1)) >= 0:
        spans.append(Span(at, at + size))
    return spans
