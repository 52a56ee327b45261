"""The parts of chat/completions answers that are read, as msgspec types.

Every field is optional, because in practice every field is missing somewhere; unknown fields are
skipped without being built. Field types are as wide as servers were seen to be.

Read with: ``openai_chat_stream.py``, ``openai_chat_calls.py``.
"""

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

UsageFields: TypeAlias = dict[str, Any]


class FunctionPart(Struct, frozen=True, gc=False):
    """Name and argument text of a call, or pieces of them; some servers send an object at once."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CustomPart(Struct, frozen=True, gc=False):
    """The same of a free-form tool, whose input is text and not JSON."""

    name: str | None = None
    input: str | None = None


class CallPart(Struct, frozen=True, gc=False):
    """A call, or a piece of one."""

    index: int | None = None
    id: str | None = None
    function: FunctionPart | None = None
    custom: CustomPart | None = None


class Delta(Struct, frozen=True, gc=False):
    """What a chunk adds (``delta``), or the whole answer (``message``).

    ``content`` is an object where a server parsed structured output itself, a list of parts in
    some dialects.
    """

    content: str | list[Any] | dict[str, Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    refusal: str | None = None
    tool_calls: list[CallPart] | None = None


class Choice(Struct, frozen=True, gc=False):
    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None


class GroqExtra(Struct, frozen=True, gc=False):
    usage: UsageFields | None = None


class Chunk(Struct, frozen=True, gc=False):
    """One event of a stream, or a whole answer."""

    choices: list[Choice] | None = None
    usage: UsageFields | None = None
    error: Any = None
    id: str | None = None
    model: str | None = None
    x_groq: GroqExtra | None = None


decode_chunk = msgspec.json.Decoder(Chunk).decode
