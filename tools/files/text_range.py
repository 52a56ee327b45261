"""A range of lines of a text, numbered, in bounded memory and output."""

import codecs
import os
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from unspool.kernel.errors import ToolError
from unspool.tools.text import MAX_OUTPUT, count_text

MAX_LINES = 2000
MAX_LINE = 2000  # characters shown of one line
MAX_LONG = 10_000  # the same where a line is read on from some column
_CHUNK = 1 << 20
_MAX_COUNTED = 64 << 20  # bytes read after the range, only to tell how many lines there are


class _Line(NamedTuple):
    """A line as it is shown; ``left_out`` are the bytes behind that, ``reaches`` whether it has the first column."""

    text: str
    left_out: int
    reaches: bool


class Shown(NamedTuple):
    """What was rendered of a text.

    Lines count from 1; ``last`` is ``first - 1`` when none was shown. ``total`` is None where it was not worth counting.
    ``truncated`` says what stopped it short of what was asked for: lines, bytes or columns.
    """

    text: str
    first: int
    last: int
    total: int | None
    truncated: str

    @property
    def is_whole(self) -> bool:
        return self.first == 1 and self.last == self.total and not self.truncated

    @property
    def details(self) -> dict[str, Any]:
        if not self.truncated:
            return {}
        shown = {
            "by": self.truncated,
            "shown_lines": self.last - self.first + 1,
            "total_lines": self.total,
        }
        return {"truncated": shown}


class TextRange:
    """Some lines of an open file of UTF-8, from the position it is at; what is not UTF-8 becomes U+FFFD."""

    def __init__(self, file: BinaryIO, stop: Callable[[], bool]) -> None:
        self._file = file
        self._stop = stop
        self._replaced = False

    def render(self, first: int, limit: int, column: int = 1) -> Shown:
        """Lines from ``first`` on, at most ``limit``, each from the character ``column`` on.

        Raises:
            ToolError: there is no such line or column, or the call was cancelled.
        """
        limit = min(limit, MAX_LINES) if limit > 0 else MAX_LINES
        before = self._skip(first - 1)
        if before < first - 1:
            raise ToolError(f"offset {first} is past the end: the file has {count_text(before, 'line')}")
        shown_lines: list[str] = []
        cut: list[int] = []
        size, fits, reaches = 0, True, False
        for line in self._lines(limit, column):
            number = first + len(shown_lines)
            mark = f"… (line cut: {count_text(line.left_out, 'byte')} more)" if line.left_out else ""
            text = f"{number}\t{line.text}{mark}"
            size += len(text.encode()) + 1
            fits = size <= MAX_OUTPUT or not shown_lines
            if not fits:
                break
            shown_lines.append(text)
            reaches = reaches or line.reaches
            if line.left_out:
                cut.append(number)
        last = first + len(shown_lines) - 1
        if not shown_lines and first > 1:
            raise ToolError(f"offset {first} is past the end: the file has {count_text(first - 1, 'line')}")
        if shown_lines and not reaches:
            raise ToolError(f"column {column} is past the end of {_lines_text(first, last)}")
        rest, counted = self._count_rest()
        total = last + (not fits) + rest
        notes = self._notes(first, last, total, counted)
        if cut:
            length = MAX_LONG if column > 1 else MAX_LINE
            notes.append(f"line {cut[0]} goes on: offset={cut[0]} limit=1 column={column + length}")
        if self._replaced:
            notes.append("the file is not all UTF-8 text: bytes that are not are shown as \ufffd")
        by_lines = limit == MAX_LINES == len(shown_lines) and (last < total or not counted)
        return Shown(
            "\n".join([*shown_lines, *(f"[{note}]" for note in notes)]),
            first,
            last,
            total if counted else None,
            "bytes" if not fits else "lines" if by_lines else "columns" if cut or column > 1 else "",
        )

    def _notes(self, first: int, last: int, total: int, counted: bool) -> list[str]:
        """What was shown and what comes next."""
        if last == 0:
            return ["the file is empty: 0 lines"]
        if total == last and counted:
            shown_range = f"lines {first}-{last}, " if first > 1 else ""
            return [f"{shown_range}end of the file: {count_text(total, 'line')}"]
        of = str(total) if counted else f"more than {total}"
        return [f"lines {first}-{last} of {of}; next: offset={last + 1}"]

    def _lines(self, limit: int, column: int) -> Iterator[_Line]:
        length = MAX_LONG if column > 1 else MAX_LINE
        for _ in range(limit):
            self._check()
            piece = self._file.readline(_CHUNK)
            if not piece:
                return
            if column == 1 and len(piece) <= length:
                yield _Line(self._short(piece), 0, True)
            else:
                yield self._line(piece, column - 1, length)

    def _short(self, piece: bytes) -> str:
        """A line that is shown as it is."""
        piece = piece.removesuffix(b"\n").removesuffix(b"\r")
        text = piece.decode("utf-8", "replace")
        if not text.isascii() or "\0" in text:
            text = text.replace("\0", "\ufffd")
            self._replaced = self._replaced or ("\ufffd" in text and "\ufffd".encode() not in piece)
        return text

    def _line(self, piece: bytes, skip: int, length: int) -> _Line:
        """The line that begins with ``piece``: ``length`` characters behind the first ``skip`` ones."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        skipped, before, size, kept = 0, 0, 0, ""  # characters and bytes skipped, bytes of the line
        is_long = False
        while piece:
            is_last = piece.endswith(b"\n") or len(piece) < _CHUNK
            piece = piece.removesuffix(b"\n").removesuffix(b"\r") if is_last else piece
            size += len(piece)
            if not is_long:
                text = decoder.decode(piece, is_last)
                over = text[: max(skip - skipped, 0)]
                skipped += len(over)
                before += len(over.encode())
                kept += text[len(over) :]
                is_long = len(kept) > length
                if "\ufffd" in text and not self._replaced:
                    self._replaced = "\ufffd".encode() not in piece
            if is_last:
                break
            self._check()
            piece = self._file.readline(_CHUNK)
        shown = kept[:length]
        if "\0" in shown:
            shown, self._replaced = shown.replace("\0", "\ufffd"), True
        left_out = max(size - before - len(shown.encode()), 1) if is_long else 0
        return _Line(shown, left_out, skipped >= skip and (bool(kept) or not skip))

    def _check(self) -> None:
        if self._stop():
            raise ToolError("cancelled")

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


def _lines_text(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _nth_newline(chunk: bytes, n: int) -> int:
    at = -1
    for _ in range(n):
        at = chunk.index(b"\n", at + 1)
    return at
