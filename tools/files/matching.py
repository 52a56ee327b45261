"""Where in a text an old text stands, exactly or nearly. Pure functions.

Matchers in order; the first that finds something decides, and how often something occurs is counted by
the matcher that found it:

1. exact: every newline counts as \\n;
2. fuzzy: blanks at line ends, typographic quotes, dashes and spaces, and Unicode forms don't count;
3. escapes: the old text has \\" or \\n where the file has the character itself;
4. indentation: whole lines that differ in how far they are indented, all in the same way;
5. block anchor: first and last line are right, and what is between them nearly is.

4 and 5 need two and three lines. Read with: ``folding.py`` (2), ``blocks.py`` (4, 5), ``editing.py``.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from .blocks import anchored_blocks, reindented_blocks
from .folding import FoldedView
from .indent import Reindent
from .newlines import View
from .spans import Span, find_all

Matcher: TypeAlias = Literal["exact", "fuzzy", "escapes", "indentation", "block_anchor"]
MAX_FILE = 4_000_000  # characters of a file in which inexact matches are looked for
MAX_OLD = 200_000  # characters of old text for the same
_ESCAPE = re.compile(r"""\\([ntr"'`\\])""")
_MEANS = {"n": "\n", "t": "\t", "r": "\r"}


class Match(NamedTuple):
    """All places of an old text, in order and without overlap.

    ``old`` and ``new`` are the texts as they were understood. ``overlapping`` says that another place
    overlaps the only one given. ``indents`` has one entry for each span, for matches of whole lines.
    """

    matcher: Matcher
    spans: list[Span]
    old: str
    new: str
    overlapping: bool = False
    indents: list[Reindent] = []


def is_too_large(view: View, old: str) -> bool:
    """Whether only exact matches are looked for."""
    return len(view.shown) > MAX_FILE or len(old) > MAX_OLD


def find_match(view: View, old: str, new: str, *, loose: bool = True) -> Match | None:
    """Where ``old`` stands; ``old`` is not empty, and both have \\n for newlines.

    ``loose`` allows the block anchor, which is too weak to find several places.
    """
    if spans := find_all(view.shown, old):
        return _match("exact", view, spans, old, new)
    if is_too_large(view, old):
        return None
    return next(_inexact(view, old, new, loose=loose), None)


def _inexact(view: View, old: str, new: str, *, loose: bool) -> Iterator[Match]:
    folded = FoldedView(view)
    if spans := folded.find(old):
        yield _match("fuzzy", view, spans, old, new)
    escapes = set(_ESCAPE.findall(old))
    plain_old, plain_new = (view.plain(_unescaped(text, escapes)) for text in (old, new))
    if escapes and (spans := find_all(view.shown, plain_old)):
        yield _match("escapes", view, spans, plain_old, plain_new)
    if blocks := reindented_blocks(folded, old, new):
        yield _match("indentation", view, [b.span for b in blocks], old, new, [b.indent for b in blocks])
    if loose and (blocks := anchored_blocks(folded, old, new)):
        yield _match("block_anchor", view, [b.span for b in blocks], old, new, [b.indent for b in blocks])


def _match(
    matcher: Matcher, view: View, spans: list[Span], old: str, new: str, indents: list[Reindent] | None = None
) -> Match:
    overlapping = len(spans) > 1 and spans[1].start < spans[0].end
    sources = [Span(view.source(start), view.source(end)) for start, end in spans]
    return Match(matcher, sources[:1] if overlapping else sources, old, new, overlapping, indents or [])


def _unescaped(text: str, escapes: set[str]) -> str:
    """``text`` with escapes of those kinds undone; they are the ones that the old text has."""
    return _ESCAPE.sub(lambda m: _MEANS.get(m[1], m[1]) if m[1] in escapes else m[0], text)
