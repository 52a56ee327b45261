"""The options of ``HandoffAgent`` beside those of ``Agent``.

Read with: ``handoffs.py``.
"""

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any, NamedTuple, TypeAlias

from unspool.kernel.agent_options import AgentOptions
from unspool.kernel.events import Handoff

from .handoff_filters import InputFilter

OnHandoff: TypeAlias = Callable[[Handoff], None]
"""Is told each handoff once it is recorded, as a listener of the agent is."""
_OF_DEFINITIONS = ("name", "system")


class HandoffOptions(AgentOptions, total=False):
    """Options of a ``HandoffAgent``; see there, and ``AgentOptions`` for the others."""

    sticky: bool
    hand_back: bool
    max_handoffs: int
    input_filter: InputFilter | Mapping[str, InputFilter] | None
    on_handoff: OnHandoff | None


class Choices(NamedTuple):
    """The options that are about handoffs."""

    sticky: bool = True
    hand_back: bool = True
    max_handoffs: int = 10
    input_filter: InputFilter | Mapping[str, InputFilter] | None = None
    on_handoff: OnHandoff | None = None


def choices_of(options: Mapping[str, Any]) -> tuple[Choices, dict[str, Any]]:
    """The choices, and the options that are an agent's.

    Raises:
        TypeError, ValueError: one cannot be used.
    """
    check_names(options)
    choices = Choices(**{name: options[name] for name in Choices._fields if name in options})
    most, tell = choices.max_handoffs, choices.on_handoff
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ValueError(f"max_handoffs: must be a whole number above 0 ({most!r})")
    if tell is not None and (not callable(tell) or iscoroutinefunction(tell)):
        raise TypeError("on_handoff: is called, not awaited; give a plain function")
    return choices, {name: value for name, value in options.items() if name not in Choices._fields}


def check_names(given: Mapping[str, Any]) -> None:
    """Refuse what the agents' definitions say.

    Raises:
        TypeError: an agent's name or system prompt is given.
    """
    theirs = [name for name in _OF_DEFINITIONS if name in given]
    if theirs:
        raise TypeError(f"handoffs: the agents' definitions say it: {', '.join(theirs)}")
