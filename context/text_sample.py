"""A long text stands for itself in parts, so that counting it costs a bounded time.

Read with: ``estimate.py``, ``encodings.py`` (the callers).
"""

from typing import Final

PARTS: Final = 40  # so many that a text of many kinds is met; each costs a token too many at its ends


def text_sample(text: str, limit: int) -> str:
    """``text`` itself up to ``limit`` characters, else ``limit`` of them: parts of equal length, evenly placed,
    the beginning and the end among them. Deterministic."""
    if len(text) <= limit:
        return text
    size = limit // PARTS
    last = len(text) - size
    starts = [last * part // (PARTS - 1) for part in range(PARTS)]
    return "".join([text[start : start + size] for start in starts])
