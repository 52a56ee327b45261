"""Errors that do not come under the key ``error``, as some servers of OpenAI's formats have them.

Read with: ``openai_chat_stream.py``, ``openai_responses_stream.py`` (the callers), ``faults.py``.
"""

from typing import Any, Final

_SUCCESS: Final = frozenset({"", "0", "ok", "success"})


def is_flat_fault(value: Any) -> bool:
    """Whether JSON that is no part of an answer says what went wrong.

    >>> is_flat_fault({"object": "error", "message": "no"}), is_flat_fault({"code": 429, "message": "slow"})
    (True, True)
    >>> is_flat_fault({"detail": "no"}), is_flat_fault({"message": "hi"}), is_flat_fault(["no"])
    (True, False, False)
    >>> is_flat_fault({"code": 200, "message": "success"}), is_flat_fault({"code": "OK", "message": "done"})
    (False, False)
    """
    if not isinstance(value, dict):
        return False
    if value.get("object") == "error" or value.get("detail") or value.get("errors"):
        return True
    return bool(
        value.get("message") and (_is_failure(value.get("code")) or _is_failure(value.get("status_code")))
    )


def _is_failure(code: Any) -> bool:
    """Whether a code, a number or a word, says anything but success."""
    if not code or isinstance(code, bool):
        return False
    text = str(code).strip().lower()
    return text not in _SUCCESS and not (text.isdecimal() and len(text) == 3 and text[0] == "2")
