"""The summariser and the counter that every context manager is measured with, ours and the peers'.

Imports nothing that is not in the standard library: the peers' scripts run in an environment of their own.
"""

from collections.abc import Sequence
from math import ceil

BYTES_PER_TOKEN = 3.6
LIMIT = 1_000  # tokens of a summary
MARK = "What happened so far:"
_LINE = 160  # characters kept of a line


def tokens(text: str) -> int:
    """Tokens of ``text``, by its length in UTF-8: one rule for all, near enough for code and English."""
    return ceil(len(text.encode()) / BYTES_PER_TOKEN)


def message_tokens(text: str, calls: Sequence[tuple[str, str]] = ()) -> int:
    """Tokens of a message: its text, its calls (name, arguments as text), and 4 for what is around them."""
    return 4 + tokens(text) + sum([tokens(name) + tokens(args) for name, args in calls])


def extract(texts: Sequence[str]) -> str:
    """A summary of messages: the first two lines of each, evenly thinned to at most LIMIT tokens.

    Lines of an earlier summary among them count as messages, so that they are carried on.
    """
    items: list[str] = []
    for text in texts:
        before, mark, earlier = text.partition(MARK)
        if mark:
            items += [line for line in earlier.splitlines() if line.strip()]
        else:
            lines = [line.strip()[:_LINE] for line in before.splitlines() if line.strip()]
            items += [" / ".join(lines[:2])] if lines else []
    kept = len(items)
    while True:
        chosen = [items[at * len(items) // kept] for at in range(kept)]
        summary = "\n".join([MARK, *chosen])
        if tokens(summary) <= LIMIT or not kept:
            return summary
        kept = kept * 9 // 10
