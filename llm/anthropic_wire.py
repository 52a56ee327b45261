"""The parts of Anthropic Messages answers that are read, as a msgspec type.

The envelope is typed, what is in it is plain JSON: blocks and deltas of kinds not known here are kept as they
came, so nothing of them may be skipped. Every field is of any type, because new events come without notice.

Read with: ``anthropic_stream.py``, ``anthropic_blocks.py``.
"""

from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

FORMAT: Final = "anthropic-messages"
Fields: TypeAlias = dict[str, Any]
"""A JSON object."""


class Event(Struct, frozen=True, gc=False):
    """One event of a stream."""

    type: Any = None
    index: Any = None
    message: Any = None
    content_block: Any = None
    delta: Any = None
    usage: Any = None
    context_management: Any = None
    error: Any = None


decode_event = msgspec.json.Decoder(Event).decode


def fields_of(value: Any) -> Fields:
    """A JSON object, or an empty one where ``value`` is something else."""
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    """A text, or an empty one where ``value`` is something else."""
    return value if isinstance(value, str) else ""
