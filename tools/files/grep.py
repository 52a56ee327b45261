"""``grep``: lines that a regular expression matches, in the files below a directory.

Python's ``re`` can't be interrupted and holds the interpreter while it backtracks: a bad pattern
would stop the whole process, whatever thread it runs in. ``regex`` speaks the same language, lets
other threads run and keeps a time limit; it is loaded with the first search.

A file that does not match as a whole is not looked at line by line; see ``_Pattern.may_match``.
"""

import importlib
import os
import re
from typing import Any

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import ToolContext
from unspool.tools.text import MAX_OUTPUT, MAX_RESULT, count_text, looks_binary, shown, shown_list, size_text

from .patterns import Glob
from .root import Root
from .sweep import Sweep

MAX_MATCHES = 100
MAX_CONTEXT = 10
MAX_LINE = 500  # characters shown of one line
MAX_FILE = 8 << 20  # bytes; larger files are not searched
MAX_PATTERN = 1000  # characters
SEARCH_S = 30.0  # for a whole search
LINE_S = 2.0  # for the pattern on one line
_FILE_S = 0.25  # for the look at a whole file
_SAMPLE = 8192
_CANCEL_EVERY = 256  # lines
_BEFORE = 100  # characters kept before a match in a line that is cut


def grep_tool(root: Root) -> FunctionTool[..., str]:
    """The tool ``grep`` on ``root``."""

    @tool(read_only=True, max_result_bytes=MAX_RESULT)
    def grep(
        pattern: str,
        ctx: ToolContext,
        path: str = ".",
        glob: str = "",
        literal: bool = False,
        ignore_case: bool = False,
        context: int = 0,
        limit: int = MAX_MATCHES,
    ) -> str:
        """Search file contents line by line. Hits are path:line:text, context lines path-line-text.

        Args:
            pattern: a Python regular expression; it is matched with each line by itself
            path: the directory or file to search, relative to the root directory
            glob: search only files whose name matches, such as *.py or src/**/*.py
            literal: take the pattern as plain text
            ignore_case: match upper and lower case alike
            context: lines to show before and after each hit, at most 10
            limit: how many hits to show, at most 100
        """
        compiled = _Pattern(pattern, literal=literal, ignore_case=ignore_case)
        limit = min(limit, MAX_MATCHES) if limit > 0 else MAX_MATCHES
        search = _Search(root, ctx, compiled, limit, min(max(context, 0), MAX_CONTEXT))
        search.run(path, Glob(glob) if glob else None)
        return search.text(f"no line matches {shown(pattern)} in {shown(path)}")

    return grep


class _Pattern:
    """A compiled pattern with a time limit.

    Raises:
        ToolError: not a regular expression, with the position.
    """

    # Whatever could see more of the text than its line, or give up a match because of it: groups
    # with a question mark, anchors of the whole text, possessive repetition.
    _SEES_MORE = re.compile(r"\(\?|\(\*|\\[AGKLMXZmz]|[*+?}]\+")

    def __init__(self, pattern: str, *, literal: bool, ignore_case: bool) -> None:
        if not pattern:
            raise ToolError("the pattern is empty")
        if len(pattern) > MAX_PATTERN:
            raise ToolError(f"the pattern is too long: {len(pattern)} of at most {MAX_PATTERN} characters")
        engine: Any = importlib.import_module("regex")
        flags = engine.MULTILINE | (engine.IGNORECASE if ignore_case else 0)
        try:
            self._compiled: Any = engine.compile(engine.escape(pattern) if literal else pattern, flags)
        except engine.error as error:
            place = "" if error.pos is None else f" at position {error.pos}"
            raise ToolError(f"not a regular expression: {error.msg}{place}; or set literal") from error
        except RecursionError:
            raise ToolError("the pattern is nested too deeply") from None
        self._by_file = literal or not self._SEES_MORE.search(pattern)

    def may_match(self, text: str) -> bool:
        """False when no line of ``text`` can match.

        A pattern that looks at nothing but what it consumes, word boundaries, and line starts and
        ends, matches in the text wherever it matches in a line. One that is slow on a whole text
        (it may cross lines there) is not tried again.
        """
        if not self._by_file:
            return True
        try:
            return self._compiled.search(text, timeout=_FILE_S, concurrent=True) is not None
        except TimeoutError:
            self._by_file = False
            return True

    def find(self, line: str) -> int | None:
        """Where the first match begins. Raises ``TimeoutError`` after ``LINE_S``."""
        match = self._compiled.search(line, timeout=LINE_S, concurrent=True)
        return None if match is None else int(match.start())


