"""A strict scanner for bash: words, operators, here-documents; what it doesn't know, it refuses.

It is one of two readings (the other is the grammar, ``shell_syntax``) that must agree. History and
alias expansion are off in a shell that runs a command line, so ``!`` and alias names are plain text.
"""

import re
from typing import Literal, NamedTuple

from .shell_characters import check_characters
from .shell_plan import Unreadable, Word
from .word_reader import MAX_DEPTH, Builder, WordReader

_MAX_TOKENS = 10_000

_OPERATORS = re.compile(r";;&|;;|;&|;|&&|&>>|&>|&|\|\||\|&|\||<<<|<<-|<<|<&|<>|<|>>|>\||>&|>|\(|\)")
_DELIMITER = re.compile(r"(\w+)|'(\w+)'|\"(\w+)\"", re.ASCII)
_BLANK = " \t"


class Token(NamedTuple):
    """``text`` is the operator of an ``op`` or ``redirect``; ``fd`` the number written before one."""

    kind: Literal["word", "op", "newline", "redirect"]
    start: int
    end: int
    text: str = ""
    word: Word = Word("", "")
    fd: str = ""


class Scan(NamedTuple):
    """``ends``: where the line that ends each here-document is. The word behind ``<<`` is the document."""

    tokens: list[Token]
    ends: list[tuple[int, int]]


def scan(text: str) -> Scan:
    """The tokens of a whole command line.

    Raises:
        Unreadable: anything outside the part of bash that this scanner knows.
    """
    check_characters(text)
    scanner = _Scanner(text, 0, MAX_DEPTH)
    scanner.run(closing="")
    return Scan(scanner.tokens, scanner.ends)


class _Scanner(WordReader):
    def __init__(self, text: str, pos: int, depth: int) -> None:
        super().__init__(text, pos, depth)
        self.line = 0  # its first token
        self.tokens: list[Token] = []
        self.ends: list[tuple[int, int]] = []

    def run(self, closing: str) -> None:
        """Reads to the end, or to the ``closing`` parenthesis without a partner."""
        open_parens = 0
        while self.pos < len(self.text) and len(self.tokens) <= _MAX_TOKENS:
            char = self.text[self.pos]
            if char in _BLANK:
                self.pos += 1
            elif char == "\n":
                self._newline()
            elif char == "#":
                end = self.text.find("\n", self.pos)
                self.pos = len(self.text) if end < 0 else end
            elif self.text.startswith("\\\n", self.pos):
                self._continuation()
            elif char == ")" and closing and not open_parens:
                break
            elif char in ";&|()<>" and self.text[self.pos : self.pos + 2] not in ("<(", ">("):
                open_parens += (char == "(") - (char == ")")
                self._operator()
            else:
                self._word_token()
        if len(self.tokens) > _MAX_TOKENS:
            raise Unreadable("too many words")
        if closing and self.pos >= len(self.text):
            raise Unreadable("a substitution without an end")
        if self._pending() is not None:
            raise Unreadable("a here-document without a body")
        if open_parens:
            raise Unreadable("parentheses don't match")

    def _continuation(self) -> None:
        if self.pos > self.start and self.text[self.pos - 1] not in " \t\n":
            raise Unreadable("a line is continued inside a word or an operator")
        self.pos += 2

    def _operator(self) -> None:
        match = _OPERATORS.match(self.text, self.pos)
        assert match is not None, "every metacharacter is an operator"
        op, start = match[0], self.pos
        self.pos = match.end()
        if op == "(" and (self.text.startswith("(", self.pos) or self._touches(start)):
            raise Unreadable("arithmetic, a function, an array or an extended pattern")
        is_redirect = op[0] in "<>" or op in ("&>", "&>>")
        self.tokens.append(Token("redirect" if is_redirect else "op", start, self.pos, op))

    def _touches(self, start: int) -> bool:
        return bool(self.tokens) and self.tokens[-1].kind == "word" and self.tokens[-1].end == start

    def _word_token(self) -> None:
        start = self.pos
        word = self.word()
        following = self.text[self.pos : self.pos + 1]
        if following and following in "<>":
            if self.text[self.pos : self.pos + 2] in ("<(", ">("):
                raise Unreadable("a process substitution inside a word")
            if word.raw.isdecimal():
                at = len(self.tokens)
                self._operator()
                self.tokens[at] = self.tokens[at]._replace(start=start, fd=word.raw)
                return
            if word.raw.startswith("{"):
                raise Unreadable("a redirection into a variable")
        self.tokens.append(Token("word", start, self.pos, word=word))

    def _newline(self) -> None:
        pending = self._pending()
        self.tokens.append(Token("newline", self.pos, self.pos + 1))
        self.line = len(self.tokens)
        self.pos += 1
        if pending is not None:
            self._here_document(*pending)

    def _pending(self) -> tuple[Token, Token] | None:
        """The ``<<`` of the line that just ended, with its delimiter."""
        line = self.tokens[self.line :]
        marks = [i for i, token in enumerate(line) if token.text in ("<<", "<<-")]
        if not marks:
            return None
        if len(marks) > 1 or marks[0] + 1 == len(line) or line[marks[0] + 1].kind != "word":
            raise Unreadable("several here-documents on one line, or one without a delimiter")
        return line[marks[0]], line[marks[0] + 1]

    def _here_document(self, mark: Token, delimiter: Token) -> None:
        match = _DELIMITER.fullmatch(delimiter.word.raw)
        if match is None:
            raise Unreadable("an unusual here-document delimiter")
        tabs = r"\t*" if mark.text == "<<-" else ""
        end = re.compile(rf"^{tabs}({match[match.lastindex or 0]})$", re.MULTILINE).search(
            self.text, self.pos
        )
        if end is None:
            raise Unreadable("a here-document without an end")
        body = self.text[self.pos : end.start()]
        word = Word(body, body) if not match[1] else self._expanded_body(end.start())  # it is, if not quoted
        self.tokens[self.tokens.index(delimiter)] = delimiter._replace(word=word)
        self.pos = end.end()
        self.ends.append(end.span(1))

    def _expanded_body(self, end: int) -> Word:
        body = _Scanner(self.text[:end], self.pos, self.depth)
        if "\\\n" in body.text[body.pos :]:
            raise Unreadable("a line is continued inside a here-document")
        into = Builder()
        body.quoted(into, closing="")
        return into.word(self.text[self.pos : end])

    def end_of(self, start: int) -> int:
        inside = _Scanner(self.text, start, self.depth - 1)
        inside.run(closing=")")
        return inside.pos
