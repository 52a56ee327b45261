"""``read_file``: a range of lines of a text file, or of a stored text, in bounded memory and output."""

import difflib
import os
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import BinaryIO

from unspool.kernel.errors import LogError, ToolError
from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.ports import BlobStore, ToolContext
from unspool.tools.text import MAX_OUTPUT, MAX_RESULT, count_text, looks_binary, shown, shown_list

from .root import MissingFileError, Root

MAX_LINES = 2000
MAX_LINE = 2000  # characters
_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20
_SAMPLE = 8192
_MAX_COUNTED = 64 << 20  # bytes read after the range, only to tell how many lines there are
_MAX_SIBLINGS = 10_000  # names looked at for suggestions
_BLOB = "blob:"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_WITH_BLOBS = """\
Read a text file, or a text that was stored because of its length: its path is the blob:… that the shortened \
text names. Lines come as number, tab, text; the end says what range was shown."""


def read_file_tool(root: Root, blobs: BlobStore | None = None) -> FunctionTool[..., str]:
    """The tool ``read_file`` on ``root``; it also opens ``blob:<digest>`` where there is a store."""

    @tool(read_only=True, max_result_bytes=MAX_RESULT, description=_WITH_BLOBS if blobs else "")
    def read_file(path: str, ctx: ToolContext, offset: int = 1, limit: int = MAX_LINES) -> str:
        """Read a text file. Lines come as number, tab, text; the end says what range was shown.

        Args:
            path: the file, relative to the root directory
            offset: number of the first line to show, from 1
            limit: how many lines to show, at most 2000
        """
        if offset < 0:
            raise ToolError("offset must not be negative: line numbers start at 1")
        try:
            file = _open_blob(blobs, path) if path.startswith(_BLOB) else root.open_file(path)
        except MissingFileError as error:
            raise ToolError(f"{error}{_suggestions(root, path)}") from error
        with file:
            _refuse_binary(file, path)
            lines = MAX_LINES if limit <= 0 else min(limit, MAX_LINES)
            return _Range(file, lambda: ctx.cancelled).render(max(offset, 1), lines)

    return read_file


def _open_blob(blobs: BlobStore | None, path: str) -> BinaryIO:
    """The stored text that a path of the form ``blob:<digest>`` names.

    Raises:
        ToolError: there is no store, or nothing of that name in it.
    """
    if blobs is None:
        raise ToolError(
            f"{shown(path)} can't be opened, no texts are stored here: make the call again that gave it"
        )
    digest = path.removeprefix(_BLOB)
    if not _DIGEST.fullmatch(digest):
        raise ToolError(
            f"{shown(path)} names no stored text: give blob: and all 64 hexadecimal digits, as the shortened "
            "text has them"
        )
    try:
        return BytesIO(blobs.get(digest))
    except LogError as error:
        raise ToolError(f"there is no stored text {path}: make the call again that gave it") from error


def _refuse_binary(file: BinaryIO, path: str) -> None:
    """Look at the start of the file; leaves it where the text begins."""
    sample = file.read(_SAMPLE) or b""
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ToolError(f"{shown(path)} is UTF-16 text: only UTF-8 can be read")
    if looks_binary(sample):
        raise ToolError(f"{shown(path)} is a binary file, not text")
    file.seek(len(_BOM) if sample.startswith(_BOM) else 0)


