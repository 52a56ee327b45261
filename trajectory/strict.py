"""What JSON would change without a word: found before it is stored.

Fields typed ``Any`` hold what hosts and tools put there. An encoder writes bytes as base64, NaN as
null, a set as a list: the log would then say something else than the state. Elsewhere the types see to
that, but for numbers that JSON does not have, and for depth: what reads a record recurses.

Read with: ``jsonl.py``, ``unspool.kernel.json_edge``.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final, get_args

import msgspec

from unspool.kernel.codec import Codec
from unspool.kernel.errors import CodecError
from unspool.kernel.events import (
    AgentStart,
    AppMessage,
    ApprovalDecided,
    ApprovalRequested,
    ConfigChanged,
    ContextCompacted,
    ContextProjected,
    ErrorEvent,
    Fact,
    MessageEnd,
    ModelResponse,
    QueueChanged,
    Ruling,
    SessionChanged,
    Signal,
    Stored,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecStart,
    UnknownFact,
)
from unspool.kernel.messages import Content, Message, Opaque, OpaqueMessage, ToolCall

SIGNALS: Final = frozenset(get_args(Signal))
_DEEPEST: Final = 256  # levels of nesting: a quarter of Python's own limit, since readers recurse too
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_EMPTY: Final[dict[str, Any]] = {}


def encode(codec: Codec, fact: Fact) -> bytes:
    """A fact as the JSON object to store.

    Raises:
        CodecError: something else than the fact would be read.
    """
    if type(fact) is UnknownFact:
        return _as_it_came(codec, fact)
    check_fact(fact)
    body = codec.encode(fact)
    # NaN is written as null; a short text cannot be nested deep
    if b"null" in body or (len(body) > 2 * _DEEPEST and body.count(b"[") + body.count(b"{") > _DEEPEST):
        try:
            check_json(msgspec.to_builtins(fact, str_keys=True, enc_hook=_parts))
        except RecursionError as error:
            raise CodecError("codec: nested too deep", type=type(fact).__name__) from error
    return body


def _as_it_came(codec: Codec, fact: UnknownFact) -> bytes:
    """The bytes of a fact of a later version."""
    try:
        read = codec.decode(fact.raw)
    except RecursionError as error:
        raise CodecError("codec: nested too deep", type=fact.type) from error
    if read.seq != fact.seq:
        raise CodecError("codec: the number in its bytes is another", seq=fact.seq, found=read.seq)
    if not fact.raw.endswith(b"}"):
        raise CodecError("codec: white space after its bytes", seq=fact.seq)
    return fact.raw


def _parts(value: Any) -> Any:
    """An application message as a codec writes it."""
    if not isinstance(value, AppMessage):
        raise TypeError(f"a {type(value).__qualname__} has no JSON form")
    inner = value.value
    return {"kind": value.kind, "data": inner.data if isinstance(inner, OpaqueMessage) else inner}


def check_json(value: Any, path: str = "$", levels: int = _DEEPEST) -> None:
    """Pass over what JSON gives back as it was; a tuple may come back as a list.

    Raises:
        CodecError: ``value`` holds something else, or more than ``levels`` of nesting; the message names
            its path.
    """
    kind = type(value)
    if kind in _PLAIN:
        return
    if levels == 0:
        raise CodecError("codec: nested too deep", path=f"{path[:80]}…")
    if kind is dict:
        for key, inner in value.items():
            if type(key) is not str:
                raise CodecError("codec: a key is not text", path=path, key=repr(key))
            if type(inner) not in _PLAIN:
                check_json(inner, f"{path}.{key}", levels - 1)
    elif kind is list or kind is tuple:
        for index, inner in enumerate(value):
            if type(inner) not in _PLAIN:
                check_json(inner, f"{path}[{index}]", levels - 1)
    elif kind is not float:
        raise CodecError("codec: has no JSON form of its own", path=path, type=kind.__name__)
    elif not math.isfinite(value):
        raise CodecError("codec: not a JSON number", path=path, value=repr(value))


def check_fact(fact: Fact) -> None:
    """Check every field of a fact that may hold anything.

    Raises:
        CodecError: one holds something that JSON would change.
    """
    rule = _RULES.get(type(fact))
    if rule is not None:
        rule(fact)


def _check_app(app: AppMessage | None) -> None:
    if app is not None and isinstance(app.value, OpaqueMessage):
        check_json(app.value.data, "$.app.data")


def _check_said(fact: MessageEnd | QueueChanged | Stored) -> None:
    if fact.message is not None:
        _check_message(fact.message)
    if fact.app is not None:
        _check_app(fact.app)


def _check_message(message: Message | None) -> None:
    if message is not None:
        if message.metadata:
            check_json(message.metadata, "$.metadata")
        _check_content(message.content)


def _check_content(content: Iterable[Content]) -> None:
    for block in content:
        if type(block) is ToolCall:
            check_json(block.args, "$.args")
        elif type(block) is Opaque:
            check_json(block.data, "$.data")


def _check_stored(entries: Iterable[str | Stored]) -> None:
    for entry in entries:
        if not isinstance(entry, str):
            _check_said(entry)


def _check_start(fact: AgentStart) -> None:
    check_json(fact.blobs, "$.blobs")
    _check_stored(fact.history)
    if fact.context != _EMPTY:
        check_json(fact.context, "$.context")


def _check_changed(fact: ConfigChanged) -> None:
    check_json(fact.blobs, "$.blobs")
    check_json(fact.context, "$.context")


def _check_projected(fact: ContextProjected) -> None:
    if fact.blobs != _EMPTY:
        check_json(fact.blobs, "$.blobs")
    _check_stored(fact.append)


def _check_tool_end(fact: ToolExecEnd) -> None:
    if fact.details != _EMPTY:
        check_json(fact.details, "$.details")
    _check_content(fact.content)
    _check_ruling(fact.ruling)


def _check_ruling(ruling: Ruling | None) -> None:
    if ruling is not None:
        check_json(ruling.details, "$.ruling.details")


def _check_dispatch(fact: ToolExecDispatch) -> None:
    check_json(fact.args, "$.args")
    _check_ruling(fact.ruling)


def _check_requested(fact: ApprovalRequested) -> None:
    check_json(fact.previews, "$.previews")
    _check_ruling(fact.ruling)
    for nested in fact.nested:
        _check_content((nested.call,))
        check_json(nested.details, "$.nested.details")
        check_json(nested.preview, "$.nested.preview")


def _check_decided(fact: ApprovalDecided) -> None:
    check_json(fact.args, "$.args")
    check_json(fact.details, "$.details")


_RULES: Final[dict[type, Callable[[Any], None]]] = {
    AgentStart: _check_start,
    MessageEnd: _check_said,
    ModelResponse: lambda fact: _check_message(fact.reply),
    QueueChanged: _check_said,
    ContextProjected: _check_projected,
    ContextCompacted: lambda fact: _check_stored(fact.messages),
    ToolExecStart: lambda fact: check_json(fact.args, "$.args"),
    ToolExecDispatch: _check_dispatch,
    ApprovalRequested: _check_requested,
    ApprovalDecided: _check_decided,
    ToolExecEnd: _check_tool_end,
    ConfigChanged: _check_changed,
    SessionChanged: lambda fact: check_json(fact.metadata, "$.metadata"),
    ErrorEvent: lambda fact: check_json(fact.details, "$.details"),
}
