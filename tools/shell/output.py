"""What a command says: bounded in memory, with its head and its tail, and whole on disk where it is long.

1. Bytes are kept as they come and decoded when somebody looks: a character is never cut by a read.
2. What is shown is text (see ``plain_text``): at most 2,000 lines and 50 KB, a fifth of it the head, the rest the tail.
3. A longer output is in a file as well, up to a limit that the file tells.

Read with: ``process.py`` (adds), ``spill.py`` (the files), ``bash.py`` (shows).
"""

import re
import threading
from pathlib import Path
from typing import BinaryIO, NamedTuple

from unspool.kernel.errors import ToolError
from unspool.tools.text import MAX_OUTPUT, count_text, size_text

from .spill import OutputFiles

MAX_LINES = 2000
_HEAD, _TAIL = (
    64 << 10,
    256 << 10,
)  # bytes in memory: more than is shown, because escapes and progress bars go
_HEAD_LINES, _HEAD_BYTES = MAX_LINES // 5, MAX_OUTPUT // 5
_TAIL_LINES, _TAIL_BYTES = MAX_LINES - _HEAD_LINES, MAX_OUTPUT - _HEAD_BYTES
_PEEK = 4096  # bytes looked at for the newest line
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI: colours, the cursor
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?"  # strings for devices
    r"|\x1b[ -/]*[0-~]?"
)
_OVERSTRUCK = re.compile(r"[^\n\x08]\x08")
_PICTURES = {number: 0x2400 + number for number in range(32) if chr(number) not in "\t\n"} | {0x7F: 0x2421}


def plain_text(data: bytes) -> str:
    """Output as one who looks at the finished terminal reads it, nearly.

    Bytes that are not UTF-8 become U+FFFD. Escape sequences go. Of a line that was written over (``\\r``) the last
    state stays, of overstruck characters the last. NUL and other control characters are shown as their pictures (``␀``).
    """
    text = data.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if "\x08" in text:
        text = _OVERSTRUCK.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return text.translate(_PICTURES)


class Shown(NamedTuple):
    """An output as a model reads it. ``note`` says what was left out and where all of it is; empty where all is shown."""

    text: str
    note: str = ""


class Piece(NamedTuple):
    """The output from one offset to the next; ``skipped`` bytes before it are no longer in memory."""

    text: str
    next: int
    skipped: int = 0


