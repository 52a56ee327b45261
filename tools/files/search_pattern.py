"""The pattern of a search: compiled, with a time limit, and with quick ways to see that a file has no match.

Python's ``re`` can't be interrupted and holds the interpreter while it backtracks: a bad pattern
would stop the whole process, whatever thread it runs in. ``regex`` speaks the same language, lets
other threads run and keeps a time limit; it is loaded with the first search.
"""

import functools
import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from unspool.kernel.errors import ToolError

from .prefilter import Loosened, loosened, loosened_text

MAX_PATTERN = 1000  # characters
LINE_S = 2.0  # for the pattern on one line
FILE_S = 0.25  # for the look at a whole file

# Whatever could see more of the text than its line, or give up a match because of it: groups
# with a question mark, anchors of the whole text, possessive repetition.
_SEES_MORE = re.compile(r"\(\?(?!:)|\(\*|\\[AGKLMXZmz]|[*+?}]\+")
# ``regex`` takes x{e} for "x, or something like it"; in ``re`` such braces are plain characters.
_BRACE = re.compile(r"(\\[pPNLg]\{[^}]*\}|\\.|\{\d+(?:,\d*)?\}|\{,\d+\})|\{", re.DOTALL)


class SlowPatternError(Exception):
    """The pattern takes too long on a line; ``number`` counts from 0."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Hit(NamedTuple):
    """A line that matches, counted from 0, and where in it the first match begins."""

    number: int
    at: int


class SearchPattern:
    """A compiled pattern with a time limit.

    Raises:
        ToolError: not a regular expression, with the position.
    """

    def __init__(self, pattern: str, *, literal: bool, ignore_case: bool) -> None:
        if not pattern:
            raise ToolError("the pattern is empty")
        if len(pattern) > MAX_PATTERN:
            raise ToolError(f"the pattern is too long: {len(pattern)} of at most {MAX_PATTERN} characters")
        engine: Any = importlib.import_module("regex")
        flags = engine.MULTILINE | (engine.IGNORECASE if ignore_case else 0)
        try:
            compiled: Any = engine.compile(
                engine.escape(pattern) if literal else _plain_braces(pattern), flags
            )
        except engine.error as error:
            place = "" if error.pos is None else f" at position {error.pos}"
            raise ToolError(f"not a regular expression: {error.msg}{place}; or set literal") from error
        except RecursionError:
            raise ToolError("the pattern is nested too deeply") from None
        self._compiled = compiled
        self._ignore_case = ignore_case
        self._by_file = literal or not _SEES_MORE.search(pattern)

        def matches(piece: str, char: str) -> bool:
            return engine.match(piece, char, flags) is not None

        self.loosened: Loosened | None = (
            loosened_text(pattern, ignore_case=ignore_case)
            if literal
            else loosened(pattern, ignore_case=ignore_case, matches=functools.cache(matches))
        )

        self._word = self.loosened.needle.decode() if self.loosened and not ignore_case else ""

    def may_be_in(self, data: bytes) -> bool:
        """False when no line of a file can match, by what plain bytes it would have to hold."""
        needle = self.loosened.needle if self.loosened else b""
        return not needle or needle in (data.lower() if self._ignore_case else data)

    def hits(self, text: str, stop: Callable[[], bool]) -> Iterator[Hit]:
        """The lines of ``text`` that match, one after the other, until ``stop`` says so.

        Raises:
            SlowPatternError: one line takes longer than ``LINE_S``.
        """
        start = number = 0
        while start < len(text) and not stop():
            found = self._next(text, start)
            if found is None:
                return
            number += text.count("\n", start, found)
            start = text.rfind("\n", start, found) + 1 or start
            end = text.find("\n", found)
            end = len(text) if end < 0 else end
            if start == len(text):
                return  # behind the last line break
            at = self._find(text[start:end], number)
            if at is not None:
                yield Hit(number, at)
            start, number = end + 1, number + 1

    def _next(self, text: str, start: int) -> int | None:
        """Where, from the start of a line on, there may be a match; None where there is none.

        A pattern that looks at nothing but what it consumes, word boundaries, and line starts and
        ends, matches in the text wherever it matches in a line. One that is slow on a whole text
        (it may cross lines there) is not tried again.
        """
        if self._word:
            found = text.find(self._word, start)
            return None if found < 0 else found
        if not self._by_file:
            return start
        try:
            match = self._compiled.search(text, start, timeout=FILE_S, concurrent=True)
        except TimeoutError:
            self._by_file = False
            return start
        return None if match is None else int(match.start())

    def _find(self, line: str, number: int) -> int | None:
        """Where the first match in a line begins."""
        try:
            match = self._compiled.search(line, timeout=LINE_S, concurrent=True)
        except TimeoutError:
            raise SlowPatternError(number) from None
        return None if match is None else int(match.start())


def _plain_braces(pattern: str) -> str:
    return _BRACE.sub(lambda found: found[1] or r"\{", pattern)
