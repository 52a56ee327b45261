"""What a command runs besides itself, as a value."""

from typing import NamedTuple

from .shell_plan import Word


class Inner(NamedTuple):
    """Something that a command runs: words, or shell ``code``."""

    words: tuple[Word, ...] = ()
    code: str | None = None
    more_words: bool = False
    covered: bool = False


class Wrapped(NamedTuple):
    """What a command runs besides itself; ``transparent`` as in ``SimpleCommand``."""

    inner: tuple[Inner, ...] = ()
    transparent: bool = False


def filled(word: Word, mark: str) -> Word:
    """A word in which ``mark`` stands for something that the line doesn't say."""
    if mark not in (word.raw if word.text is None else word.text):
        return word
    return Word(word.raw, None, (word.text or word.prefix).partition(mark)[0], word.splits)
