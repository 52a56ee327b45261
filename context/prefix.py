"""What a request has in common with the one before it, which is what a provider's cache holds; and why it has no more.

Read with: ``metrics.py`` (the caller), ``unspool.kernel.lowering`` (what the model sees of a message).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from unspool.kernel.events import CompactionStep
from unspool.kernel.messages import AgentMessage
from unspool.kernel.transcript import Transcript

from .marks import kind_of

_encode = msgspec.json.Encoder().encode


class PrefixBreak(Struct, frozen=True, kw_only=True):
    """Request ``call`` (from 1) does not go on from the one before it.

    ``cause``: system, tools, options or messages ``changed``, or ``rewrite by`` whom. ``kept`` messages are the same
    from the beginning; ``lost`` tokens of the request before are no longer in the cached prefix.
    """

    call: int
    cause: str
    kept: int
    lost: int


class Shared(NamedTuple):
    """How many messages two requests share from their beginning, and whether they are the very same objects."""

    kept: int
    identical: bool


def shared(before: Sequence[AgentMessage], after: Sequence[AgentMessage]) -> Shared:
    """What two requests share; found at no cost where one is known to extend the other."""
    if isinstance(before, Transcript) and isinstance(after, Transcript) and after.extends(before):
        return Shared(len(before), True)
    kept, identical = 0, True
    for left, right in zip(before, after, strict=False):
        if left is not right:
            if not _same(left, right):
                break
            identical = False
        kept += 1
    return Shared(kept, identical)


def _same(left: AgentMessage, right: AgentMessage) -> bool:
    """Whether a model sees the same of both."""
    a, b = left.to_message(), right.to_message()
    if a is None or b is None:
        return a is b
    seen_a = (a.role, a.content, a.tool_call_id, a.is_error)
    seen_b = (b.role, b.content, b.tool_call_id, b.is_error)
    return seen_a == seen_b and _encode(seen_a) == _encode(seen_b)  # 1 and 1.0 are equal, not the same text


def cause_of(changed: str, steps: Sequence[CompactionStep], added: Iterable[AgentMessage]) -> str:
    """Why a prefix broke: ``changed`` names the part besides the messages that did, if one did."""
    if changed:
        return f"{changed} changed"
    by = [step.strategy for step in steps] or sorted({kind for each in added if (kind := kind_of(each))})
    return f"rewrite by {', '.join(dict.fromkeys(by))}" if by else "messages changed"
