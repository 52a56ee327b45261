"""A conversation as text, for whoever sums it up.

Each message is an entry under a heading in brackets. What a tool gave is shortened to its beginning and its end,
because it can be had again; what people and the model said is not, unless a limit is asked for. Whatever is left out is
counted where it was, in words that differ for people and for tools. The same messages give the same text.

Read with: ``summarizing.py`` (how much detail there is room for), ``summary_text.py`` (what is asked of it).
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from unspool.kernel.json_edge import encode_text
from unspool.kernel.messages import (
    AgentMessage,
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolReference,
)

from .marks import kind_of

_HEAD: Final = 0.7  # of what is kept of a text; the rest is its end
_HEADINGS: Final = {"user": "User", "assistant": "Assistant", "system": "System"}


class Detail(Struct, frozen=True, kw_only=True, gc=False):
    """How many characters are kept of a result, of an argument, and of what somebody said; 0 keeps all."""

    result_chars: int = 2000
    arg_chars: int = 500
    text_chars: int = 0


def serialize(
    messages: Iterable[AgentMessage], *, result_chars: int = 2000, arg_chars: int = 500, text_chars: int = 0
) -> str:
    """The conversation as one text; 0 for a number of characters keeps all."""
    detail = Detail(result_chars=result_chars, arg_chars=arg_chars, text_chars=text_chars)
    return "\n\n".join(entries(messages, detail))


def entries(
    messages: Iterable[AgentMessage], detail: Detail, *, current: AgentMessage | None = None
) -> list[str]:
    """An entry for each message that a model is sent; ``current`` is the request that is headed as such."""
    made: list[str] = []
    names: dict[str, str] = {}
    for message in messages:
        lowered = message.to_message()
        if lowered is None:
            continue
        names.update([(call.id, call.name) for call in lowered.tool_calls])
        if lowered.role == "tool":
            made.append(_result(lowered, kind_of(message), names, detail))
        else:
            heading = "User, current request" if message is current else _HEADINGS[lowered.role]
            made += _said(lowered, heading, detail)
    return made


def shortened(text: str, limit: int, what: str = "output") -> str:
    """``text`` itself up to ``limit`` characters (0: all), else its beginning and its end, and between them how much of what
    is missing."""
    if not limit or len(text) <= limit:
        return text
    head = int(limit * _HEAD)
    tail = text[len(text) - (limit - head) :]
    return f"{text[:head]}\n[… {len(text) - limit:,} characters of {what} left out …]\n{tail}"


def text_of(message: Message) -> str:
    """What a message says without calls and reasoning; images and documents by type and size."""
    parts = [_block(block) for block in message.content]
    return "\n".join([part for part in parts if part.strip()])


def call_line(call: ToolCall, arg_chars: int) -> str:
    """A call with its arguments, in the order of their names."""
    if call.args_invalid:
        text = call.args_text or ""
        return f"{call.name}(arguments that do not parse: {shortened(text, arg_chars, 'arguments')})"
    args = [
        f"{name}={shortened(encode_text(value), arg_chars, 'an argument')}"
        for name, value in sorted(call.args.items())
    ]
    return f"{call.name}({', '.join(args)})"


def _said(message: Message, heading: str, detail: Detail) -> list[str]:
    who = "the user's message" if message.role == "user" else "the message"
    made: list[str] = []
    if thought := message.thinking.strip():
        made.append(f"[{heading}, thinking]\n{shortened(thought, detail.result_chars, 'reasoning')}")
    if text := text_of(message):
        made.append(f"[{heading}]\n{shortened(text, detail.text_chars, who)}")
    if message.has_tool_calls:
        lines = [call_line(call, detail.arg_chars) for call in message.tool_calls]
        made.append(f"[{heading}, calls]\n" + "\n".join(lines))
    return ["\n".join(made)] if made else []


def _result(message: Message, kind: str, names: dict[str, str], detail: Detail) -> str:
    name = message.tool_name or names.get(message.tool_call_id, "a call")
    heading = f"[Result of {name}{', error' if message.is_error else ''}{f', {kind}' if kind else ''}]"
    return f"{heading}\n{shortened(text_of(message), detail.result_chars)}"


def _block(block: object) -> str:
    match block:
        case Text(text):
            return text
        case Thinking() | ToolCall():
            return ""
        case Image():
            return f"[image: {_source(block.mime_type, block.data, block.url)}]"
        case Document():
            name = f"{block.name}, " if block.name else ""
            return f"[document: {name}{_source(block.mime_type, block.data, block.url)}]"
        case ToolReference(name):
            return f"[the tool {name} became available]"
        case Opaque(data={"type": "compaction", "content": str(said)}):
            return f"[summed up by {block.provider} earlier]: {said}"
        case Opaque():
            return f"[something only {block.provider} can read]"
    raise TypeError(f"a block of no known type: {type(block).__name__}")


def _source(mime_type: str, data: str | None, url: str | None) -> str:
    kind = mime_type or "type unknown"
    if data is not None:
        return f"{kind}, {len(data) * 3 / 4 / 1000:,.0f} KB"
    return kind if not url or url.startswith("data:") else f"{kind}, {url[:200]}"


def images_of(messages: Sequence[AgentMessage]) -> list[Image]:
    """The images that users and tools have shown, in order."""
    lowered = [message.to_message() for message in messages]
    return [block for message in lowered if message for block in message.content if type(block) is Image]