class OutputBuffer:
    """The output of one command; all of it may be called from any thread. ``files``: None keeps nothing on disk."""

    def __init__(self, files: OutputFiles | None = None) -> None:
        self.size = 0  # bytes
        self.finished = False
        self.file: Path | None = None  # with all of it, as it came
        self.file_error = ""
        self._files = files
        self._newlines = 0
        self._last = b"\n"
        self._head = bytearray()
        self._tail = bytearray()
        self._open: BinaryIO | None = None
        self._lock = threading.Lock()

    @property
    def lines(self) -> int:
        """How many there are, an unfinished one included."""
        return self._newlines + int(self._last != b"\n")

    def add(self, data: bytes) -> None:
        """Take more of the output."""
        with self._lock:
            self._newlines += data.count(b"\n")
            self._last = data[-1:] or self._last
            self.size += len(data)
            if self._open is None and self.size > _HEAD:
                self._begin_file()
            self._write(data)
            room = _HEAD - len(self._head)
            self._head += data[:room] if room > 0 else b""
            rest = data[max(room, 0) :]
            if len(rest) >= _TAIL:
                self._tail = bytearray(rest[-_TAIL:])
                return
            self._tail += rest
            if len(self._tail) > 2 * _TAIL:
                del self._tail[:-_TAIL]

    def finish(self) -> None:
        """No more comes."""
        with self._lock:
            self.finished = True
            if self._open is None and self._render()[1]:
                self._begin_file()
            if self._open is not None:
                limit = self._open.tell()
                if self.size > limit and not self.file_error:
                    self._try(f"\n[cut: {limit} of {self.size} bytes]\n".encode())
                try:
                    self._open.close()
                except OSError as error:  # some file systems say only now that the disk is full
                    reason = error.strerror or str(error)
                    self.file_error = f"{self.file_error}; {reason}" if self.file_error else reason
                self._open = None

    def shown(self) -> Shown:
        """What fits, and what to know about the rest."""
        with self._lock:
            text, left_out = self._render()
        if not left_out:
            return Shown(text)
        note = f"{left_out} left out of {count_text(self.lines, 'line')}, {size_text(self.size)}"
        if self.file_error:
            note += f"; the whole output could not be kept: {self.file_error}"
        elif self.file is not None:
            kept = f", its first {size_text(self._limit)}" if self.size > self._limit else ""
            note += f"; the output is in {self.file}{kept}: look at parts of it with sed -n or grep"
        return Shown(text, note)

    def since(self, offset: int) -> Piece:
        """What came after the first ``offset`` bytes, as far as it is in memory; an unfinished character waits."""
        with self._lock:
            begin = self.size - len(self._tail)
            if offset < len(self._head):
                data, skipped = bytes(self._head[offset:]), 0
                if begin == len(self._head):
                    data += self._tail
            else:
                skipped = max(begin - offset, 0)
                data = bytes(self._tail[max(offset - begin, 0) :])
            end = len(data) if self.finished else _whole(data)
        return Piece(plain_text(data[:end]), offset + skipped + end, skipped)

    def newest_line(self, max_chars: int = 200) -> str:
        """The last line that is not blank, as far as it was written; the end of one that is long."""
        with self._lock:
            data = bytes(self._tail[-_PEEK:] or self._head[-_PEEK:])
        lines = plain_text(data[_begin(data) : _whole(data)]).rstrip().rpartition("\n")
        return lines[2][-max_chars:]

    @property
    def _limit(self) -> int:
        return self._files.max_file if self._files is not None else 0

    def _render(self) -> tuple[str, str]:
        """The text, and what of it was left out; nothing where it is empty."""
        head, tail = bytes(self._head), bytes(self._tail)
        if len(head) + len(tail) == self.size:
            text = plain_text(head + tail)
            if len(text.encode()) <= MAX_OUTPUT and text.count("\n") <= MAX_LINES - int(self._last != b"\n"):
                return text, ""
            first = _first_part(text)
            last, whole = _last_part(text[len(first) :], first.endswith("\n"))
        else:
            first = _first_part(plain_text(head[: _whole(head)]))
            last, whole = _last_part(plain_text(tail[_begin(tail) :]), False)
        begin, shown = first.count("\n") + 1, first.count("\n") + last.count("\n") + int(self._last != b"\n")
        left_out = size_text(max(self.size - len(first.encode()) - len(last.encode()), 1))
        if whole and first.endswith("\n"):
            left_out = f"lines {begin}-{begin + self.lines - shown - 1}"
        end, start = "" if first.endswith("\n") else "…\n", "" if whole else "…"
        return f"{first}{end}[… {left_out} left out …]\n{start}{last}", left_out

    def _begin_file(self) -> None:
        """Start the file with all that came before, which is still in memory."""
        if self._files is None or self.file is not None:
            return
        try:
            self.file, self._open = self._files.create()
        except (OSError, ToolError) as error:
            self.file_error = getattr(error, "strerror", None) or str(error)
            return
        self._write(bytes(self._head + self._tail))

    def _write(self, data: bytes) -> None:
        if self._open is not None and not self.file_error:
            self._try(data[: max(self._limit - self._open.tell(), 0)])

    def _try(self, data: bytes) -> None:
        assert self._open is not None
        try:
            while data:
                data = data[self._open.write(data) :]
        except OSError as error:
            self.file_error = error.strerror or str(error)


def _first_part(text: str) -> str:
    """The head: whole lines, or as much of a long first one as fits."""
    part = text.encode()[:_HEAD_BYTES].decode("utf-8", "ignore")
    lines = part.split("\n", _HEAD_LINES)
    if len(lines) == 1:
        return part
    return "".join(f"{line}\n" for line in lines[:-1])


def _last_part(text: str, whole: bool) -> tuple[str, bool]:
    """The tail: whole lines, or as much of a long last one as fits; and whether it begins with a whole one.

    ``whole``: whether ``text`` does.
    """
    part = text.encode()[-_TAIL_BYTES:].decode("utf-8", "ignore")
    whole = whole and len(part) == len(text)
    end = "\n" if part.endswith("\n") else ""
    lines = part.removesuffix("\n").rsplit("\n", _TAIL_LINES)
    if len(lines) > _TAIL_LINES or (not whole and len(lines) > 1):
        lines, whole = lines[1:], True
    return "\n".join(lines) + end, whole


def _begin(data: bytes) -> int:
    """Where the first whole character of a cut text begins."""
    return next((at for at in range(min(4, len(data))) if data[at] & 0xC0 != 0x80), 0)


def _whole(data: bytes) -> int:
    """The length without a character at the end that is not complete."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return len(data) - back if needed > back else len(data)
    return len(data)
