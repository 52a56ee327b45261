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
    arguments: Any = None


class CustomPart(Struct, frozen=True, gc=False):
    """The same of a free-form tool, whose input is text and not JSON."""

    name: str | None = None
    input: str | None = None


class CallPart(Struct, frozen=True, gc=False):
    """A call, or a piece of one."""

    index: int | str | None = None
    id: str | int | None = None
    function: FunctionPart | None = None
    custom: CustomPart | None = None
    extra_content: Any = None


class Delta(Struct, frozen=True, gc=False):
    """What a chunk adds (``delta``), or the whole answer (``message``).

    ``content`` is an object where a server parsed structured output itself, a list of parts in
    some dialects.
    """

    content: str | list[Any] | dict[str, Any] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_text: Any = None
    refusal: Any = None
    reasoning_details: Any = None
    annotations: Any = None
    audio: Any = None
    images: Any = None
    tool_calls: list[CallPart] | None = None
    function_call: Any = None
    executed_tools: Any = None
    context: Any = None


class Choice(Struct, frozen=True, gc=False):
    index: int | str | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    error: Any = None
    logprobs: Any = None


class GroqExtra(Struct, frozen=True, gc=False):
    usage: Any = None
    error: Any = None


class Chunk(Struct, frozen=True, gc=False):
    """One event of a stream after the first."""

    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: GroqExtra | None = None
    citations: Any = None
    search_results: Any = None


class FirstChunk(Chunk, frozen=True, gc=False):
    """The first event, or a whole answer; each event repeats what it says besides."""

    id: str | int | None = None
    model: str | None = None


decode_chunk = msgspec.json.Decoder(Chunk).decode
decode_first = msgspec.json.Decoder(FirstChunk).decode
