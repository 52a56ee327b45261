"""What JSON would change without a word: found before it is stored.

Fields typed ``Any`` hold what hosts and tools put there. An encoder writes bytes as base64, NaN as
null, a set as a list: the log would then say something else than the state. Typed fields, and
application messages with their own decoders, need no check.

Read with: ``jsonl.py``, ``unspool.kernel.json_edge``.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

from unspool.kernel.errors import CodecError
from unspool.kernel.events import (
    AgentStart,
    ApprovalDecided,
    ApprovalRequested,
    ConfigChanged,
    ContextCompacted,
    ContextProjected,
    ErrorEvent,
    Fact,
    MessageEnd,
    QueueChanged,
    SessionChanged,
    Stored,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecStart,
)
from unspool.kernel.messages import Content, Message, Opaque, ToolCall

_PLAIN: Final = frozenset({str, int, bool, type(None)})


def check_json(value: Any, path: str = "$") -> None:
    """Pass over what JSON gives back as it was; a tuple may come back as a list.

    Raises:
        CodecError: ``value`` holds something else; the message names its path.
    """
    kind = type(value)
    if kind in _PLAIN:
        return
    if kind is dict:
        for key, inner in value.items():
            if type(key) is not str:
                raise CodecError("codec: a key is not text", path=path, key=repr(key))
            if type(inner) not in _PLAIN:
                check_json(inner, f"{path}.{key}")
    elif kind is list or kind is tuple:
        for index, inner in enumerate(value):
            if type(inner) not in _PLAIN:
                check_json(inner, f"{path}[{index}]")
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
            _check_message(entry.message)


def _check_start(fact: AgentStart) -> None:
    check_json(fact.blobs, "$.blobs")
    _check_stored(fact.history)


def _check_projected(fact: ContextProjected) -> None:
    check_json(fact.blobs, "$.blobs")
    _check_stored(fact.append)


def _check_tool_end(fact: ToolExecEnd) -> None:
    check_json(fact.details, "$.details")
    _check_content(fact.content)


_RULES: Final[dict[type, Callable[[Any], None]]] = {
    AgentStart: _check_start,
    MessageEnd: lambda fact: _check_message(fact.message),
    QueueChanged: lambda fact: _check_message(fact.message),
    ContextProjected: _check_projected,
    ContextCompacted: lambda fact: _check_stored(fact.messages),
    ToolExecStart: lambda fact: check_json(fact.args, "$.args"),
    ToolExecDispatch: lambda fact: check_json(fact.args, "$.args"),
    ApprovalRequested: lambda fact: check_json(fact.previews, "$.previews"),
    ApprovalDecided: lambda fact: check_json(fact.args, "$.args"),
    ToolExecEnd: _check_tool_end,
    ConfigChanged: lambda fact: check_json(fact.blobs, "$.blobs"),
    SessionChanged: lambda fact: check_json(fact.metadata, "$.metadata"),
    ErrorEvent: lambda fact: check_json(fact.details, "$.details"),
}
