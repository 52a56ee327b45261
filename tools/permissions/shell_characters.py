"""Characters that a command line may hold."""

import unicodedata

from .shell_plan import Unreadable

MAX_BYTES = 64 * 1024  # of a command line


def check_characters(text: str) -> None:
    """Refuses what a reader can't see or a shell reads in more than one way."""
    if len(text) > MAX_BYTES:
        raise Unreadable(f"longer than {MAX_BYTES} bytes")
    if text.isascii() and text.isprintable():
        return
    for char in text:
        if char in "\t\n":
            continue
        kind = unicodedata.category(char)
        if kind[0] == "C" or (kind[0] == "Z" and char != " "):
            raise Unreadable(f"holds the invisible character U+{ord(char):04X}")
    if len(text.encode()) > MAX_BYTES:
        raise Unreadable(f"longer than {MAX_BYTES} bytes")
