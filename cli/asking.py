"""Questions to whoever sits at the terminal.

Read with: ``resume.py``, ``delete.py``.
"""

import sys

from .view import printable


def can_ask() -> bool:
    """Whether somebody can answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(question: str) -> bool | None:
    """Yes or no; None where the input ends first. Asks on stderr, until the answer is one of them."""
    while True:
        print(f"{printable(question)} [y/n] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer:
            print(file=sys.stderr)
            return None
        if answer.strip().lower() in ("y", "yes"):
            return True
        if answer.strip().lower() in ("n", "no"):
            return False
