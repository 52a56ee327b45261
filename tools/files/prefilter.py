"""What a file must hold, as bytes, for a regular expression to match a line of it.

``loosened`` rewrites a pattern so that it matches at least wherever the pattern does, and so that another
engine can run it over raw bytes: whatever is beyond ASCII, or is not UTF-8 at all, passes for a character of any
kind. Engines differ in just those things, so a file that the looser pattern misses needs no second look, and
one that it finds is searched with the pattern itself. The result of a search is therefore the same
whether this was used or not.

The subset that can be rewritten: plain characters, ``.``, ``[...]``, ``\\d \\w \\s \\b`` and their opposites,
``\\t`` and escaped punctuation, ``^ $ \\A \\Z``, ``|``, groups that capture or don't, named or atomic ones, and the
repeats ``* + ? {n} {n,} {n,m} {,m}``, greedy, lazy or possessive. Lookaround is passed over: what is left
matches more. Anything else (back references, flags inside the pattern, conditions, ``\\p{...}``, names and numbers of
characters) is left to ``regex`` alone.

Read with: ``search_pattern.py`` (the pattern itself), ``ripgrep.py`` (the other engine).
"""

import re
from collections.abc import Callable
from typing import NamedTuple

_REPEAT = re.compile(r"(?:\*|\+|\?|\{(?P<low>\d*),?\d*\})(?P<mode>[?+]?)")
_LOOK = re.compile(r"\(\?<?[=!]")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\\[])*\]", re.DOTALL)
_GROUP = re.compile(r"\((?:\?:|\?>|\?P<\w+>|(?![?*]))")
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_CONTROLS = {"t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_OTHER = r"[\x80-\xff]{1,4}"  # a character beyond ASCII, or bytes that decode to U+FFFD
_FOLDED = {"i": "\u0130", "k": "\u212a", "s": "\u017f"}  # what else an ASCII letter is, whatever the case

Matcher = Callable[[str, str], bool]


class Loosened(NamedTuple):
    """``expression`` is in ripgrep's syntax; ``needle`` are bytes in every match, or none.

    Where case is ignored, ``needle`` is in lower case and holds ASCII only.
    """

    expression: str
    needle: bytes


class _UnsupportedError(Exception):
    """The pattern is not in the subset."""


def loosened(pattern: str, *, ignore_case: bool, matches: Matcher) -> Loosened | None:
    """``pattern``, which compiles, made looser; None when it is not in the subset.

    ``matches(piece, char)`` says whether a piece of the pattern matches a character, by the engine and the
    flags that the pattern itself is used with.
    """
    rewriting = _Rewriting(pattern, ignore_case, matches)
    try:
        rewriting.run()
    except _UnsupportedError:
        return None
    return Loosened("".join(rewriting.pieces), rewriting.needle())


def loosened_text(text: str, *, ignore_case: bool) -> Loosened | None:
    """The same for plain text; None for text with a line break in it, or U+FFFD."""
    rewriting = _Rewriting(text, ignore_case, lambda piece, char: False)
    try:
        for char in text:
            rewriting.literal(char)
    except _UnsupportedError:
        return None
    return Loosened("".join(rewriting.pieces), rewriting.needle())


class _Rewriting:
    """One pass over a pattern, from left to right."""

    def __init__(self, pattern: str, ignore_case: bool, matches: Matcher) -> None:
        self.pieces: list[str] = []
        self._pattern = pattern
        self._ignore_case = ignore_case
        self._matches = matches
        self._at = 0
        self._depth = 0
        self._runs: list[str] = [""]  # plain characters that follow each other outside of all groups
        self._has_choice = False  # ``|`` outside of all groups
        self._is_after_word = False  # just behind an ASCII character of a word that must be there

    def run(self) -> None:
        while self._at < len(self._pattern):
            self._step()

    def needle(self) -> bytes:
        longest = "" if self._has_choice else max(self._runs, key=len)
        return (longest.lower() if self._ignore_case else longest).encode()

    def _step(self) -> None:
        char = self._pattern[self._at]
        if char == "\\":
            self._escape()
        elif char in "^$":
            self._anchor(is_start=char == "^", length=1)
        elif char == ".":
            self._atom(".", 1)
        elif char == "[":
            self._atom(self._take(_CLASS), 0)
        elif _LOOK.match(self._pattern, self._at):
            self._pass_over()
            self._refuse_repeat()
        elif char == "(":
            self._take(_GROUP)
            self._end_run()
            self._depth += 1
            self._emit("(?:", 0)
            self._refuse_repeat()
        elif char == ")":
            self._depth -= 1
            self._emit(")", 1)
            self._repeat()
        elif char == "|":
            self._end_run()
            self._has_choice = self._has_choice or not self._depth
            self._emit("|", 1)
            self._refuse_repeat()
        elif _REPEAT.match(self._pattern, self._at):
            raise _UnsupportedError
        else:
            self._at += 1
            self.literal(char)
            self._repeat(char)

    def literal(self, char: str) -> None:
        if char in "\n\ufffd" or "\ud800" <= char <= "\udfff":
            raise _UnsupportedError
        folds = self._ignore_case and char.lower() in _FOLDED
        if self._ignore_case and not char.isascii():
            self.pieces.append(r"(?-u:[A-Za-z\x80-\xff]{1,4})")
            self._end_run()
        elif folds:
            letter = char.lower()
            self.pieces.append(f"[{letter}{letter.upper()}{_FOLDED[letter]}]")
            self._end_run()
        else:
            both = self._ignore_case and char.isalpha()
            self.pieces.append(f"[{char.lower()}{char.upper()}]" if both else _quoted(char))
            if not self._depth:
                self._runs[-1] += char
        self._is_after_word = char in _WORD and not folds

    def _escape(self) -> None:
        char = self._pattern[self._at + 1]
        if char in "dDwWsS":
            self._atom(f"\\{char}", 2)
        elif char in "bB":
            is_before = self._is_before_word(self._at + 2)
            self._emit(r"(?-u:\b)" if char == "b" and (self._is_after_word or is_before) else "", 2)
            self._refuse_repeat()
        elif char in "AZ":
            self._anchor(is_start=char == "A", length=2)
        elif char in _CONTROLS or (char.isascii() and not char.isalnum()):
            self._at += 2
            self.literal(_CONTROLS.get(char, char))
            self._repeat(char)
        else:
            raise _UnsupportedError

    def _anchor(self, *, is_start: bool, length: int) -> None:
        self._end_run()
        self._emit(r"^(?:\x{FEFF})?" if is_start else r"(?:\r?$)", length)
        self._refuse_repeat()

    def _pass_over(self) -> None:
        """Go behind the group that begins here."""
        depth = 0
        while True:
            char = self._pattern[self._at]
            if char == "[":
                self._take(_CLASS)
                continue
            depth += (char == "(") - (char == ")")
            self._at += 2 if char == "\\" else 1
            if not depth:
                break
        self._is_after_word = False

    def _is_before_word(self, at: int) -> bool:
        """Whether an ASCII character of a word must follow: the border is then no other than in ASCII."""
        char = self._pattern[at : at + 1]
        if char not in _WORD or not char or (self._ignore_case and char.lower() in _FOLDED):
            return False
        return self._pattern[at + 1 : at + 2] not in ("*", "?", "{")

    def _atom(self, piece: str, length: int) -> None:
        """A piece that stands for one of several characters."""
        self._end_run()
        own = [code for code in range(128) if code != 10 and self._matches(piece, chr(code))]
        chars = "".join(f"\\x{code:02x}" for code in own)
        self._emit(f"(?-u:[{chars}]|{_OTHER})" if own else f"(?-u:{_OTHER})", length)
        self._repeat()

    def _repeat(self, char: str = "") -> None:
        """The repeat behind a piece, if there is one; ``char`` is that piece when it is a plain character."""
        found = _REPEAT.match(self._pattern, self._at)
        if found is None or found.group() in ("{}", "{,}"):
            if not char:
                self._end_run()
            return
        if _REPEAT.match(self._pattern, found.end()):
            raise _UnsupportedError
        text = found.group().removesuffix("+") if found["mode"] == "+" else found.group()
        if text.startswith("{,"):
            text = "{0" + text[1:]
        may_be_none = text[0] in "*?" or (found["low"] is not None and int(found["low"] or 0) == 0)
        if char and not self._depth and may_be_none:
            self._runs[-1] = self._runs[-1][:-1]
        self._end_run()
        self._emit(text, len(found.group()))

    def _take(self, shape: re.Pattern[str]) -> str:
        found = shape.match(self._pattern, self._at)
        if found is None:
            raise _UnsupportedError
        self._at = found.end()
        return found.group()

    def _refuse_repeat(self) -> None:
        if _REPEAT.match(self._pattern, self._at):
            raise _UnsupportedError

    def _emit(self, piece: str, length: int) -> None:
        self.pieces.append(piece)
        self._at += length
        self._is_after_word = False

    def _end_run(self) -> None:
        if self._runs[-1]:
            self._runs.append("")
        self._is_after_word = False


def _quoted(char: str) -> str:
    return char if char in _WORD or not char.isascii() else f"\\x{ord(char):02x}"
