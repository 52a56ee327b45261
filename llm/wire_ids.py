"""Ids and names of tool calls as a provider takes them: those of another one, or that a model made up, may be too
long, or of other characters. A request with one is refused, and so is every later one.

Read with: ``encoding.py``, the ``*_request.py`` files (the callers).
"""

import hashlib
import re
from typing import Final

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def made_up_id(seed: str, prefix: str = "call_") -> str:
    """An id made from ``seed``: the same for the same seed, within every provider's limits."""
    return prefix + hashlib.sha256(seed.encode(errors="replace")).hexdigest()[:24]


def wire_id(id: str, allowed: re.Pattern[str], prefix: str = "call_") -> str:
    """``id`` where ``allowed`` matches it as a whole, and one made of it where not: other ids, other results."""
    return id if allowed.fullmatch(id) else made_up_id(id, prefix)


def wire_name(name: str, allowed: re.Pattern[str] = _NAME) -> str:
    """The name of a call where ``allowed`` matches it as a whole, and what is left of it where not.

    >>> wire_name("read_file"), wire_name("functions.read file"), wire_name("")
    ('read_file', 'functions_read_file', 'unknown')
    """
    if allowed.fullmatch(name):
        return name
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", name)[:64] or "unknown"
