"""Glob patterns over relative paths: ``*``, ``?``, ``[a-z]``, ``{a,b}`` and ``**``.

A pattern without ``/`` matches base names at any depth. ``**`` as a whole name stands for any
number of names, none included. Names that begin with a dot are names like others. Matching never
backtracks beyond names times pattern parts, whatever the pattern.
"""

import fnmatch
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from unspool.kernel.errors import ToolError
from unspool.tools.text import shown

_MAX_PATTERN = 1000  # characters
_MAX_ALTERNATIVES = 64  # patterns that braces may stand for
_EXTENSION = re.compile(r"\*\.[A-Za-z0-9_]+")
_MAGIC = re.compile(r"[*?\[]")

Name: TypeAlias = Callable[[str], object] | None  # None is ``**``


class Glob:
    """A compiled pattern.

    Raises:
        ToolError: empty, absolute, leaving by ``..``, or too large.
    """

    def __init__(self, pattern: str) -> None:
        if not pattern or len(pattern) > _MAX_PATTERN:
            raise ToolError("the glob pattern is empty" if not pattern else "the glob pattern is too long")
        self.extension = (
            pattern if _EXTENSION.fullmatch(pattern) else ""
        )  # a pattern that all programs read alike
        self.only_dirs = pattern.endswith("/")
        spelled = [_names(one) for one in _alternatives(pattern)]
        self.literals = frozenset(name for names in spelled for name in names if not _MAGIC.search(name))
        self._patterns = [[_compile(name) for name in names] for names in spelled]

    def matches(self, path: str) -> bool:
        """Whether the pattern matches a relative path as a whole."""
        names = path.split("/")
        return any(_match(pattern, names) for pattern in self._patterns)

    def may_match_below(self, path: str) -> bool:
        """Whether something below the directory ``path`` may match."""
        names = path.split("/")
        return any(_match_above(pattern, names) for pattern in self._patterns)


def _alternatives(pattern: str) -> list[str]:
    """The patterns that ``{a,b}`` stands for; braces without a partner are plain characters."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        one = todo.pop()
        span = _braces(one)
        if span is None:
            done.append(one)
        else:
            start, options, rest = span
            todo.extend(one[:start] + option + rest for option in reversed(options))
        if len(done) + len(todo) > _MAX_ALTERNATIVES:
            raise ToolError(f"the glob pattern has more than {_MAX_ALTERNATIVES} alternatives")
    return done


def _braces(text: str) -> tuple[int, list[str], str] | None:
    """Where the first group with a comma starts, its options, and what follows it."""
    for start in (i for i, char in enumerate(text) if char == "{"):
        depth, options, last = 0, [], start + 1
        for i in range(start, len(text)):
            depth += (text[i] == "{") - (text[i] == "}")
            if depth == 0 or (depth == 1 and text[i] == ","):
                options.append(text[last:i])
                last = i + 1
            if depth == 0:
                break
        if depth == 0 and len(options) > 1:
            return start, options, text[last:]
    return None


def _names(pattern: str) -> list[str]:
    if pattern.startswith("/"):
        raise ToolError(f"the glob {shown(pattern)} is absolute: give it relative to the directory")
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ToolError(f"the glob {shown(pattern)} leaves the directory: '..' is not allowed")
    return names if "/" in pattern.rstrip("/") else ["**", *names]


def _compile(name: str) -> Name:
    return None if name == "**" else re.compile(fnmatch.translate(name)).match


def _match(pattern: Sequence[Name], names: Sequence[str]) -> bool:
    """Two fingers and the last ``**``: a later one takes over from an earlier one for good."""
    at = name = 0
    star = resume = -1
    while name < len(names):
        if at < len(pattern) and (step := pattern[at]) is None:
            star, resume = at, name
            at += 1
        elif at < len(pattern) and (step := pattern[at]) is not None and step(names[name]):
            at, name = at + 1, name + 1
        elif star >= 0:
            resume += 1
            at, name = star + 1, resume
        else:
            return False
    return all(step is None for step in pattern[at:])


def _match_above(pattern: Sequence[Name], names: Sequence[str]) -> bool:
    for step, name in zip(pattern, names, strict=False):
        if step is None:
            return True
        if not step(name):
            return False
    return len(names) < len(pattern)
