"""What a message puts before the model, and what a reply asks for: files by path, results, ids.

``ContextReader`` reads plain messages by the names of tools and of their arguments (``ToolNames``); what a strategy
made of a message it reads from its mark. Application messages that provide items speak for themselves.

Read with: ``demands.py`` (what was needed), ``metrics.py`` (what that says of a run), ``marks.py``.
"""

import posixpath
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from unspool.kernel.json_edge import encode_text
from unspool.kernel.messages import (
    AgentMessage,
    ContextDemand,
    ContextItem,
    Document,
    Image,
    Message,
    ProvidesItems,
    ToolCall,
)

from .calls import UseKind, use_of, writes_whole
from .ids import ids_in
from .marks import kind_of, mark_of

Action: TypeAlias = Literal["read", "write", "edit", "grep", "list", "run"]
"""What a tool does, as far as it matters here."""

_ACTIONS: Final[Mapping[UseKind, Action]] = {
    "read": "read",
    "edit": "edit",
    "search": "grep",
    "list": "list",
    "run": "run",
}
_SUBJECTS: Final = ("pattern", "query", "regex", "command", "cmd")

_REPRESENTATIONS: Final[Mapping[str, str]] = {
    "": "full",
    "summary": "summary",
    "cleared": "cleared",
    "dropped": "cleared",
    "offloaded": "offloaded",
    "collapsed": "reference",
}
_PART: Final = "part"  # of what was trimmed or reduced: something of it is there
_LONGEST_IDENTITY: Final = 200


class ToolNames(Struct, frozen=True, kw_only=True):
    """What tools do, and the arguments that hold a path or what is looked for.

    It is read from the names of tools and arguments (``calls.use_of``); ``tools`` and ``paths`` are for those whose
    names do not tell.
    """

    tools: Mapping[str, Action] = {}
    paths: tuple[str, ...] = ()
    subjects: tuple[str, ...] = _SUBJECTS

    def action(self, call: ToolCall) -> Action | None:
        """What a call does; None where that cannot be told."""
        if (told := self.tools.get(call.name)) is not None:
            return told
        action = _ACTIONS.get(use_of(call).kind)
        return "write" if action == "edit" and writes_whole(call) else action

    def path(self, call: ToolCall) -> str:
        """The normal form of the path that a call names; empty where it names none."""
        if given := _argument(call, self.paths):
            return normal_path(given)
        return next((normal_path(path) for path in use_of(call).paths), "")

    def subject(self, call: ToolCall) -> str:
        """What a call looks for or runs; empty where it does not say."""
        return _argument(call, self.subjects)


def _argument(call: ToolCall, names: Sequence[str]) -> str:
    for name in names:
        value = call.args.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def normal_path(path: str) -> str:
    """A path with forward slashes and without detours: ``./a//b/../c`` is ``a/c``."""
    return posixpath.normpath(path.strip().replace("\\", "/"))


def representation_of(message: AgentMessage) -> str:
    """How a message shows what it is about: full, part, reference, summary, cleared, offloaded."""
    return _REPRESENTATIONS.get(kind_of(message), _PART)


class ContextReader:
    """Reads messages, each once: it is known by identity, and held.

    Calls are remembered, because a result does not say what it is the result of; so a message is read after
    those that were before it.
    """

    def __init__(self, names: ToolNames | None = None) -> None:
        self.names = names or ToolNames()
        self._calls: dict[str, ToolCall] = {}
        self._items: dict[int, tuple[AgentMessage, tuple[ContextItem, ...]]] = {}
        self._ids: dict[int, tuple[AgentMessage, tuple[str, ...]]] = {}

    def items(self, message: AgentMessage) -> tuple[ContextItem, ...]:
        """What a message puts before the model."""
        known = self._items.get(id(message))
        if known is None:
            known = self._items[id(message)] = (message, tuple(self._read(message)))
        return known[1]

    def ids(self, message: AgentMessage) -> tuple[str, ...]:
        """The ids that a message holds, in its texts and in the arguments of its calls."""
        known = self._ids.get(id(message))
        if known is None:
            known = self._ids[id(message)] = (message, self._find_ids(message))
        return known[1]

    def wanted_files(self, reply: AgentMessage) -> list[ContextDemand]:
        """The paths that a reply reads, searches or changes."""
        found: list[ContextDemand] = []
        for call in _calls_of(reply):
            action, path = self.names.action(call), self.names.path(call)
            if path and action in ("read", "grep", "edit"):
                found.append(ContextDemand(kind="file", identity=path, signal=action))
        return found

    def _find_ids(self, message: AgentMessage) -> tuple[str, ...]:
        texts = [message.text, *[call.arguments_text for call in _calls_of(message)]]
        return tuple(dict.fromkeys([found for text in texts for found in ids_in(text)]))

    def _read(self, message: AgentMessage) -> list[ContextItem]:
        if type(message) is not Message and isinstance(message, ProvidesItems):
            return list(message.context_items())
        lowered = message.to_message()
        if lowered is None:
            return []
        for call in lowered.tool_calls:
            self._calls[call.id] = call
        mark, shows = kind_of(message), representation_of(message)
        if mark == "summary":
            files = mark_of(message).get("read_files", ())
            return [
                _item("summary", _short(lowered.text), shows, mark),
                *[_item("file", normal_path(str(path)), shows, mark) for path in files],
            ]
        found: list[ContextItem] = []
        if lowered.role == "tool":
            kind, identity = self._result(lowered)
            found.append(_item(kind, identity, shows, mark, lowered.tool_call_id))
        found += [
            _item("file", path, shows, mark, call.id)
            for call in lowered.tool_calls
            if self.names.action(call) == "write" and (path := self.names.path(call))
        ]
        return found + [
            _item(*named, shows, mark) for block in lowered.content if (named := _media(block)) is not None
        ]

    def _result(self, message: Message) -> tuple[str, str]:
        """Kind and identity of a tool result."""
        call = self._calls.get(message.tool_call_id)
        if call is None:
            return "result", message.tool_name or message.tool_call_id
        action, path, subject = self.names.action(call), self.names.path(call), self.names.subject(call)
        if message.is_error:
            return "error", _short(f"{call.name} {path or subject}".strip())
        match action:
            case "read" if path:
                return "file", path
            case "edit" | "write" if path:
                return "edit", path
            case "grep":
                return "search", _short(f"{subject} {path}".strip())
            case "list":
                return "listing", path or _short(subject) or "."
            case "run":
                return "output", _short(subject)
            case _:
                return "result", _short(f"{call.name} {encode_text(call.args)}")


def _calls_of(message: AgentMessage) -> tuple[ToolCall, ...]:
    lowered = message.to_message()
    return lowered.tool_calls if lowered is not None else ()


def _item(kind: str, identity: str, representation: str, reason: str, ref: str = "") -> ContextItem:
    return ContextItem(kind=kind, identity=identity, representation=representation, reason=reason, ref=ref)


def _media(block: Any) -> tuple[str, str] | None:
    """Kind and identity of an image or a document."""
    if type(block) is Image:
        return "image", block.url or _digest(block.data or "")
    if type(block) is Document:
        return "document", block.name or block.url or _digest(block.data or "")
    return None


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _short(text: str) -> str:
    line = " ".join(text[: 2 * _LONGEST_IDENTITY].split())
    return line if len(line) <= _LONGEST_IDENTITY else line[: _LONGEST_IDENTITY - 1] + "…"
