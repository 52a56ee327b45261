"""Unified diffs, plain or as git writes them, as changes to files. Pure functions.

Text before the first file is left out. The counts in the headers of hunks decide where a hunk ends, if they fit;
otherwise it ends where its lines do. A line that belongs to nothing is an error: what was meant with it would be lost.
Read with: ``patching.py``.
"""

import re
from typing import NamedTuple

from unspool.kernel.errors import ToolError
from unspool.tools.text import shown

from .hunk_builder import HunkBuilder
from .hunks import Hunk
from .patching import FilePatch

_GIT = "diff --git "
_NOTHING = "/dev/null"
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_MEANS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_IGNORED = ("index ", "Index: ", "similarity index ", "dissimilarity index ", "=====", "Only in ", "diff ")
_MODES = ("old mode ", "new mode ")
_VERSION = re.compile(r"\d+\.\d+")
_PROSE = ("From ", "```", "EOF")


class _Header(NamedTuple):
    """What is said of a file before its hunks; ``old`` or ``new`` is None where there is no such file."""

    old: str | None
    new: str | None
    is_rename: bool = False
    note: str = ""


def parse_unified(patch: str) -> list[FilePatch]:
    """What a patch does with each file, in its order.

    Raises:
        ToolError: it is not a unified diff, or asks for what can't be done: copies, binary files.
    """
    lines = patch.removesuffix("\n").split("\n")
    if all(line.endswith("\r") for line in lines if line.startswith(("--- ", "+++ ", "@@ "))):
        lines = [line.removesuffix("\r") for line in lines]  # the patch itself has such newlines
    return _Parser(lines).files()


