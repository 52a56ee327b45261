"""The parts of generateContent answers that are read, as msgspec types.

Every field is optional and as wide as servers were seen to be: reasons are numbers where enums were asked for
as such, and gateways leave out what they do not know. Parts stay JSON objects, since one of a kind that we do
not know is kept as it is; ``CallPart`` is the part of them that needs a closer look.

Read with: ``gemini_stream.py``, ``gemini_args.py``.
"""

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

FORMAT: Final = "gemini"
FIELDS_OF_PART: Final = "fields_of_part"  # the ``type`` of an opaque block that belongs to the part before it
UsageFields: TypeAlias = dict[str, Any]


class PartialArg(Struct, frozen=True, gc=False, rename="camel"):
    """A value, or a piece of a text, at a place in the arguments of a call."""

    json_path: str = ""
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None
    will_continue: bool | None = None


class CallPart(Struct, frozen=True, gc=False, rename="camel"):
    """A ``functionCall``, or a piece of one; some gateways send the arguments as text."""

    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | str | None = None
    partial_args: list[PartialArg] | None = None
    will_continue: bool | None = None


class Content(Struct, frozen=True, gc=False):
    parts: list[dict[str, Any]] | None = None


class Candidate(Struct, frozen=True, gc=False, rename="camel"):
    """One of the answers; ``index`` is missing where there is only one."""

    index: int | None = None
    content: Content | None = None
    finish_reason: str | int | None = None
    finish_message: str | None = None
    grounding_metadata: Any = None
    url_context_metadata: Any = None
    citation_metadata: Any = None
    safety_ratings: Any = None
    avg_logprobs: Any = None
    logprobs_result: Any = None


class PromptFeedback(Struct, frozen=True, gc=False, rename="camel"):
    block_reason: str | int | None = None
    block_reason_message: str | None = None
    safety_ratings: Any = None


class Chunk(Struct, frozen=True, gc=False, rename="camel"):
    """One event of a stream, or a whole answer."""

    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: UsageFields | None = None
    error: Any = None
    model_version: str | None = None
    response_id: str | None = None


decode_chunk = msgspec.json.Decoder(Chunk).decode
decode_chunks = msgspec.json.Decoder(list[Chunk]).decode
