"""``grep``: lines that a regular expression matches, in the files below a directory.

The language is that of Python's ``re``, read by ``regex`` (``search_pattern.py``). Where ripgrep is at hand it says which files
are worth a look, for patterns in the subset that ``prefilter.py`` describes; lines are found and shown by us
either way, so the result is the same without it.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from io import BytesIO
from itertools import islice
from typing import BinaryIO

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import ToolContext
from unspool.tools.text import MAX_OUTPUT, MAX_RESULT, count_text, looks_binary, shown, shown_list, size_text

from .buffered import BufferedRoots
from .hit_list import HitList
from .patterns import Glob
from .ripgrep import Listing, find_ripgrep
from .root import Roots
from .search_pattern import SearchPattern, SlowPatternError
from .sweep import Found, Sweep

MAX_MATCHES = 100
MAX_CONTEXT = 10
MAX_FILE = 8 << 20  # bytes; larger files are not searched
SEARCH_S = 30.0  # for a whole search
FEW = 300  # files searched before ripgrep is started: it takes longer to start than they take
_SAMPLE = 8192


def grep_tool(root: Roots) -> FunctionTool[..., str]:
    """The tool ``grep`` on ``root``; for patterns in a subset (``prefilter.py``) it uses ripgrep where there is one."""

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
        no_ignore: bool = False,
    ) -> str:
        """Search file contents line by line. Hits are path:line:text, context lines path-line-text.

        Binary files, and what .gitignore leaves out, are passed over.

        Args:
            pattern: a Python regular expression; it is matched with each line by itself
            path: the directory or file to search, relative to the root directory
            glob: search only files whose name matches, such as *.py or src/**/*.py
            literal: take the pattern as plain text
            ignore_case: match upper and lower case alike
            context: lines to show before and after each hit, at most 10
            limit: how many hits to show, at most 100
            no_ignore: search what .gitignore leaves out as well, and .git, node_modules and the like
        """
        compiled = SearchPattern(pattern, literal=literal, ignore_case=ignore_case)
        limit = min(limit, MAX_MATCHES) if limit > 0 else MAX_MATCHES
        here = root.at(ctx)
        search = _Search(here, ctx, compiled, limit, min(max(context, 0), MAX_CONTEXT))
        if here.is_dir(path):
            sweep = Sweep(here, path, Glob(glob) if glob else None, ("file",), no_ignore=no_ignore)
            search.search_below(path, sweep, no_ignore=no_ignore)
            if glob and not search.met_files:
                return search.text(f"no file matches {shown(glob)} in {shown(path)}")
        else:
            search.search_file(path)
        return search.text(f"no line matches {shown(pattern)} in {shown(path)}")

    return grep


class _Search:
    """One search: hits as lines, and an account of what was not searched."""

    def __init__(
        self, root: Roots, ctx: ToolContext, pattern: SearchPattern, limit: int, context: int
    ) -> None:
        self.met_files = False
        self._buffers: dict[str, bytes] = {}  # what is open in a host, by path below the directory
        self._root = root
        self._ctx = ctx
        self._pattern = pattern
        self._limit = limit
        self._until = ctx.clock.monotonic() + SEARCH_S
        self._found = HitList(context)
        self._binary: list[str] = []
        self._large: list[str] = []
        self._unreadable: list[str] = []
        self._notes: list[str] = []

    def search_file(self, path: str) -> None:
        with self._root.open_file(path) as file:
            data = self._read(path, file)
        if data and _is_binary(data):
            self._binary.append(path)
        elif data:
            self._search_text(path, _decoded(data))

    def search_below(self, path: str, sweep: Sweep, *, no_ignore: bool) -> None:
        """Search the files of a sweep, in its order; ripgrep, where it helps, says which of them to read."""
        if isinstance(self._root, BufferedRoots):
            self._buffers = self._root.buffers_below(path)
        program = find_ripgrep() if self._pattern.loosened is not None else None
        with closing(self._files(sweep)) as files, ExitStack() as stay:
            if program is None:
                self._search_all(files)
            elif not self._search_all(islice(files, FEW)):
                listing = self._listing(program, path, sweep, stay, obeys=not no_ignore)
                if listing is None:
                    self._search_all(files)
                else:
                    self._search_listed(listing, sweep, files)
        self._notes += sweep.notes()

    def text(self, nothing: str) -> str:
        """The result for the model; ``nothing`` says that there is none.

        What was left out is told of a search that went to its end.
        """
        notes = self._end_notes()
        if not notes:
            notes = list(self._notes)
            for names, why in (
                (self._binary, "binary"),
                (self._large, f"over {size_text(MAX_FILE)}"),
                (self._unreadable, "not readable"),
            ):
                if names:
                    notes.append(f"not searched, {why}: {shown_list(names)}")
        return "\n".join([*(self._found.lines or [nothing]), *(f"[{note}]" for note in notes)])

    def _end_notes(self) -> list[str]:
        where = "narrow the pattern, path or glob"
        if self._found.is_full:
            return [f"stopped after {size_text(MAX_OUTPUT)}: {where}"]
        if self._found.count >= self._limit:
            return [f"stopped after {count_text(self._found.count, 'match')}: {where}"]
        if self._ctx.clock.monotonic() >= self._until:
            return [f"stopped after {SEARCH_S:.0f} seconds: narrow the path or glob"]
        return []

    def _is_over(self) -> bool:
        if self._ctx.cancelled:
            raise ToolError("cancelled")
        return (
            self._found.count >= self._limit
            or self._found.is_full
            or self._ctx.clock.monotonic() >= self._until
        )

    def _files(self, sweep: Sweep) -> Generator[Found, None, None]:
        """The files to search; those that are too large are noted."""
        with closing(sweep.entries(self._ctx)) as entries:
            for found in entries:
                self.met_files = True
                try:
                    too_large = found.stat().st_size > MAX_FILE
                except FileNotFoundError:
                    continue  # gone since
                except OSError:
                    self._unreadable.append(found.path)
                    continue
                if too_large and found.below not in self._buffers:
                    self._large.append(found.path)
                else:
                    yield found

    def _listing(
        self, program: str, path: str, sweep: Sweep, stay: ExitStack, *, obeys: bool
    ) -> Listing | None:
        """ripgrep, started; it ends with ``stay``. None where it can't be started."""
        assert self._pattern.loosened is not None
        fd = stay.enter_context(self._root.open_dir(path))
        expression = self._pattern.loosened.expression
        try:
            listing = Listing(
                program,
                fd,
                expression,
                names=sweep.names,
                skipped=sweep.skipped,
                obeys=obeys,
                max_file=MAX_FILE,
            )
        except OSError:  # not a program for this machine, no place for a file: we do without
            return None
        return stay.enter_context(listing)

    def _search_all(self, files: Iterator[Found]) -> bool:
        """Search all the files; whether there is nothing more to do, as there were fewer than ``FEW`` or enough hits."""
        count = 0
        for found in files:
            if self._is_over():
                return True
            self._search_one(found)
            count += 1
        return count < FEW or self._is_over()

    def _search_listed(self, listing: Listing, sweep: Sweep, files: Iterator[Found]) -> None:
        """Search all files until ripgrep has ended, and from then on those that it has named."""
        names: frozenset[str] | None = None
        is_running = True
        for found in files:
            if self._is_over():
                return
            if is_running and listing.has_ended:
                names, is_running = listing.names(), False
            if names is None or not sweep.is_common or found.below in names or found.below in self._buffers:
                self._search_one(found)

    def _search_one(self, found: Found) -> None:
        buffer = self._buffers.get(found.below)
        try:
            with found.open() if buffer is None else BytesIO(buffer) as file:
                data = self._read(found.path, file)
        except (ToolError, OSError):
            self._unreadable.append(found.path)
        else:
            if data and self._pattern.may_be_in(data) and not _is_binary(data):
                self._search_text(found.path, _decoded(data))

    def _read(self, path: str, file: BinaryIO) -> bytes:
        """What is in a file; nothing for one that is too large, which is then noted."""
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        data = b"" if size > MAX_FILE else file.read(max(size, _SAMPLE) + 1) or b""
        if max(size, len(data)) <= MAX_FILE:
            return data
        self._large.append(path)
        return b""

    def _search_text(self, path: str, text: str) -> None:
        try:
            self._found.add(path, text, self._pattern.hits(text, self._is_over))
        except SlowPatternError as error:
            raise ToolError(
                f"the pattern takes too long on {shown(path)}:{error.number + 1}: repetition inside repetition, "
                "as in (a+)+, explodes; simplify it, or leave the file out"
            ) from None


def _is_binary(data: bytes) -> bool:
    return b"\0" in data or looks_binary(data[:_SAMPLE])


def _decoded(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
