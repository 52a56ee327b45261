"""Rules over shell commands: ``git status``, ``npm install *``, ``*``.

A pattern is a list of words, which a command must begin with; ``*`` stands for one or more further
words, so ``git *`` matches ``git status`` and not ``git``. An allow rule must hold for every command
of a line, and never holds where something can't be known. A deny rule matches when any command may
be what it names, however it is written.
"""

import re
from collections.abc import Sequence
from typing import Literal

from .read_only import can_only_read, is_read_only_command
from .shell_builtins import has_harmless_variables, is_dangerous_variable
from .shell_plan import ShellPlan, SimpleCommand, Word

Match = Literal["yes", "maybe", "no"]

_JOINED = re.compile(r"""['"]\s*[+.,]?\s*['"]|[\\'"]""")


def allows(plan: ShellPlan, pattern: str) -> bool:
    """Whether an allow rule covers all that a line would run."""
    return allowed_by(plan, [pattern]) is not None


def allowed_by(plan: ShellPlan, patterns: Sequence[str], *, or_read_only: bool = False) -> str | None:
    """The first pattern used, where the patterns together cover every command of a line; else None.

    Parts of a list or a pipe may be covered by different patterns; with ``or_read_only`` a part that
    only reads needs none. Programs run by a wrapper need a pattern as if they stood alone. Never
    covered: what is unknown, ``&``, a redirection that writes a file or opens a connection, a
    variable that may change what programs do, ``./program`` in a line that changes the directory, and
    an argument that isn't literal, save for one that is no option (``src/*.py``) and for programs that
    only read. Paths and hosts are not looked at.
    """
    if plan.unknown or "&" in plan.operators:
        return None
    if any(command.name == "cd" for command in plan.commands) and any(
        map(_is_relative_program, plan.commands)
    ):
        return None
    rules = [(pattern, pattern.split()) for pattern in patterns]
    used: str | None = None
    for command in plan.commands:
        if not _is_harmless_around(command):
            return None
        if not command.words or command.transparent or command.covered:
            continue
        match = next((pattern for pattern, tokens in rules if _allows(command, tokens)), None)
        if match is None and not (or_read_only and is_read_only_command(command)):
            return None
        used = used if used is not None else match
    return used


def _is_relative_program(command: SimpleCommand) -> bool:
    return bool(command.words) and "/" in (text := command.words[0].text or "") and not text.startswith("/")


def _is_harmless_around(command: SimpleCommand) -> bool:
    return has_harmless_variables(command) and not any(
        redirect.writes or redirect.is_network for redirect in command.redirects
    )


def _allows(command: SimpleCommand, tokens: Sequence[str]) -> bool:
    if not tokens or not _begins(command.words, tokens, more_words=False):
        return False
    if can_only_read(command.words[0].text or ""):
        return True
    return not command.more_words and all(
        word.text is not None or word.is_argument for word in command.arguments
    )


def _begins(words: Sequence[Word], tokens: Sequence[str], *, more_words: bool) -> bool:
    """Whether the words begin with the tokens; a word that isn't literal is matched by ``*`` only."""
    reached = {0}  # how many words the tokens so far may have taken
    for token in tokens:
        if token == "*":
            reached = set(range(min(reached) + 1, len(words) + 1 + more_words)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(words) and words[at].text == token}
    return bool(reached)


def denies(plan: ShellPlan, pattern: str) -> Match:
    """Whether a deny rule matches something that a line would run: ``maybe`` where that can't be told."""
    tokens = pattern.split()
    if not tokens:
        return "no"
    found = {_denies(command, tokens) for command in plan.commands if command.words}
    if "yes" in found:
        return "yes"
    return "maybe" if "maybe" in found or plan.unknown or _changes_programs(plan) else "no"


def _changes_programs(plan: ShellPlan) -> bool:
    return any(
        is_dangerous_variable(assignment.name)
        for command in plan.commands
        for assignment in command.assignments
    )


def _denies(command: SimpleCommand, tokens: Sequence[str]) -> Match:
    name = command.name
    if name is None:
        return "maybe"
    ruled = tokens[0].rpartition("/")[2]
    if tokens[0] != "*" and name.casefold() != ruled.casefold():
        return "maybe" if _mentions(command.code, ruled) else "no"
    words = [Word(ruled, tokens[0]), *command.arguments]
    if _begins(words, tokens, more_words=command.more_words):
        return "yes"
    return "maybe" if _may_be(command, tokens[1:]) else "no"


def _mentions(code: str, name: str) -> bool:
    """Whether code of another language holds the name as a word, quotes and joints left out."""
    return (
        bool(code)
        and re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", _JOINED.sub("", code))
        is not None
    )


def _may_be(command: SimpleCommand, tokens: Sequence[str]) -> bool:
    """The same words in another order or spelling: ``-r -f`` for ``-rf``, other options in front."""
    if command.more_words or any(word.text is None for word in command.arguments):
        return True
    texts = [word.text for word in command.arguments if word.text is not None]
    letters = {letter for text in texts if re.match(r"-[^-]", text) for letter in text[1:].casefold()}
    named = [token for token in tokens if token != "*"]
    enough = len(texts) >= len(named) + ("*" in tokens)
    return enough and bool(named) and all(token in texts or _is_spelled(token, letters) for token in named)


def _is_spelled(token: str, letters: set[str]) -> bool:
    return re.fullmatch(r"-[A-Za-z]+", token) is not None and letters.issuperset(token[1:].casefold())
