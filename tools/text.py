"""How names, sizes and long lines are shown to a model. Pure functions."""

import re
from collections.abc import Sequence

from unspool.kernel.json_edge import clean_text, encode_text

MAX_OUTPUT = 50 * 1024  # bytes of rendered output
MAX_RESULT = 64 * 1024  # bytes of output with its last line and notes, which the kernel shall not cut
_NOT_TEXT = bytes(code for code in range(32) if code not in b"\t\n\r\f\b\x1b")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def shown(name: str) -> str:
    """A name on one line: quoted as JSON where it holds control characters or is empty.

    Bytes that are not UTF-8 appear as U+FFFD.
    """
    name = clean_text(name)
    return encode_text(name) if _CONTROL.search(name) or not name else name


def shown_list(names: Sequence[str], limit: int = 3) -> str:
    """``a, b, c and 4 more``."""
    text = ", ".join(shown(name) for name in names[:limit])
    return text if len(names) <= limit else f"{text} and {len(names) - limit} more"


def size_text(size: int) -> str:
    """``340 B``, ``1.2 KB``, ``5.0 GB``; powers of 1024."""
    if size < 1024:
        return f"{size} B"
    value, unit = size / 1024, "KB"
    for unit in ("KB", "MB", "GB", "TB"):
        if value < 1024 or unit == "TB":
            break
        value /= 1024
    return f"{value:.1f} {unit}"


def count_text(count: int, noun: str) -> str:
    """``1 file``, ``2 files``; nouns with -es end in ch: ``2 matches``."""
    plural = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}{plural}"


def render(lines: Sequence[str], notes: Sequence[str]) -> str:
    """Lines, as many as may be shown, then each note in brackets on a line of its own."""
    size = 0
    for count, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > MAX_OUTPUT:
            lines, notes = lines[:count], [f"cut after {size_text(MAX_OUTPUT)}", *notes]
            break
    return "\n".join([*lines, *(f"[{note}]" for note in notes)])


def looks_binary(sample: bytes) -> bool:
    """Whether the start of a file is not text: a NUL, or 30 % control characters."""
    if b"\0" in sample:
        return True
    control = len(sample) - len(sample.translate(None, _NOT_TEXT))
    return control * 10 > len(sample) * 3
