"""Patches in the V4A form: ``*** Begin Patch``, a section for each file, ``*** End Patch``. Pure functions.

What is around the patch (a heredoc, a code fence) is left out. Read with: ``patching.py``.
"""

from collections.abc import Iterator

from unspool.kernel.errors import ToolError
from unspool.tools.text import shown

from .hunk_builder import HunkBuilder
from .hunks import Hunk
from .patching import FilePatch

BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_ADD, _UPDATE, _DELETE, _MOVE = "*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:"
_END_OF_FILE = "*** End of File"


def is_v4a(patch: str) -> bool:
    return any(
        line.strip() == BEGIN or line.startswith((_ADD, _UPDATE, _DELETE)) for line in patch.split("\n")
    )


def parse_v4a(patch: str) -> list[FilePatch]:
    """What a patch does with each file, in its order.

    Raises:
        ToolError: it isn't complete, or a line is not of the form.
    """
    parser = _Parser(patch)
    found: list[FilePatch] = []
    while parser.has_more:
        found += parser.section()
    if not found:
        raise ToolError("the patch names no file")
    return found


class _Parser:
    """Reads line by line; ``_at`` is the next one."""

    def __init__(self, patch: str) -> None:
        lines = patch.split("\n")
        begins = [at for at, line in enumerate(lines) if line.strip() == BEGIN]
        ends = [at for at, line in enumerate(lines) if line.strip() == _END]
        if len(begins) != 1:
            raise ToolError(f"the patch must have one line {BEGIN}, it has {len(begins)}")
        if len(ends) != 1 or ends[0] < begins[0]:
            raise ToolError(
                f"the patch must end with one line {_END}: if it was cut off, send all of it again"
            )
        if lines[begins[0]].endswith("\r"):  # the patch itself has such newlines
            lines = [line.removesuffix("\r") for line in lines]
        self._lines = lines[: ends[0]]
        self._at = begins[0] + 1

    @property
    def has_more(self) -> bool:
        return self._at < len(self._lines)

    def section(self) -> list[FilePatch]:
        """The next section; none for an empty line."""
        line = self._lines[self._at]
        self._at += 1
        if not line.strip():
            return []
        if path := _after(line, _ADD):
            return [FilePatch("add", path, text=self._content())]
        if path := _after(line, _DELETE):
            return [FilePatch("delete", path)]
        if path := _after(line, _UPDATE):
            return [self._update(path)]
        raise self._bad("expected *** Add File:, *** Update File: or *** Delete File: with a path")

    def _content(self) -> str:
        """The lines of a new file; an empty one between others may lack its +."""
        lines: list[str] = []
        empty = 0
        for line in self._body():
            if line.startswith("+"):
                lines += [""] * empty + [line[1:]]
                empty = 0
            elif line.strip():
                raise self._bad("each line of a new file must begin with +")
            else:
                empty += 1
        return "".join(f"{line}\n" for line in lines)

    def _update(self, path: str) -> FilePatch:
        move_to = _after(self._lines[self._at], _MOVE) if self.has_more else ""
        self._at += bool(move_to)
        self._at += 2 * self._is_named_again(path)
        hunks: list[Hunk] = []
        hunk = HunkBuilder(path)
        for line in self._body():
            if line.startswith("@@"):
                if hunk.has_lines:
                    hunks.append(hunk.build(hunks))
                    hunk = HunkBuilder(path)
                hunk.header(line)
            elif line.rstrip() == _END_OF_FILE:
                hunks.append(hunk.build(hunks, at_end=True))
                hunk = HunkBuilder(path)
            elif not hunk.add(line):
                raise self._bad("a line of a hunk must begin with a blank, - or +")
        if hunk.is_begun:
            hunks.append(hunk.build(hunks))
        return FilePatch("update", path, tuple(hunks), move_to=move_to)

    def _is_named_again(self, path: str) -> bool:
        """Whether the names that a unified diff begins with come next; the hunks follow."""
        *names, hunk = [line.rstrip() for line in self._lines[self._at : self._at + 3]] or [""]
        pairs = ([f"--- {path}", f"+++ {path}"], [f"--- a/{path}", f"+++ b/{path}"])
        return names in pairs and hunk.startswith("@@")

    def _body(self) -> Iterator[str]:
        """The lines up to the next section."""
        while self.has_more:
            line = self._lines[self._at]
            if line.startswith("*** ") and line.rstrip() != _END_OF_FILE:
                return
            self._at += 1
            yield line

    def _bad(self, problem: str) -> ToolError:
        return ToolError(f"line {self._at} of the patch, {shown(self._lines[self._at - 1][:80])}: {problem}")


def _after(line: str, marker: str) -> str:
    """The path after a marker, or ``""``."""
    return line.removeprefix(marker).strip() if line.startswith(marker) else ""