class _Parser:
    """Reads line by line; ``_at`` is the next one."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def files(self) -> list[FilePatch]:
        found: list[FilePatch] = []
        prose = True
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if self._is_file(self._at):
                header = self._header()
                found.append(_file_patch(header, self._hunks(header.new or header.old or "")))
                prose = False
            elif self._is_signature(self._at) or line.startswith(_PROSE):
                prose = True
                self._at += 1
            elif prose and line.startswith("@@ -"):
                raise self._bad("the lines --- and +++ with the name of the file are missing before it")
            elif prose or not line.strip() or line.startswith(_IGNORED):
                self._at += 1
            else:
                raise self._bad("it belongs to no hunk; a line of a hunk begins with a blank, - or +")
        if not found:
            raise ToolError(
                "this is not a patch: begin it with *** Begin Patch, or with the --- and +++ lines of a unified diff"
            )
        return found

    def _line(self, at: int) -> str:
        return self._lines[at] if at < len(self._lines) else ""

    def _is_file(self, at: int) -> bool:
        """Whether the header of a file begins at a line."""
        if self._line(at).startswith(_GIT):
            return True
        return self._line(at).startswith("--- ") and self._line(at + 1).startswith("+++ ")

    def _header(self) -> _Header:
        line = self._line(self._at)
        if not line.startswith(_GIT):
            self._at += 2
            return _plain_header(line, self._line(self._at - 1))
        self._at += 1
        header = _git_names(line)
        while (line := self._line(self._at)) and not line.startswith(("@@", _GIT)):
            if self._is_file(self._at):
                self._at += 2
                plain = _plain_header(line, self._line(self._at - 1))
                return plain._replace(is_rename=header.is_rename, note=header.note)
            if line.startswith(_PROSE) or self._is_signature(self._at):
                break
            header = self._extended(header, line)
            self._at += 1
        return header

    def _extended(self, header: _Header, line: str) -> _Header:
        for said, field in (("rename from ", "old"), ("rename to ", "new")):
            if line.startswith(said):
                return header._replace(is_rename=True, **{field: _unquoted(line[len(said) :])})
        if line.startswith("new file mode "):
            return header._replace(old=None)
        if line.startswith("deleted file mode "):
            return header._replace(new=None)
        if line.startswith(_MODES):
            return header._replace(note="file modes can't be changed: that part was left out")
        if line.startswith(("copy from ", "copy to ")):
            raise self._bad("copies are not possible: add the file instead")
        if line.startswith(("Binary files ", "GIT binary patch")):
            raise self._bad("binary files can't be patched")
        if not line.startswith(_IGNORED):
            raise self._bad("this is not known in the header of a file")
        return header

    def _hunks(self, path: str) -> list[Hunk]:
        hunks: list[Hunk] = []
        while self._line(self._at).startswith("@@"):
            hunks.append(self._hunk(path, hunks))
        return hunks

    def _hunk(self, path: str, before: list[Hunk]) -> Hunk:
        hunk = HunkBuilder(path)
        hunk.header(self._line(self._at))
        self._at += 1
        start = self._at
        if hunk.counts is not None and (stop := self._counted(*hunk.counts)):
            for line in self._lines[start:stop]:
                hunk.add(line)
            self._at = stop
            return hunk.build(before, is_counted=True)
        while self._at < len(self._lines) and not self._ends_hunk(self._at):
            if not hunk.add(self._line(self._at)):
                raise self._bad("a line of a hunk must begin with a blank, - or +")
            self._at += 1
        return hunk.build(before)

    def _counted(self, old: int, new: int) -> int | None:
        """Where a hunk of so many lines ends; None if the counts do not fit its lines."""
        at = self._at
        while old > 0 or new > 0:
            if at >= len(self._lines):
                return None
            mark = self._lines[at].removesuffix("\r")[:1]
            if mark not in ("", " ", "-", "+", "\\"):
                return None
            old -= mark not in ("+", "\\")
            new -= mark not in ("-", "\\")
            at += 1
        at += self._line(at).startswith("\\")
        fits = old == new == 0 and (self._ends_hunk(at) or self._line(at)[:1] not in (" ", "-", "+"))
        return at if fits else None

    def _ends_hunk(self, at: int) -> bool:
        line = self._line(at)
        if line.startswith(("@@", _GIT, *_IGNORED, *_PROSE)) or self._is_signature(at):
            return True
        return self._is_file(at) and (at + 2 >= len(self._lines) or self._line(at + 2).startswith("@@"))

    def _is_signature(self, at: int) -> bool:
        """Whether a mail made by git ends here, with a line of two dashes and its version."""
        return bool(self._line(at).rstrip() == "--" and _VERSION.match(self._line(at + 1)))

    def _bad(self, problem: str) -> ToolError:
        return ToolError(f"line {self._at + 1} of the patch, {shown(self._line(self._at)[:80])}: {problem}")


def _file_patch(header: _Header, hunks: list[Hunk]) -> FilePatch:
    note = header.note
    match header.old or None, header.new or None:
        case None, None:
            raise ToolError("a file of the patch has no name: give it --- and +++ lines")
        case str(old), None:
            return FilePatch("delete", old, tuple(hunks), note=note)
        case None, str(new):
            return FilePatch("add", new, text=_content(new, hunks), note=note)
        case str(old), str(new):
            if header.is_rename and old != new:
                return FilePatch("update", old, tuple(hunks), move_to=new, note=note)
            return FilePatch("update", new, tuple(hunks), note=note)
    raise AssertionError("unreachable")


def _content(path: str, hunks: list[Hunk]) -> str:
    lines = [line for hunk in hunks for line in hunk.lines]
    if any(line.mark != "+" for line in lines):
        raise ToolError(f"{shown(path)} is new: all its lines must begin with +")
    return "".join(f"{line.text}\n" if line.has_newline else line.text for line in lines)


def _plain_header(old_line: str, new_line: str) -> _Header:
    old, new = _name(old_line[4:]), _name(new_line[4:])
    sides = ((old, "a/"), (new, "b/"))
    if all(name == _NOTHING or name.startswith(prefix) for name, prefix in sides):
        old, new = (name if name == _NOTHING else name[2:] for name, _ in sides)
    return _Header(None if old == _NOTHING else old, None if new == _NOTHING else new)


def _name(text: str) -> str:
    """The path in a --- or +++ line, without a time stamp."""
    text = text.rstrip("\r")
    return _unquoted(text) if text.startswith('"') else text.partition("\t")[0].rstrip()


def _git_names(line: str) -> _Header:
    """The path in a ``diff --git`` line, where both are the same but for a/ and b/; else other lines must tell."""
    text = line.removeprefix(_GIT).rstrip()
    quoted = [_unquoted(m[0]) for m in _QUOTED.finditer(text)] if text.startswith('"') else []
    half = len(text) // 2
    old, new = quoted if len(quoted) == 2 else (text[:half], text[half + 1 :])
    if old.startswith("a/") and new.startswith("b/"):
        old, new = old[2:], new[2:]
    return _Header(old, new) if old == new else _Header("", "")


def _unquoted(text: str) -> str:
    """A path as git quotes those with unusual characters."""
    text = text.strip()
    quoted = _QUOTED.match(text)
    if not quoted:
        return text
    data = _ESCAPE.sub(
        lambda m: bytes([int(m[1], 8) & 255]) if m[1][:1].isdigit() else _MEANS.get(m[1], m[1]),
        quoted[1].encode("utf-8", "surrogateescape"),
    )
    return data.decode("utf-8", "surrogateescape")
