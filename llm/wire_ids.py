"""Ids of tool calls as a provider takes them: those of another one may be too long, or of other characters.

Read with: ``encoding.py``, the ``*_request.py`` files (the callers).
"""

import hashlib
import re


def made_up_id(seed: str, prefix: str = "call_") -> str:
    """An id made from ``seed``: the same for the same seed, within every provider's limits."""
    return prefix + hashlib.sha256(seed.encode(errors="replace")).hexdigest()[:24]


def wire_id(id: str, allowed: re.Pattern[str], prefix: str = "call_") -> str:
    """``id`` where ``allowed`` matches it as a whole, and one made of it where not: other ids, other results."""
    return id if allowed.fullmatch(id) else made_up_id(id, prefix)
