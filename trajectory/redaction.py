"""Patterns of the host's that a log does not keep.

Provider keys are taken out before a fact is made (``unspool.kernel.redaction``), so that model, state and
log see the same. What is taken out here is missing in the log alone: a request that held it cannot be
rebuilt exactly, and says so.

Read with: ``jsonl.py``, ``sqlite.py``.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.kernel.errors import LogError

MARK = "[redacted]"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Redaction:
    """Takes what regular expressions match out of the strings of a record, keys of objects excepted.

    Raises:
        LogError: a pattern is no regular expression.
    """

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._patterns = [_compiled(pattern) for pattern in patterns]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def apply(self, body: bytes) -> bytes:
        """``body``, a JSON object, without what the patterns match in its strings.

        Raises:
            LogError: it holds what can be kept but not read, and so not searched.
        """
        try:
            value = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LogError("log: the fact cannot be searched for patterns", reason=str(error)) from error
        cleaned = self._clean(value)
        return body if cleaned == value else _encode(cleaned)

    def _clean(self, value: Any) -> Any:
        match value:
            case str():
                for pattern in self._patterns:
                    value = pattern.sub(MARK, value)
                return value
            case dict():
                return {key: self._clean(inner) for key, inner in value.items()}
            case list():
                return [self._clean(inner) for inner in value]
            case _:
                return value


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise LogError("log: not a regular expression", pattern=pattern, reason=str(error)) from error
