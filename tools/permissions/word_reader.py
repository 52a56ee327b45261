"""One word of a bash command line: quotes, expansions, substitutions; what isn't known is refused.

Read with: ``shell_words.py``, which makes tokens of words and operators.
"""

import re
from abc import ABC, abstractmethod

from .ansi_quotes import decode_ansi
from .shell_plan import Unreadable, Word

MAX_DEPTH = 50  # substitutions and wrappers inside one another

_NAME = re.compile(r"[A-Za-z_]\w*|[0-9?#$!@*-]", re.ASCII)
_BRACED = re.compile(
    r"\{(?:#?[A-Za-z_]\w*|[0-9]+|[@*?#$!-]|[A-Za-z_]\w*(?::?[-+?]|##?|%%?)[\w ./:,@+*-]*)\}", re.ASCII
)
_NUMBERS = re.compile(r"\(\([\d\s+*/%<>=!&|^~?:-]*\)\)", re.ASCII)
_DOCUMENT = re.compile(r"cat <<'(\w+)'\n(.*\n|)\1\n?", re.ASCII | re.DOTALL)


def _quoted_document(code: str) -> str | None:
    """The text of ``cat <<'EOF' …``, which is how a message of several lines is often written."""
    match = _DOCUMENT.fullmatch(code)
    if match is None or match[1] in match[2].split("\n"):
        return None
    return match[2].rstrip("\n")


class Builder:
    """A word in the making."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.literal = True
        self.splits = False
        self.inner: list[str] = []

    def add(self, text: str) -> None:
        if self.literal:
            self.text.append(text)

    def dynamic(self, *, splits: bool) -> None:
        self.literal = False
        self.splits = self.splits or splits

    def word(self, raw: str) -> Word:
        text = "".join(self.text)
        inner = tuple(self.inner)
        return Word(raw, text, inner=inner) if self.literal else Word(raw, None, text, self.splits, inner)


class WordReader(ABC):
    """Reads ``text`` from ``pos`` on."""

    def __init__(self, text: str, pos: int, depth: int) -> None:
        if depth < 0:
            raise Unreadable(f"nested deeper than {MAX_DEPTH} levels")
        self.text = text
        self.pos = self.start = pos
        self.depth = depth

    @abstractmethod
    def end_of(self, start: int) -> int:
        """Where the parenthesis is that closes the code beginning at ``start``."""

    def word(self) -> Word:
        start, into = self.pos, Builder()
        while self.pos < len(self.text):
            char = self.text[self.pos]
            if char in " \t\n;&|()<>" and not (self.pos == start and char in "<>"):
                break
            self._piece(char, start, into)
        return into.word(self.text[start : self.pos])

    def _piece(self, char: str, start: int, into: Builder) -> None:
        if char == "'":
            end = self.text.find("'", self.pos + 1)
            if end < 0:
                raise Unreadable("a quote without an end")
            into.add(self.text[self.pos + 1 : end])
            self.pos = end + 1
        elif char == '"':
            self.pos += 1
            self.quoted(into, closing='"')
        elif char == "\\":
            if self.text[self.pos + 1 : self.pos + 2] in ("", "\n"):
                raise Unreadable("a line is continued inside a word")
            into.add(self.text[self.pos + 1])
            self.pos += 2
        elif char == "$":
            self._dollar(into, in_quotes=False)
        elif char == "`":
            self._backtick(into, in_quotes=False)
        elif char in "<>":
            into.dynamic(splits=False)
            self._substitution(into)
        else:
            self._plain(char, start, into)

    def _plain(self, char: str, start: int, into: Builder) -> None:
        after = self.text[self.pos + 1 : self.pos + 2]
        if char == "{" and after not in ("", "}", " ", "\t", "\n"):
            end = max(self.text.rfind("}", self.pos), self.pos)
            if self.text.find(",", self.pos, end) > 0 or self.text.find("..", self.pos, end) > 0:
                into.dynamic(splits=True)
        elif char in "*?" or (char == "[" and after.strip() and self.text.find("]", self.pos) > 0):
            into.dynamic(splits=False)  # several words, but each begins with the prefix
        elif char == "~" and (self.pos == start or self.text[self.pos - 1] in "=:"):
            if self.pos == start:
                into.add("~")
            into.dynamic(splits=False)
        into.add(char)
        self.pos += 1

    def quoted(self, into: Builder, closing: str) -> None:
        """The inside of double quotes, or of a here-document (no ``closing``)."""
        while self.pos < len(self.text):
            char = self.text[self.pos]
            if closing and char == closing:
                self.pos += 1
                return
            if char == "\\":
                escaped = self.text[self.pos + 1 : self.pos + 2]
                into.add(
                    "" if escaped == "\n" else escaped if escaped and escaped in '$`"\\' else char + escaped
                )
                self.pos += 2
            elif char == "$":
                self._dollar(into, in_quotes=True)
            elif char == "`":
                self._backtick(into, in_quotes=True)
            else:
                into.add(char)
                self.pos += 1
        if closing:
            raise Unreadable("a quote without an end")

    def _dollar(self, into: Builder, *, in_quotes: bool) -> None:
        after = self.text[self.pos + 1 : self.pos + 2]
        if after == "(":
            if numbers := _NUMBERS.match(self.text, self.pos + 1):
                into.dynamic(splits=not in_quotes)
                self.pos = numbers.end()
                return
            self._substitution(into)
            text = _quoted_document(into.inner[-1]) if in_quotes else None
            if text is None:
                into.dynamic(splits=not in_quotes)
            else:
                into.add(text)
        elif after == "{":
            if not (braced := _BRACED.match(self.text, self.pos + 1)):
                raise Unreadable("an expansion that may change or run something")
            into.dynamic(splits=not in_quotes or braced[0] == "{@}")
            self.pos = braced.end()
        elif after == "'" and not in_quotes:
            text, self.pos = decode_ansi(self.text, self.pos + 2)
            into.add(text)
        elif after == "[" or (after == '"' and not in_quotes):
            raise Unreadable("old arithmetic or a translated string")
        elif name := _NAME.match(self.text, self.pos + 1):
            into.dynamic(splits=not in_quotes or name[0] == "@")
            self.pos = name.end()
        else:
            into.add("$")
            self.pos += 1

    def _substitution(self, into: Builder) -> None:
        """``$(…)``, ``<(…)`` or ``>(…)``."""
        start = self.pos + 2
        if self.text.startswith("(", start):
            raise Unreadable("arithmetic")
        end = self.end_of(start)
        into.inner.append(self.text[start:end])
        self.pos = end + 1

    def _backtick(self, into: Builder, *, in_quotes: bool) -> None:
        end = self.text.find("`", self.pos + 1)
        code = self.text[self.pos + 1 : end]
        if end < 0 or "\\" in code or (in_quotes and '"' in code):
            raise Unreadable("backticks with escapes, or without an end")
        into.dynamic(splits=not in_quotes)
        into.inner.append(code)
        self.pos = end + 1
