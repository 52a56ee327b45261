"""Whether text that comes in pieces is one whole JSON object, without reading any of it twice.

An object ends where the brackets outside of its strings are even again, and is parsed once, there. After that
nothing but white space may come.

Read with: ``openai_chat_calls.py`` (the caller).
"""

import re
from typing import Final

import msgspec

_BRACKET: Final = re.compile(r'["{}\[\]]')
_IN_STRING: Final = re.compile(r'["\\]')
_WHITE: Final = " \t\n\r"
_decode: Final = msgspec.json.Decoder().decode


class ObjectScan:
    """How far ``pieces`` have been looked at, a list that only grows."""

    __slots__ = ("_depth", "_escaped", "_in_string", "_is_over", "_is_whole", "_pieces", "_seen")

    def __init__(self, pieces: list[str]) -> None:
        self._pieces = pieces
        self._seen = 0  # how many of them
        self._depth = 0  # of the brackets
        self._in_string = False
        self._escaped = False  # the last character is a backslash in a string
        self._is_over = False  # the brackets were even once
        self._is_whole = False

    def is_whole(self) -> bool:
        """Whether all pieces so far are one object together."""
        while self._seen < len(self._pieces):
            piece = self._pieces[self._seen]
            if not self._is_over and (end := self._end_in(piece)):
                self._is_over = True
                self._is_whole = is_object("".join(self._pieces[: self._seen]) + piece[:end])
                piece = piece[end:]
            if self._is_over and piece.strip(_WHITE):
                self._is_whole = False
            self._seen += 1
        return self._is_whole

    def _end_in(self, piece: str) -> int:
        """After which character of the next piece the brackets are even; 0 for none."""
        at = 0
        if self._escaped and piece:
            self._escaped, at = False, 1
        while found := (_IN_STRING if self._in_string else _BRACKET).search(piece, at):
            at, sign = found.end(), found.group()
            if sign == '"':
                self._in_string = not self._in_string
            elif sign == "\\":
                at += 1
                self._escaped = at > len(piece)
            elif sign in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    return at
        return 0


def is_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    if text.rstrip()[-1:] != "}":
        return False
    try:
        return isinstance(_decode(text), dict)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
