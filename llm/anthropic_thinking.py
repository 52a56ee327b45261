"""How much a Claude model is to think, in the words that this model takes.

====================================  ==============================================  =========================
model                                 a level                                         ``off``
====================================  ==============================================  =========================
before 4.6, and names not known       ``enabled`` with a budget in tokens             ``disabled``
4.6                                   ``adaptive`` with an effort, up to ``max``      ``disabled``
4.7 and later                         the same, ``xhigh`` too; no temperature         ``disabled``
Sonnet from 5.5                       the same                                        ``between_tools``
Opus from 5.5, Fable, Mythos          the same                                        nothing: the least effort
====================================  ==============================================  =========================

From 5 on a model thinks where nothing is said. The newest tie their thinking to all that went before it, and
refuse it where that has changed: by a compaction, by reminders that come and go. They are asked to drop it then
(``block_binding``), which needs a beta of its own.

A budget counts towards ``max_tokens``: it is lowered to leave an answer 1024 tokens, and where even the least
budget does not fit, ``max_tokens`` is raised by it. A tool choice that forces a call is not taken together with
thinking: the choice wins, but for models that take none at all (``Model.can_be_forced``).

Read with: ``anthropic_request.py`` (the caller), ``CallOptions.thinking``.
"""

import re
from typing import Final, NamedTuple

from unspool.kernel.ports import CallOptions

from .anthropic_dialect import AnthropicDialect
from .anthropic_wire import Fields

_BUDGETS: Final = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384}  # above: as high
_LEAST: Final = 1024  # of a budget, and of what it leaves for the answer
_NAME: Final = re.compile(r"claude-([a-z]+)-(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
_BY_EFFORT, _NO_TEMPERATURE, _BY_ITSELF, _NEWEST = (4, 6), (4, 7), (5, 0), (5, 5)
_ALWAYS_THINK: Final = ("fable", "mythos")
_DROP: Final = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}


class Model(NamedTuple):
    """What a model's name tells: Opus, …, and which."""

    family: str
    version: tuple[int, int]

    @property
    def can_be_forced(self) -> bool:
        """Whether it takes a tool choice that forces a call."""
        if self.family in _ALWAYS_THINK:
            return False
        return not (self.family in ("opus", "sonnet") and self.version >= _NEWEST)

    @property
    def binds_thinking(self) -> bool:
        """Whether it refuses its own thinking where something before it has changed."""
        return self.version >= ((5, 1) if self.family in _ALWAYS_THINK else _NEWEST)


class Plan(NamedTuple):
    """The parts of a request that depend on thinking."""

    max_tokens: int
    thinking: Fields | None = None
    effort: str | None = None
    temperature: float | None = None

    @property
    def budgeted(self) -> bool:
        """Whether it thinks by budget, between calls only when asked to (the interleaved-thinking beta)."""
        return self.thinking is not None and self.thinking["type"] == "enabled"

    @property
    def bound(self) -> bool:
        """Whether it says what is to become of thinking that does not fit any more (a beta of its own)."""
        return self.thinking is not None and "block_binding" in self.thinking


def plan(options: CallOptions, model: str, dialect: AnthropicDialect) -> Plan:
    """What is sent of thinking, the output limit and the temperature."""
    known = model_of(model)
    limit = options.max_tokens or dialect.max_tokens
    adaptive = known.version >= _BY_EFFORT if dialect.adaptive is None else dialect.adaptive
    temperature = None if known.version >= _NO_TEMPERATURE else options.temperature
    forced = known.can_be_forced and options.tool_choice not in (None, "auto", "none")
    level = options.thinking
    if level == "off":
        thinking, effort = _off(known)
        return Plan(limit, thinking, effort, temperature)
    if level is None and options.thinking_budget is None:
        return Plan(limit, _unasked(known, forced), temperature=temperature)
    if forced:
        effort = _effort(level, known) if adaptive else None
        if known.version >= _BY_ITSELF and effort in ("xhigh", "max"):
            effort = "high"  # the most without thinking
        return Plan(limit, _unasked(known, forced), effort, temperature)
    if adaptive:
        thinking = {"type": "adaptive", "display": "summarized", **_binding(known)}
        return Plan(limit, thinking, _effort(level, known))
    return _budgeted(options, limit)


def model_of(name: str) -> Model:
    """Family and version out of a model's name, wherever it is hosted; version 0 where it tells none."""
    if found := _NAME.search(name):
        return Model(found[1], (int(found[2]), int(found[3] or 0)))
    return Model("mythos", _BY_ITSELF) if "claude-mythos" in name else Model("", (0, 0))  # a preview


def _unasked(known: Model, forced: bool) -> Fields | None:
    """What is said of thinking where nothing is asked for, or where a forced call rules it out."""
    if forced:
        return {"type": "disabled"} if known.version >= _BY_ITSELF else None
    return {"type": "adaptive", **_binding(known)} if known.binds_thinking else None


def _binding(known: Model) -> Fields:
    return _DROP if known.binds_thinking else {}


def _off(known: Model) -> tuple[Fields | None, str | None]:
    if known.family in _ALWAYS_THINK or (known.family == "opus" and known.version >= _NEWEST):
        return _unasked(known, forced=False), "low"
    if known.family == "sonnet" and known.version >= _NEWEST:
        return {"type": "between_tools"}, None
    return {"type": "disabled"}, None


def _effort(level: str | None, known: Model) -> str | None:
    match level:
        case "minimal":
            return "low"
        case "xhigh" if known.version < _NO_TEMPERATURE:
            return "max"
        case _:
            return level


def _budgeted(options: CallOptions, limit: int) -> Plan:
    asked = options.thinking_budget or _BUDGETS.get(options.thinking or "", _BUDGETS["high"])
    budget = max(_LEAST, min(asked, limit - _LEAST))
    limit = limit if limit > budget else limit + budget
    return Plan(limit, {"type": "enabled", "budget_tokens": budget})
