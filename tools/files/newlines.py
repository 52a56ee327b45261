"""Texts as a model sees them, with \\n for every newline, and the way back. Pure functions.

A line ends at \\n or \\r\\n. A lone \\r is an ordinary character, except in a text without any \\n: there
it is the newline. Form feed, U+2028 and the like never end a line.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable

_NEWLINE = re.compile(r"(\r?\n)")
_CR = re.compile(r"(\r)")


def split_lines(text: str) -> list[str]:
    """The lines of ``text``, each with its newline; the last one may have none."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def newline_of(line: str) -> str:
    """The newline that ``line`` ends with, or ``""``."""
    return "\r\n" if line.endswith("\r\n") else "\n" if line.endswith("\n") else ""


def first_newline(text: str) -> str:
    """The newline of the first line; \\n for a text without any."""
    at = text.find("\n")
    if at < 0:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if text[at - 1 : at] == "\r" else "\n"


def pieces(text: str, newline: str) -> tuple[list[str], list[str]]:
    """The lines of ``text`` without newlines, and the newlines between them, one fewer.

    ``newline`` is the first one of the file that ``text`` is a part of.
    """
    parts = (_CR if newline == "\r" else _NEWLINE).split(text)
    return parts[::2], parts[1::2]


class View:
    """``shown`` is ``text`` with \\n for every newline; offsets in it lead back to ``text``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = first_newline(text)
        self.shown = self.plain(text)
        self._dropped: list[int] = []  # offsets in shown of each \n that was \r\n
        if len(self.shown) != len(text):
            self._dropped = [m.start() - n for n, m in enumerate(re.finditer("\r\n", text))]

    def plain(self, text: str) -> str:
        """``text``, of this file or meant for it, with \\n for every newline."""
        text = text.replace("\r\n", "\n")
        return text.replace("\r", "\n") if self.newline == "\r" else text

    def source(self, at: int) -> int:
        """The offset in ``text`` of an offset in ``shown``."""
        return at + bisect_left(self._dropped, at)

    def lines(self, offsets: Iterable[int]) -> list[int]:
        """The numbers, from 1, of the lines that offsets in ``text`` are on; the offsets are in order."""
        numbers: list[int] = []
        line, at = 1, 0
        for offset in offsets:
            line, at = line + self.text.count("\n", at, offset), offset
            numbers.append(line)
        return numbers
