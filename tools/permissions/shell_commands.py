"""``analyse``: what a bash command line would do, as far as it can be known for sure.

Every substitution, every wrapper and every ``sh -c`` is read by the same two readers as the line
itself, so what is allowed is a list of simple commands that both of them saw. The shell is taken to
be fresh: no aliases, no functions, no options set before. Read with: ``shell_syntax`` (the readers),
``wrappers``, ``shell_builtins`` and ``code_options`` (what commands run besides themselves),
``shell_effects`` (paths and hosts), ``shell_rules`` (rules over the result).
"""

import re
from collections.abc import Sequence

import msgspec

from . import shell_syntax
from .code_options import check_options, interpreted_code
from .inner import Inner, Wrapped
from .shell_builtins import check_builtin, is_declaration
from .shell_characters import MAX_BYTES
from .shell_effects import with_effects
from .shell_plan import Assignment, Redirect, ShellPlan, SimpleCommand, Unreadable, Word
from .shell_words import Token
from .word_reader import MAX_DEPTH
from .wrappers import wrapped

_MAX_READ = 4 * MAX_BYTES  # characters, those of inner code once more for each level
_MAX_COMMANDS = 1000
_ASSIGNS = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)


def analyse(command: str) -> ShellPlan:
    """What a command line would do; where that can't be known, ``unknown`` says why.

    Never raises for what the text holds; takes a few seconds at most, for the worst text of 64 KB.

    Raises:
        ToolDefinitionError: the extra ``permissions`` is not installed.
    """
    reader = _Reader()
    reader.read(command, _Context())
    plan = ShellPlan(command, tuple(reader.commands), frozenset(reader.operators), reader.unknown)
    return with_effects(plan)


class _Context:
    """Where code is met: wrappers passed, and how deep."""

    def __init__(
        self, wrappers: tuple[str, ...] = (), depth: int = MAX_DEPTH, *, covered: bool = False
    ) -> None:
        self.wrappers = wrappers
        self.depth = depth
        self.covered = covered

    def inside(self, name: str = "", *, covered: bool = False) -> "_Context":
        wrappers = (*self.wrappers, name) if name else self.wrappers
        return _Context(wrappers, self.depth - 1, covered=self.covered or covered)


class _Reader:
    """Gathers commands; ``unknown`` is the first reason why something can't be known."""

    def __init__(self) -> None:
        self.commands: list[SimpleCommand] = []
        self.operators: set[str] = set()
        self.unknown = ""
        self._left = _MAX_READ

    def read(self, code: str, context: _Context) -> None:
        self._left -= len(code)
        try:
            if context.depth < 0 or self._left < 0 or len(self.commands) > _MAX_COMMANDS:
                raise Unreadable("nested too deep, or too much of it")
            syntax = shell_syntax.read(code)
        except Unreadable as reason:
            self._note(str(reason))
            return
        self.operators |= syntax.operators
        for token in shell_syntax.expanded_words(syntax):
            self._substitutions(token.word, context)
        for statement in syntax.statements:
            self._run(
                tuple(token.word for token in statement.words),
                tuple(_assignment(token.word) for token in statement.assignments),
                tuple(_redirect(operator, target) for operator, target in statement.redirects),
                context,
            )

    def _note(self, reason: str) -> None:
        self.unknown = self.unknown or reason

    def _substitutions(self, word: Word, context: _Context) -> None:
        for code in word.inner:
            self._substitution(code, context)

    def _substitution(self, code: str, context: _Context) -> None:
        self.operators.add("substitution")
        self.read(code, context.inside())

    def _run(
        self,
        words: tuple[Word, ...],
        assignments: tuple[Assignment, ...],
        redirects: tuple[Redirect, ...],
        context: _Context,
        *,
        more_words: bool = False,
    ) -> None:
        if context.wrappers[-1:] in (("env",), ("sudo",), ("time",)):
            taken, words = _taken_assignments(words)
            assignments += taken
        if words and is_declaration(words[0].text or ""):
            assignments += tuple(_assignment(word) for word in words[1:] if _ASSIGNS.match(word.raw))
        command = SimpleCommand(
            words, assignments, redirects, context.wrappers, covered=context.covered, more_words=more_words
        )
        if not words:
            self.commands.append(command)
            return
        self._program(command, context)

    def _program(self, command: SimpleCommand, context: _Context) -> None:
        code, runs, unknown = "", Wrapped(), ""
        try:
            if context.depth < 0 or len(self.commands) > _MAX_COMMANDS:
                raise Unreadable("nested too deep, or too much of it")
            code, runs = _looked_into(command)
        except Unreadable as reason:
            unknown = str(reason)
            self._note(unknown)
        transparent = runs.transparent and "/" not in command.words[0].raw  # ./env is anything
        self.commands.append(
            msgspec.structs.replace(command, transparent=transparent, code=code, unknown=unknown)
        )
        for inner in runs.inner:
            self._inner(inner, context.inside(command.name or "", covered=inner.covered))

    def _inner(self, inner: Inner, context: _Context) -> None:
        if inner.code is not None:
            self.read(inner.code, context)
        else:
            self._run(inner.words, (), (), context, more_words=inner.more_words)


def _looked_into(command: SimpleCommand) -> tuple[str, Wrapped]:
    """The code that an interpreter is given, and what a wrapper runs.

    Raises:
        Unreadable: what it runs can't be told.
    """
    name = command.name
    if not name:
        raise Unreadable("the name of a program is not literal")
    if not name.isascii():
        raise Unreadable("the name of a program holds letters that look like others")
    if command.more_words and name in ("git", "sed", "awk", "tar"):
        raise Unreadable(f"{name} with arguments from elsewhere")
    check_builtin(name, command.arguments)
    check_options(name, command.arguments)
    return interpreted_code(name, command.arguments), wrapped(command.words, more_words=command.more_words)


def _assignment(word: Word) -> Assignment:
    name = word.raw.partition("=")[0].removesuffix("+")
    skip = word.raw.index("=") + 1
    text = None if word.text is None else word.text[skip:]
    return Assignment(name, Word(word.raw[skip:], text, word.prefix[skip:], word.splits, word.inner))


def _taken_assignments(words: Sequence[Word]) -> tuple[tuple[Assignment, ...], tuple[Word, ...]]:
    """The ``NAME=value`` words that ``env``, ``sudo`` and the keyword ``time`` take in front of a program."""
    taken: list[Assignment] = []
    for word in words:
        name, equals, _ = (word.text if word.text is not None else word.prefix).partition("=")
        if not equals:
            break
        taken.append(Assignment(name, word))
    return tuple(taken), tuple(words[len(taken) :])


def _redirect(operator: Token, target: Token) -> Redirect:
    return Redirect(operator.text, target.word, operator.fd)
