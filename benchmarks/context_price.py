"""What the requests of a run cost, with a provider that caches the longest prefix it was sent in the call before.

Read with: ``context_demands.py`` (the other half of the comparison), ``context_summary.py`` (the counter).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from context_summary import message_tokens, tokens

from unspool.kernel import AgentMessage, ToolSpec


class Prices(NamedTuple):
    """US dollars for a million tokens."""

    input: float = 3.0
    cache_read: float = 0.3
    cache_write: float = 3.75
    output: float = 15.0


class SideCall(NamedTuple):
    """A model call that a manager made for itself, a summary for instance: all its tokens, and those cached."""

    input: int
    output: int
    cached: int = 0


class Bill(NamedTuple):
    """A run in figures. Tokens are those of prompts, the system prompt and the tools in each of them.

    ``rewrites``: requests that do not extend the one before. ``overflows``: requests larger than the window.
    ``cached_ratio``: of the prompt tokens after the first request.
    """

    requests: int
    tokens: int
    cached: int
    peak: int
    rewrites: int
    overflows: int
    side_calls: int
    cost: float
    cached_ratio: float


def count(message: AgentMessage) -> int:
    """Tokens of a message as a model is sent it."""
    lowered = message.to_message()
    if lowered is None:
        return 0
    return message_tokens(lowered.text, [(call.name, call.arguments_text) for call in lowered.tool_calls])


class Cached:
    """A counter that counts each message object once. It keeps them, as their ids are its keys."""

    def __init__(self, count: Callable[[AgentMessage], int] = count) -> None:
        self._count = count
        self._known: dict[int, tuple[AgentMessage, int]] = {}

    def __call__(self, message: AgentMessage) -> int:
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = (message, self._count(message))
        return known[1]


def price(
    views: Iterable[Sequence[AgentMessage]],
    replies: Iterable[AgentMessage],
    *,
    fixed: int,
    window: int,
    count: Callable[[AgentMessage], int],
    side_calls: Sequence[SideCall] = (),
    prices: Prices = Prices(),  # noqa: B008 (immutable)
) -> Bill:
    """The bill of a run: ``views`` are its requests, ``replies`` their answers.

    ``fixed`` are the tokens of the system prompt and the tools. What is not read from the cache is written to it.
    """
    before: Sequence[AgentMessage] = ()
    requests = total = cached = first = peak = rewrites = overflows = 0
    output = 0
    for view, reply in zip(views, replies, strict=False):  # a run that ended early has fewer views
        same = _common(before, view)
        size = fixed + sum([count(message) for message in view])
        hit = fixed + sum([count(message) for message in view[:same]]) if requests else 0
        first = first or size
        requests, total, cached = requests + 1, total + size, cached + hit
        peak, output = max(peak, size), output + count(reply)
        rewrites += same < len(before)
        overflows += size > window
        before = view
    aside = sum([call.input - call.cached for call in side_calls])
    cost = (
        cached * prices.cache_read
        + (total - cached) * prices.cache_write
        + aside * prices.input
        + sum([call.cached for call in side_calls]) * prices.cache_read
        + (output + sum([call.output for call in side_calls])) * prices.output
    ) / 1e6
    ratio = cached / (total - first) if total > first else 1.0
    return Bill(requests, total, cached, peak, rewrites, overflows, len(side_calls), cost, ratio)


def _common(before: Sequence[AgentMessage], view: Sequence[AgentMessage]) -> int:
    """How many messages two views begin with in common."""
    number = 0
    for old, new in zip(before, view, strict=False):
        if old is not new and old != new:
            break
        number += 1
    return number


def fixed_tokens(system: str, tools: Sequence[ToolSpec]) -> int:
    """Tokens of a system prompt and of tools."""
    return tokens(system) + sum([tokens(f"{tool.name} {tool.description} {tool.schema}") for tool in tools])