class _Search:
    """One search: hits as lines, and an account of what was not searched."""

    def __init__(self, root: Root, ctx: ToolContext, pattern: _Pattern, limit: int, context: int) -> None:
        self._root = root
        self._ctx = ctx
        self._pattern = pattern
        self._limit = limit
        self._context = context
        self._until = ctx.clock.monotonic() + SEARCH_S
        self._lines: list[str] = []
        self._size = 0
        self._hits = 0
        self._binary: list[str] = []
        self._large: list[str] = []
        self._unreadable: list[str] = []
        self._notes: list[str] = []

    def run(self, path: str, glob: Glob | None) -> None:
        if not self._root.is_dir(path):
            self._search_text(path, self._read(path))
            return
        sweep = Sweep(self._root, path, glob, ("file",))
        for entry in sweep.entries(self._ctx):
            if self._is_over():
                break
            try:
                text = self._read(entry.path)
            except (ToolError, OSError):
                self._unreadable.append(entry.path)
            else:
                self._search_text(entry.path, text)
        self._notes += sweep.notes()

    def text(self, nothing: str) -> str:
        """The result for the model; ``nothing`` says that there is none."""
        notes = [*self._end_notes(), *self._notes]
        for names, why in (
            (self._binary, "binary"),
            (self._large, f"over {size_text(MAX_FILE)}"),
            (self._unreadable, "not readable"),
        ):
            if names:
                notes.append(f"not searched, {why}: {shown_list(names)}")
        return "\n".join([*(self._lines or [nothing]), *(f"[{note}]" for note in notes)])

    def _end_notes(self) -> list[str]:
        if self._hits >= self._limit:
            return [f"stopped after {count_text(self._hits, 'match')}: narrow the pattern, path or glob"]
        if self._size >= MAX_OUTPUT:
            return [f"stopped after {size_text(MAX_OUTPUT)}: narrow the pattern, path or glob"]
        if self._ctx.clock.monotonic() >= self._until:
            return [f"stopped after {SEARCH_S:.0f} seconds: narrow the path or glob"]
        return []

    def _is_over(self) -> bool:
        if self._ctx.cancelled:
            raise ToolError("cancelled")
        return (
            self._hits >= self._limit
            or self._size >= MAX_OUTPUT
            or self._ctx.clock.monotonic() >= self._until
        )

    def _read(self, path: str) -> str:
        """The text of a file; empty for one that is not to be searched, which is then noted."""
        with self._root.open_file(path) as file:
            too_large = os.fstat(file.fileno()).st_size > MAX_FILE
            data = b"" if too_large else file.read(MAX_FILE + 1) or b""
        if too_large or len(data) > MAX_FILE:
            self._large.append(path)
        elif looks_binary(data[:_SAMPLE]):
            self._binary.append(path)
        else:
            return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
        return ""

    def _search_text(self, path: str, text: str) -> None:
        if not text or not self._pattern.may_match(text):
            return
        lines = text.removesuffix("\n").split("\n")
        shown_to, after = -1, 0  # the last line shown, and how many more belong to its hit
        for number, line in enumerate(lines):
            if number % _CANCEL_EVERY == 0 and self._is_over():
                return
            at = self._find(path, number, line)
            if at is not None:
                before = range(max(shown_to + 1, number - self._context), number)
                if self._context and self._lines and (shown_to < 0 or shown_to + 1 < min((*before, number))):
                    self._show("--")
                for earlier in before:
                    self._show_line(path, earlier, lines[earlier])
                self._hits += 1
                after = self._context + 1
            if after:
                self._show_line(path, number, line, at)
                shown_to, after = number, after - 1
            if self._hits >= self._limit or self._size >= MAX_OUTPUT:
                for later in range(number + 1, min(number + after + 1, len(lines))):
                    self._show_line(path, later, lines[later])
                return

    def _find(self, path: str, number: int, line: str) -> int | None:
        try:
            return self._pattern.find(line)
        except TimeoutError:
            raise ToolError(
                f"the pattern takes too long on {shown(path)}:{number + 1}: repetition inside repetition, "
                "as in (a+)+, explodes; simplify it, or leave the file out"
            ) from None

    def _show_line(self, path: str, number: int, line: str, at: int | None = None) -> None:
        mark = "-" if at is None else ":"
        self._show(f"{shown(path)}{mark}{number + 1}{mark}{_cut(line, at or 0)}")

    def _show(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line.encode()) + 1


def _cut(line: str, at: int) -> str:
    """At most ``MAX_LINE`` characters of a line, the place ``at`` among them."""
    if len(line) <= MAX_LINE:
        return line
    start = max(0, min(at - _BEFORE, len(line) - MAX_LINE))
    end = start + MAX_LINE
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
