"""Questions to whoever sits at the terminal.

Read with: ``resume.py``, ``delete.py``.
"""

import sys
from collections.abc import Sequence

from .view import printable


def can_ask() -> bool:
    """Whether somebody can answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(question: str) -> bool | None:
    """Yes or no; None where the input ends first."""
    choice = ask_choice(f"{question} [y/n]", ("y", "n"))
    return None if choice is None else choice == "y"


def ask_choice(question: str, choices: Sequence[str]) -> str | None:
    """One of ``choices``, single letters; None where the input ends first. Asks until the answer is one of them, or
    its word: yes, no, session, always."""
    while (answer := ask_line(question)) is not None:
        letter = answer.lower()
        if letter in ("yes", "no", "session", "always"):
            letter = letter[0]
        if letter in choices:
            return letter
    return None


def ask_line(question: str) -> str | None:
    """A line, without what surrounds it; None where the input ends first. Asks on stderr."""
    print(f"{printable(question)} ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        print(file=sys.stderr)
        return None
    return answer.strip()
