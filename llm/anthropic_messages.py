"""The messages of an Anthropic Messages request, from the kernel's form to wire messages.

The wire knows two roles that take turns. Messages of one role that follow each other become one: a reply that was
paused and what it went on with, results of tools and what the user said. A piece is a reply with all that answers
it, because what is sent of a reply depends on that:

- a tool of the server whose result is missing goes back where the server is to run it, which is when nothing or
  results of tools follow, and never before words of the user;
- the last message of a request does not end in white space, and no reply ends in thinking.

Signed thinking goes back to the provider that signed it, whichever of its models is asked; of others it is text.

Read with: ``anthropic_request.py`` (the caller), ``anthropic_blocks.py`` (the way in), ``anthropic_parts.py``.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from unspool.kernel.messages import Content, Document, Image, Message, Opaque, Text, Thinking, ToolCall

from .anthropic_blocks import FIELDS_OF
from .anthropic_parts import call_part, content_parts, result_parts, text_part
from .anthropic_wire import FORMAT, text_of
from .cache_marks import mark
from .encoding import Part, Piece
from .origins import is_of_provider, thinking_as_text, warn_left_out

_SYSTEM: Final = "<system>\n"
_THINKING: Final = ("thinking", "redacted_thinking")
_MARKED: Final = ("text", "image", "document", "tool_use", "tool_result", "server_tool_use")


def cut(
    messages: Sequence[Message], name: str, references: frozenset[str], drop_reasoning: bool
) -> Iterator[Piece]:
    """A reply, or several in a row, with all that answers it; see the top of the file.

    ``name`` is the model's, ``provider/model``; ``references`` are the deferred tools that results may refer to.
    """
    count, said, answers = 0, list[Part](), _Answers()
    for message in messages:
        if message.role == "assistant":
            parts = list(_assistant(message, name, drop_reasoning))
            if all(part["type"] in _THINKING for part in parts):
                parts = []
            if parts and answers:
                yield count, _piece(said, answers)
                count, said, answers = 0, [], _Answers()
            said += parts
        else:
            answers.add(message, references)
        count += 1
    if count:
        yield count, _piece(said, answers)


def mark_last(parts: list[Part], ttl: str) -> bool:
    """Mark the last block of ``parts`` that may bear a mark; whether there was one.

    Thinking may not, and a system reminder is not worth it: it may be gone the next time.
    """
    for index in range(len(parts) - 1, -1, -1):
        content = parts[index]["content"]
        for at in range(len(content) - 1, -1, -1):
            if _can_be_marked(content[at]):
                marked = {**content[at], "cache_control": mark(ttl)}
                parts[index] = {**parts[index], "content": [*content[:at], marked, *content[at + 1 :]]}
                return True
    return False


def _can_be_marked(block: Part) -> bool:
    kind: str = block["type"]
    return kind in _MARKED and not text_of(block.get("text")).startswith(_SYSTEM)


class _Answers:
    """What follows a reply: results of tools come first, and then everything else."""

    def __init__(self) -> None:
        self.results: list[Part] = []
        self.others: list[Part] = []

    def __bool__(self) -> bool:
        return bool(self.results or self.others)

    def add(self, message: Message, references: frozenset[str]) -> None:
        match message.role:
            case "tool":
                result, beside = result_parts(message, references)
                self.results.append(result)
                self.others += beside
            case "user":
                self.others += content_parts(message.content)
            case _:
                if text := message.text.strip():
                    self.others.append(text_part(f"{_SYSTEM}{text}\n</system>"))


def _piece(said: list[Part], answers: _Answers) -> list[Part]:
    wire: list[Part] = []
    if content := _sendable(said, answers):
        wire.append({"role": "assistant", "content": content})
    if answers:
        wire.append({"role": "user", "content": [*answers.results, *answers.others]})
    return wire


def _sendable(said: list[Part], answers: _Answers) -> list[Part]:
    """What of a reply is sent, by what follows it."""
    content = said
    if answers.others and not answers.results:
        done = {text_of(block.get("tool_use_id")) for block in said}
        content = [block for block in said if not _is_served(block) or text_of(block.get("id")) in done]
    while content and content[-1]["type"] in _THINKING:
        content = content[:-1]
    if content and not answers and content[-1]["type"] == "text":
        content = [*content[:-1], {**content[-1], "text": content[-1]["text"].rstrip()}]
    return content


def _is_served(block: Part) -> bool:
    """Whether a block calls a tool that the server runs."""
    kind: str = block["type"]
    return kind != "tool_use" and kind.endswith("_tool_use")


def _assistant(message: Message, name: str, drop_reasoning: bool) -> Iterator[Part]:
    own = is_of_provider(message, FORMAT, name)
    blocks = message.content
    for at, block in enumerate(blocks):
        if type(block) is Opaque:
            yield from _opaque(block)
        elif part := _reply_part(block, own, drop_reasoning):
            yield {**part, **_fields(part["type"], blocks[at + 1 : at + 2])}


def _reply_part(block: Content, own: bool, drop_reasoning: bool) -> Part | None:
    """A block of a reply; None for an empty one, and for what the format does not take from a reply."""
    match block:
        case Text(text) if text.strip():
            return text_part(text)
        case ToolCall():
            return call_part(block)
        case Thinking(redacted=str(data)) if own:
            return {"type": "redacted_thinking", "data": data}
        case Thinking(signature=str(signature)) if own and signature:
            return {"type": "thinking", "thinking": block.text, "signature": signature}
        case Thinking():
            said = thinking_as_text(block, drop=drop_reasoning)
            return text_part(said.text) if said else None
        case Image() | Document():
            warn_left_out(block, FORMAT)
            return None
        case _:
            return None


def _opaque(block: Opaque) -> Iterator[Part]:
    data = block.data
    kind = data.get("type") if isinstance(data, dict) else None
    if block.provider != FORMAT:
        warn_left_out(block, FORMAT)
    elif isinstance(kind, str) and not kind.startswith(FIELDS_OF):
        yield data


def _fields(kind: str, following: Iterable[object]) -> Part:
    """What a block had besides what the kernel models of it."""
    for block in following:
        if type(block) is Opaque and block.provider == FORMAT and isinstance(block.data, dict):
            data: Part = block.data
            if data.get("type") == FIELDS_OF + kind:
                return {key: value for key, value in data.items() if key != "type"}
    return {}
