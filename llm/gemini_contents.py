"""The messages of a request as Gemini's contents, which take turns: ``user``, ``model``, ``user``, …

A piece is what one turn of the conversation is: what the model said, and all that follows up to its next word.
What the format cannot take is put where it can be read, never sent broken:

- messages of one role that follow each other are one content; one of nothing is not sent;
- results stand in the order of their calls, first in their content, since without ids that is what pairs them;
- a call's id goes back only to the model that gave it; ids of our own and of others stay here;
- a signature goes back to the model that made it, on the same part. From generation 3 on the first call of a
  reply must have one: one that has none gets the placeholder that Google documents for calls of other models;
- other fields of a part go back to that model alone, too: Vertex refuses some that the Gemini API knows;
- a name that the format does not take is made to fit, alike in call and result;
- files are as ``gemini_files.py`` says; images of results stand in the result from generation 3 on, and before
  that after the last result;
- what the system says in the middle is a text of the user's role between tags.

Read with: ``gemini_request.py`` (the caller), ``gemini_files.py``, ``encoding.py``, ``origins.py``,
``tests/llm/test_gemini_contents.py`` and ``test_gemini_replies.py`` (the tables).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from unspool.kernel.messages import (
    Content,
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolReference,
)

from .encoding import Part, Piece
from .free_form import sent_args
from .gemini_calls import is_given
from .gemini_files import file_part
from .gemini_wire import FIELDS_OF_PART, FORMAT
from .origins import is_of_format, is_of_model, origin_of, thinking_as_text, warn_left_out
from .wire_ids import wire_name

SKIP_SIGNATURE: Final = "skip_thought_signature_validator"
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2}(?:==)?|[A-Za-z0-9+/_-]{3}=?)?")
_NAME: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_IN_RESULTS: Final = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})


@dataclass(frozen=True, slots=True)
class Target:
    """Whom contents are for: ``name`` is ``provider/model``, ``generation`` 0 where it is no Gemini."""

    name: str
    generation: float = 0.0
    drop_reasoning: bool = False


class _SentCall(NamedTuple):
    """What a result needs to know of its call: its place, its name, and its id as it was sent."""

    place: int
    name: str
    id: str


def cut(messages: Sequence[Message], target: Target) -> Iterator[Piece]:
    """The pieces of a conversation; see the top of the file."""
    turn = _Turn(target)
    for message in messages:
        if message.role != "assistant":
            turn.hear(message)
            continue
        parts = reply_parts(message, target)
        if parts and turn.is_answered:
            yield turn.piece()
            turn = _Turn(target)
        turn.say(message, parts)
    if turn.count:
        yield turn.piece()


class _Turn:
    """What the model said, and what it was told after that."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._said: list[Part] = []
        self._heard: list[Part] = []
        self._calls: dict[str, _SentCall] = {}
        self._results: list[tuple[int, Part]] = []  # that follow each other, with the place of their call
        self._attached: list[Part] = []  # what those results could not hold
        self.count = 0

    @property
    def is_answered(self) -> bool:
        return bool(self._heard or self._results)

    def say(self, message: Message, parts: list[Part]) -> None:
        self.count += 1
        self._said += parts
        for call in message.tool_calls:
            self._calls[call.id] = _SentCall(
                len(self._calls), wire_name(call.name, _NAME), _sent_id(call, message, self._target)
            )

    def hear(self, message: Message) -> None:
        self.count += 1
        if message.role == "tool":
            self._result(message)
        else:
            self._settle()
            self._heard += _told(message)

    def piece(self) -> Piece:
        self._settle()
        both = (("model", self._said), ("user", self._heard))
        return self.count, [{"role": role, "parts": parts} for role, parts in both if parts]

    def _settle(self) -> None:
        self._results.sort(key=lambda result: result[0])
        self._heard += [part for _, part in self._results]
        self._heard += self._attached
        self._results, self._attached = [], []

    def _result(self, message: Message) -> None:
        unknown = _SentCall(len(self._calls), wire_name(message.tool_name, _NAME), "")
        call = self._calls.get(message.tool_call_id, unknown)
        parts = [part for block in message.content if (part := _part(block)) is not None]
        texts = [part["text"] for part in parts if "text" in part]
        files = [part for part in parts if "text" not in part]
        nested = [part for part in files if self._target.generation >= 3 and _nests(part)]
        outside = [part for part in files if part not in nested]
        if outside:
            texts.append("[attached below]")
            self._attached += [{"text": f"Attached to the result of {call.name}:"}, *outside]
        text = "\n".join(texts) or ("[attached]" if nested else "(no output)")
        answer: Part = {"name": call.name}
        if call.id:
            answer["id"] = call.id
        answer["response"] = {"error" if message.is_error else "output": text}
        if nested:
            answer["parts"] = nested
        self._results.append((call.place, {"functionResponse": answer}))


