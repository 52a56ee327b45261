"""Patterns of the host's that a log does not keep.

Provider keys are taken out before a fact is made (``unspool.kernel.redaction``), so that model, state and
log see the same. What is taken out here is missing in the log alone: a request that held it cannot be
rebuilt exactly, and says so.

Only content is searched, field by field: types, ids, hashes and names are what holds a log together, and so
they stay, whatever a pattern matches. So do keys of objects, and what is binary or opaque.

Read with: ``stored_log.py``, ``unspool.kernel.events`` (the fields).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from unspool.kernel.codec import Codec
from unspool.kernel.errors import CodecError, LogError

MARK = "[redacted]"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_Hide: TypeAlias = Callable[[str], str]
_Walk: TypeAlias = Callable[[Any, _Hide], Any]


class Redaction:
    """Takes what regular expressions match out of the content of a record.

    Raises:
        LogError: a pattern is no regular expression.
    """

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._patterns = [_compiled(pattern) for pattern in patterns]
        self._codec = Codec()

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def apply(self, body: bytes, codec: Codec | None = None) -> bytes:
        """``body``, a fact, without what the patterns match in its content.

        ``codec`` knows the application's messages; those of other codecs are not tried.

        Raises:
            LogError: it holds what can be kept but not read, and so not searched, or what is left is no fact.
        """
        try:
            value = _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LogError("log: the fact cannot be searched for patterns", reason=str(error)) from error
        cleaned = _FACTS.get(str(value.get("type")), _foreign)(value, self._hide)
        if cleaned == value:
            return body
        redacted = _encode(cleaned)
        try:
            (codec or self._codec).decode(redacted)
        except CodecError as error:
            raise LogError("log: without what the patterns match it is no fact", reason=str(error)) from error
        return redacted

    def _hide(self, text: str) -> str:
        for pattern in self._patterns:
            text = pattern.sub(MARK, text)
        return text


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise LogError("log: not a regular expression", pattern=pattern, reason=str(error)) from error


def _all(value: Any, hide: _Hide) -> Any:
    """Every text but keys of objects."""
    match value:
        case str():
            return hide(value)
        case dict():
            return {key: _all(inner, hide) for key, inner in value.items()}
        case list():
            return [_all(inner, hide) for inner in value]
        case _:
            return value


def _fields(**walks: _Walk) -> _Walk:
    """Those fields of an object; everything else stays."""

    def walk(value: Any, hide: _Hide) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: walks[key](inner, hide) if key in walks else inner for key, inner in value.items()}

    return walk


def _each(of: _Walk) -> _Walk:
    """Every item of a list, or every value of an object."""

    def walk(value: Any, hide: _Hide) -> Any:
        match value:
            case dict():
                return {key: of(inner, hide) for key, inner in value.items()}
            case list():
                return [of(inner, hide) for inner in value]
            case _:
                return value

    return walk


def _url(value: Any, hide: _Hide) -> Any:
    return value if isinstance(value, str) and value.startswith("data:") else _all(value, hide)


_BLOCKS: Final[Mapping[str, _Walk]] = {
    "text": _fields(text=_all),
    "thinking": _fields(text=_all),
    "tool_call": _fields(args=_all, args_text=_all, args_parse_error=_all),
    "image": _fields(url=_url),
    "document": _fields(url=_url, name=_all),
}


def _block(value: Any, hide: _Hide) -> Any:
    walk = _BLOCKS.get(str(value.get("type"))) if isinstance(value, dict) else None
    return value if walk is None else walk(value, hide)


def _schema(value: Any, hide: _Hide) -> Any:
    """A JSON Schema: what it says, and not what it demands."""
    if isinstance(value, list):
        return [_schema(inner, hide) for inner in value]
    if not isinstance(value, dict):
        return value
    return {key: _keyword(key, inner, hide) for key, inner in value.items()}


def _keyword(key: str, value: Any, hide: _Hide) -> Any:
    if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, dict):
        return {name: _schema(inner, hide) for name, inner in value.items()}
    said = ("title", "description", "$comment", "default", "examples", "const", "enum")
    return _all(value, hide) if key in said else _schema(value, hide)


_CONTENT = _each(_block)
_MESSAGE = _fields(content=_CONTENT, metadata=_all)
_APP = _fields(data=_all)
_STORED = _fields(message=_MESSAGE, app=_APP)
_SYSTEM = _fields(text=_all)
_TOOL = _fields(description=_all, schema=_schema, title=_all, activity=_all, meta=_all)
_OPTIONS = _fields(stop=_all, response_format=_schema, extra=_all)


def _content_of_hash(value: Any, hide: _Hide) -> Any:
    """System blocks, tools or options, known by their shape."""
    if isinstance(value, list):
        return [
            (_TOOL if isinstance(each, dict) and "name" in each else _SYSTEM)(each, hide) for each in value
        ]
    return _OPTIONS(value, hide)


_BLOBS = _each(_content_of_hash)
_FACTS: Final[Mapping[str, _Walk]] = {
    "agent_start": _fields(blobs=_BLOBS, history=_each(_STORED), context=_all),
    "turn_start": _fields(),
    "turn_end": _fields(),
    "message_end": _STORED,
    "context_projected": _fields(append=_each(_STORED), items=_each(_fields(reason=_all)), blobs=_BLOBS),
    "context_compacting": _fields(plan=_all),
    "context_compacted": _fields(messages=_each(_STORED), steps=_each(_fields(note=_all))),
    "model_response": _fields(reply=_MESSAGE),
    "retry": _fields(message=_all),
    "tool_exec_start": _fields(label=_all, args=_all),
    "approval_requested": _fields(reason=_all, previews=_all),
    "approval_decided": _fields(by=_all, reason=_all, args=_all),
    "tool_exec_dispatch": _fields(args=_all),
    "tool_exec_end": _fields(content=_CONTENT, details=_all),
    "queue_changed": _STORED,
    "config_changed": _fields(blobs=_BLOBS, context=_all),
    "session_changed": _fields(title=_all, metadata=_all),
    "handoff": _fields(),
    "child_started": _fields(),
    "child_ended": _fields(),
    "error": _fields(message=_all, details=_all),
    "agent_end": _fields(),
}


def _foreign(value: Any, hide: _Hide) -> Any:
    """A fact of a kind that is not known here: all but its head."""
    return {key: inner if key in ("type", "run_id") else _all(inner, hide) for key, inner in value.items()}
