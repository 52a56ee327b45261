"""What calls are about, and which result belongs to which call.

Tools are of any make, so that this is read from their names and arguments: ``read_file``, ``fs__view`` and
``ReadFile`` with a ``path`` or a ``file_path`` all read a file.

Read with: ``values.py``, ``duplicates.py``, ``clearing.py``.
"""

import re
from collections.abc import Mapping, Sequence
from posixpath import normpath
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from unspool.kernel.json_edge import canonical_bytes, encode_text
from unspool.kernel.messages import AgentMessage, Message, ToolCall

UseKind: TypeAlias = Literal["read", "edit", "search", "list", "run", "other"]

# The first kind that has a word of the name is the kind: search_and_replace edits, list_dir lists.
_VERBS: Final[Mapping[UseKind, frozenset[str]]] = {
    "edit": frozenset(
        [
            "add",
            "append",
            "apply",
            "create",
            "delete",
            "edit",
            "insert",
            "mkdir",
            "modify",
            "move",
            "patch",
            "put",
            "remove",
            "rename",
            "replace",
            "save",
            "update",
            "write",
        ]
    ),
    "search": frozenset(["find", "glob", "grep", "lookup", "query", "rg", "search"]),
    "list": frozenset(["dir", "list", "listing", "ls", "tree"]),
    "run": frozenset(
        ["bash", "cmd", "command", "exec", "execute", "powershell", "run", "sh", "shell", "terminal"]
    ),
    "read": frozenset(
        ["cat", "download", "fetch", "get", "head", "load", "open", "read", "show", "tail", "view"]
    ),
}
_WHOLE: Final = frozenset(["create", "put", "save", "write"])
_PATHS: Final = (
    "path",
    "file_path",
    "filepath",
    "file",
    "filename",
    "target_file",
    "notebook_path",
    "uri",
    "url",
)
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PATCHED: Final = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)(\S+)", re.MULTILINE)
_MOST_ARGS: Final = 120  # characters of a call as text
_MOST_VALUE: Final = 60


class Use(Struct, frozen=True):
    """What a call does to what.

    ``paths`` are those that it names, normalised: one mostly, more for a patch. ``part`` says which part of a
    file a read shows, as JSON; it is empty for all of it.
    """

    kind: UseKind
    paths: tuple[str, ...] = ()
    part: str = ""


class Answered(NamedTuple):
    """A tool result of a view, where it stands, and the call that it answers."""

    at: int
    message: Message
    call: ToolCall


def use_of(call: ToolCall) -> Use:
    """What a call reads, edits, searches, lists or runs; ``other`` where that cannot be told."""
    args = call.args
    kind = _kind(call)
    paths = [args[key] for key in _PATHS if isinstance(args.get(key), str) and args[key]]
    if not paths and kind == "edit":
        paths = [
            path for value in args.values() if isinstance(value, str) for path in _PATCHED.findall(value)
        ]
    if not paths and kind in ("read", "edit"):
        return Use("other")
    named = tuple(dict.fromkeys([_normal(path) for path in paths]))
    return Use(kind, named, _part(args) if kind == "read" else "")


def writes_whole(call: ToolCall) -> bool:
    """Whether an edit puts a whole file there, so that the call itself shows what it holds."""
    verb = next((words for words in _verbs_of(call) if words & _VERBS["edit"]), frozenset())
    return bool(verb & _WHOLE)


def _kind(call: ToolCall) -> UseKind:
    for words in _verbs_of(call):
        for kind, verbs in _VERBS.items():
            if words & verbs:
                return kind
    return "other"


def _verbs_of(call: ToolCall) -> list[frozenset[str]]:
    """The words that say what a call does, the first that say anything count: tools that do many things are told
    ``command="view"``."""
    command = call.args.get("command")
    texts = [command] if isinstance(command, str) and command.replace("_", "").isalpha() else []
    return [frozenset([word.lower() for word in _WORDS.findall(text)]) for text in (*texts, call.name)]


def _normal(path: str) -> str:
    """A path as one name for one file; addresses stay as they are."""
    return path if "://" in path else normpath(path)


def _part(args: Mapping[str, object]) -> str:
    rest = {
        name: value
        for name, value in args.items()
        if name not in _PATHS and name != "command" and value is not None
    }
    return canonical_bytes(rest).decode() if rest else ""


def key_of(call: ToolCall) -> str:
    """The same text for calls of the same tool with the same arguments, whatever their order, and for no
    others."""
    args = call.args_text if call.args_invalid else canonical_bytes(call.args).decode()
    return f"{call.name} {args}"


def call_text(call: ToolCall) -> str:
    """A call on one short line, long arguments cut: ``read_file(path="a.py", offset=200)``."""
    shown = [f"{name}={_clipped(encode_text(value), _MOST_VALUE)}" for name, value in call.args.items()]
    return f"{call.name}({_clipped(', '.join(shown), _MOST_ARGS)})"


def name_of(call: ToolCall) -> str:
    """What stands for a call that is there to be read: its tool, and the argument that says most."""
    said = next((value for value in call.args.values() if isinstance(value, str) and value), "")
    return f"{call.name} {_clipped(said, _MOST_VALUE)}" if said else call.name


def _clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def owners(view: Sequence[AgentMessage]) -> dict[int, tuple[int, ToolCall]]:
    """For the index of each result the index of the reply that it answers, and the call.

    A result belongs to the newest reply before it with a call of its id that has none yet: ids may be used
    again. Results without a call are left out.
    """
    waiting: dict[str, list[tuple[int, ToolCall]]] = {}
    found: dict[int, tuple[int, ToolCall]] = {}
    for at, message in enumerate(view):
        lowered = message.to_message()
        if lowered is None:
            continue
        if lowered.role == "tool":
            calls = waiting.get(lowered.tool_call_id)
            if calls:
                found[at] = calls.pop()
        elif lowered.role == "assistant":
            for call in reversed(lowered.tool_calls):  # within a reply the first call is answered first
                waiting.setdefault(call.id, []).append((at, call))
    return found


def answered(view: Sequence[AgentMessage]) -> list[Answered]:
    """The tool results of a view that are plain messages, in order, each with its call."""
    return [
        Answered(at, message, call)
        for at, (_, call) in owners(view).items()
        if isinstance(message := view[at], Message)
    ]
