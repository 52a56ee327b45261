"""Options of programs, as far as a line says them."""

from collections.abc import Sequence

from .shell_plan import Unreadable, Word


def literal(word: Word) -> str:
    """The text of a word that must be said.

    Raises:
        Unreadable: it isn't literal.
    """
    if word.text is None:
        raise Unreadable(f"it is not literal: {word.raw}")
    return word.text


def has_option(arguments: Sequence[Word], letters: str, long: str) -> bool:
    """Whether one of these options may be there: in a cluster, or by the start of its long name.

    ``--`` is no end: it may be the value of an option before it.
    """
    for word in arguments:
        text = word.text if word.text is not None else word.prefix
        if text.startswith("--"):
            given = text[2:].partition("=")[0]
            if given and any(name.startswith(given) for name in long.split()):
                return True
        elif text.startswith("-") and any(letter in text[1:] for letter in letters):
            return True
    return False
