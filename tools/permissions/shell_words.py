"""A strict scanner for bash: words, operators, here-documents; what it doesn't know, it refuses.

It is one of two readings (the other is the grammar, ``shell_syntax``) that must agree. History and
alias expansion are off in a shell that runs a command line, so ``!`` and alias names are plain text.
"""

import re
from typing import Literal, NamedTuple

from .ansi_quotes import decode_ansi
from .shell_characters import check_characters
from .shell_plan import Unreadable, Word

MAX_DEPTH = 50  # substitutions and wrappers inside one another
_MAX_TOKENS = 10_000

_OPERATORS = re.compile(r";;&|;;|;&|;|&&|&>>|&>|&|\|\||\|&|\||<<<|<<-|<<|<&|<>|<|>>|>\||>&|>|\(|\)")
_DELIMITER = re.compile(r"(\w+)|'(\w+)'|\"(\w+)\"", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9?#$!@*-]", re.ASCII)
_BRACED = re.compile(
    r"\{(?:#?[A-Za-z_]\w*|[0-9]+|[@*?#$!-]|[A-Za-z_]\w*(?::?[-+?]|##?|%%?)[\w ./:,@+*-]*)\}", re.ASCII
)
_NUMBERS = re.compile(r"\(\([\d\s+*/%<>=!&|^~?:-]*\)\)", re.ASCII)
_DOCUMENT = re.compile(r"cat <<'(\w+)'\n(.*\n|)\1\n?", re.ASCII | re.DOTALL)
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
    """``bodies``: code inside here-documents; ``ends``: where the line that ends each one is."""

    tokens: list[Token]
    bodies: list[str]
    ends: list[tuple[int, int]]


def scan(text: str) -> Scan:
    """The tokens of a whole command line.

    Raises:
        Unreadable: anything outside the part of bash that this scanner knows.
    """
    check_characters(text)
    scanner = _Scanner(text, 0, MAX_DEPTH)
    scanner.run(closing="")
    return Scan(scanner.tokens, scanner.bodies, scanner.ends)


def _quoted_document(code: str) -> str | None:
    """The text of ``cat <<'EOF' …``, which is how a message of several lines is often written."""
    match = _DOCUMENT.fullmatch(code)
    if match is None or match[1] in match[2].split("\n"):
        return None
    return match[2].rstrip("\n")


class _Builder:
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


class _Scanner:
    def __init__(self, text: str, pos: int, depth: int) -> None:
        if depth < 0:
            raise Unreadable(f"nested deeper than {MAX_DEPTH} levels")
        self.text = text
        self.pos = self.start = pos
        self.depth = depth
        self.line = 0  # its first token
        self.tokens: list[Token] = []
        self.bodies: list[str] = []
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
        word = self._word()
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
        if match[1]:  # the delimiter is not quoted: the body is expanded
            self._expanded_body(end.start())
        self.pos = end.end()
        self.ends.append(end.span(1))

    def _expanded_body(self, end: int) -> None:
        body = _Scanner(self.text[:end], self.pos, self.depth)
        if "\\\n" in body.text[body.pos :]:
            raise Unreadable("a line is continued inside a here-document")
        into = _Builder()
        body.quoted(into, closing="")
        self.bodies += into.inner

    def _word(self) -> Word:
        start, into = self.pos, _Builder()
        while self.pos < len(self.text):
            char = self.text[self.pos]
            if char in " \t\n;&|()<>" and not (self.pos == start and char in "<>"):
                break
            self._piece(char, start, into)
        return into.word(self.text[start : self.pos])

    def _piece(self, char: str, start: int, into: _Builder) -> None:
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

    def _plain(self, char: str, start: int, into: _Builder) -> None:
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

    def quoted(self, into: _Builder, closing: str) -> None:
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

    def _dollar(self, into: _Builder, *, in_quotes: bool) -> None:
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

    def _substitution(self, into: _Builder) -> None:
        """``$(…)``, ``<(…)`` or ``>(…)``."""
        start = self.pos + 2
        if self.text.startswith("(", start):
            raise Unreadable("arithmetic")
        inside = _Scanner(self.text, start, self.depth - 1)
        inside.run(closing=")")
        into.inner.append(self.text[start : inside.pos])
        self.pos = inside.pos + 1

    def _backtick(self, into: _Builder, *, in_quotes: bool) -> None:
        end = self.text.find("`", self.pos + 1)
        code = self.text[self.pos + 1 : end]
        if end < 0 or "\\" in code or (in_quotes and '"' in code):
            raise Unreadable("backticks with escapes, or without an end")
        into.dynamic(splits=not in_quotes)
        into.inner.append(code)
        self.pos = end + 1