def _nests(part: Part) -> bool:
    """Whether a part may stand inside of a result."""
    return part.get("inlineData", {}).get("mimeType") in _IN_RESULTS


def reply_parts(message: Message, target: Target) -> list[Part]:
    """A reply as parts; empty where nothing of it is sent."""
    own = is_of_model(message, FORMAT, target.name)
    parts: list[Part] = []
    before: Part | None = None  # the part of the block before
    called = False
    for block in message.content:
        part: Part | None
        if type(block) is ToolCall:
            part = _call(block, message, target, own=own, first=not called)
            called = True
        elif type(block) is Thinking:
            part = _thought(block, target, own=own)
        elif type(block) is Opaque and block.provider == FORMAT and is_of_format(message, FORMAT):
            signed = own and not target.drop_reasoning
            if (fields := _fields(block.data, before)) is not None:
                if own and before is not None:
                    before.update(fields if signed else _unsigned(fields))
                continue
            part = _opaque(block.data, own=signed)
        elif type(block) is Opaque:
            warn_left_out(block, FORMAT)
            part = None
        else:
            part = _part(block)
        if part is not None:
            parts.append(part)
        before = part
    return parts


def _call(call: ToolCall, message: Message, target: Target, *, own: bool, first: bool) -> Part:
    function: Part = {"name": wire_name(call.name, _NAME), "args": sent_args(call)}
    if id := _sent_id(call, message, target):
        function["id"] = id
    part: Part = {"functionCall": function}
    if signature := _valid(call.thought_signature if own else None):
        part["thoughtSignature"] = signature
    elif first and target.generation >= 3:
        part["thoughtSignature"] = SKIP_SIGNATURE
    return part


def _sent_id(call: ToolCall, message: Message, target: Target) -> str:
    given = message.origin == origin_of(FORMAT, target.name) and is_given(call.id)
    return call.id if given else ""


def _thought(block: Thinking, target: Target, *, own: bool) -> Part | None:
    if not own:
        said = thinking_as_text(block, drop=target.drop_reasoning)
        return None if said is None else {"text": said.text}
    signature = _valid(block.signature)
    if target.drop_reasoning or not (block.text or signature):
        return None
    part: Part = {"text": block.text, "thought": True}
    return {**part, "thoughtSignature": signature} if signature else part


def _fields(data: Any, before: Part | None) -> Part | None:
    """Fields of the part before, where an opaque block is that; a signature alone is a part where it signs none."""
    if not isinstance(data, dict):
        return None
    if data.get("type") == FIELDS_OF_PART:
        return {key: value for key, value in data.items() if key != "type"}
    joins = data.keys() == {"thoughtSignature"} and before is not None and "thoughtSignature" not in before
    return data if joins else None


def _opaque(data: Any, *, own: bool) -> Part | None:
    """A part that is kept as it is, but a signature only for its own model."""
    if not isinstance(data, dict):
        return None
    if own:
        return {"text": "", **data} if data.keys() == {"thoughtSignature"} else dict(data)
    rest = _unsigned(data)
    return None if rest.get("thought") or not rest or rest == {"text": ""} else rest


def _unsigned(data: Part) -> Part:
    return {key: value for key, value in data.items() if key != "thoughtSignature"}


def _valid(signature: str | None) -> str:
    """A signature that the server can read: anything but base64 is refused."""
    return signature if signature and _BASE64.fullmatch(signature) else ""


def _told(message: Message) -> Iterator[Part]:
    """What a message that is not the model's says."""
    if message.role == "system":
        if message.text.strip():
            yield {"text": f"<system>\n{message.text.strip()}\n</system>"}
        return
    for block in message.content:
        if (part := _part(block)) is not None:
            yield part


def _part(block: Content) -> Part | None:
    """A block as a part; None for one that is empty or that the format does not know."""
    match block:
        case Text(text) if text.strip():
            return {"text": text}
        case Image() | Document():
            return file_part(block)
        case ToolReference(name):
            return {"text": f"tool {name!r} is now available"}
        case Opaque(provider=provider, data=dict(data)) if provider == FORMAT:
            return data
        case Opaque():
            warn_left_out(block, FORMAT)
            return None
        case _:
            return None