class _Range:
    """Some lines of an open file, rendered."""

    def __init__(self, file: BinaryIO, stop: Callable[[], bool]) -> None:
        self._file = file
        self._stop = stop
        self._replaced = False

    def render(self, first: int, limit: int) -> str:
        before = self._skip(first - 1)
        if before < first - 1:
            raise ToolError(f"offset {first} is past the end: the file has {count_text(before, 'line')}")
        shown_lines: list[str] = []
        size = 0
        number, fits = first, True
        for text in self._lines(limit):
            line = f"{number}\t{text}"
            size += len(line.encode()) + 1
            fits = size <= MAX_OUTPUT
            if not fits:
                break
            shown_lines.append(line)
            number += 1
        if not shown_lines and first > 1:
            raise ToolError(f"offset {first} is past the end: the file has {count_text(first - 1, 'line')}")
        notes = self._notes(first, number - 1, read=number - 1 if fits else number)
        return "\n".join([*shown_lines, *(f"[{note}]" for note in notes)])

    def _notes(self, first: int, last: int, read: int) -> list[str]:
        """What was shown and what comes next; ``read`` lines lie before the file's position."""
        rest, complete = self._count_rest()
        total = read + rest
        if last == 0:
            notes = ["the file is empty: 0 lines"]
        elif total == last and complete:
            shown_range = f"lines {first}-{last}, " if first > 1 else ""
            notes = [f"{shown_range}end of the file: {count_text(total, 'line')}"]
        else:
            of = str(total) if complete else f"more than {total}"
            notes = [f"lines {first}-{last} of {of}; next: offset={last + 1}"]
        if self._replaced:
            notes.append("the file is not all UTF-8: bytes that are not are shown as \ufffd")
        return notes

    def _lines(self, limit: int) -> Iterator[str]:
        for _ in range(limit):
            self._check()
            piece = self._file.readline(4 * MAX_LINE)
            if not piece:
                return
            cut = 0
            more = piece
            while not more.endswith(b"\n") and (more := self._file.readline(_CHUNK)):
                self._check()
                cut += len(more.rstrip(b"\r\n"))
            yield self._text(piece, cut)

    def _check(self) -> None:
        if self._stop():
            raise ToolError("cancelled")

    def _text(self, piece: bytes, cut: int) -> str:
        """One line as text; ``cut`` bytes of it were not kept."""
        piece = piece.removesuffix(b"\n").removesuffix(b"\r")
        text = piece.decode("utf-8", "replace")
        if cut:
            text = text.rstrip("\ufffd")  # a character that was cut in two
        self._replaced = self._replaced or ("\ufffd" in text and "\ufffd".encode() not in piece)
        if len(text) <= MAX_LINE and not cut:
            return text
        left_out = cut + len(piece) - len(text[:MAX_LINE].encode())
        return f"{text[:MAX_LINE]}… (line cut: {count_text(max(left_out, 1), 'byte')} more)"

    def _skip(self, lines: int) -> int:
        """Move past so many lines; the number there were, when the file ends before."""
        left = lines
        unfinished = 0
        while left > 0:
            chunk = self._file.read(_CHUNK)
            self._check()
            if not chunk:
                return lines - left + unfinished
            found = chunk.count(b"\n")
            if found >= left:
                end = _nth_newline(chunk, left)
                self._file.seek(end + 1 - len(chunk), os.SEEK_CUR)
                return lines
            left -= found
            unfinished = int(not chunk.endswith(b"\n"))
        return lines

    def _count_rest(self) -> tuple[int, bool]:
        """Lines from here to the end, and whether all of them were counted."""
        count, read, last = 0, 0, b"\n"
        while chunk := self._file.read(_CHUNK):
            count += chunk.count(b"\n")
            read += len(chunk)
            last = chunk[-1:]
            if read >= _MAX_COUNTED or self._stop():
                return count, False
        return count + int(last != b"\n"), True


def _nth_newline(chunk: bytes, n: int) -> int:
    at = -1
    for _ in range(n):
        at = chunk.index(b"\n", at + 1)
    return at


def _suggestions(root: Root, path: str) -> str:
    """Up to three names in the same directory that the model may have meant."""
    parent, _, name = path.rstrip("/").rpartition("/")
    try:
        with root.open_dir(parent or ("/" if path.startswith("/") else ".")) as fd, os.scandir(fd) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MAX_SIBLINGS), strict=False)]
    except (ToolError, OSError):
        return ""
    wanted, stem = name.casefold(), name.rpartition(".")[0].casefold() or name.casefold()
    near = sorted(n for n in names if wanted in n.casefold() or (stem and stem in n.casefold()))
    near += [n for n in difflib.get_close_matches(name, sorted(names), 3) if n not in near]
    return f"; near it: {shown_list(near[:3])}" if near else ""
