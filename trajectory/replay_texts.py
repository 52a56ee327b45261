"""What the kernel said to the model in the words of a host whose code is not there.

Each text is taken from the fact that is about to hold it, where the log shows that it was not the kernel's own.

Read with: ``unspool.kernel.texts``, ``replay.py``.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from unspool.kernel.events import MessageEnd, ToolExecEnd
from unspool.kernel.messages import Text
from unspool.kernel.texts import DEFAULT_TEXTS

from .conductor import Conductor
from .recording import Recording

_OUTCOMES: Final[Mapping[str, str]] = {
    "cut_off": "invalid",
    "not_json": "invalid",
    "unchecked": "invalid",
    "invalid": "invalid",
    "unknown_tool": "unknown_tool",
    "disabled": "disabled",
    "denied": "denied",
    "skipped": "skipped",
    "limit_reached": "skipped",
    "not_started": "cancelled",
    "unknown_outcome": "unknown",
    "left_waiting": "interrupted",
}  # which outcome holds which text; the others are in what a tool or a hook of the recording gave
_CAUSES: Final[Mapping[str, str]] = {"go_on": "length_recovery", "step_limit": "step_limit"}


class Told(str):
    """A text that is filled in already."""

    __slots__ = ()

    def format(self, *args: object, **kwargs: object) -> str:
        return str(self)


class RecordedTexts:
    """The texts of a recording, by the names that they have in ``Texts``."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._own = {name: self._is_the_kernels(conductor.recording, name) for name in _OUTCOMES}

    def _is_the_kernels(self, recording: Recording, name: str) -> bool:
        """Whether nothing in a recording speaks against the kernel's own words."""
        pattern = _pattern(getattr(DEFAULT_TEXTS, name))
        ends = [end for end in recording.ends.values() if end.outcome == _OUTCOMES[name]]
        texts = [_text(end) for end in ends if "truncated_from_bytes" not in end.details]
        return not texts or any(map(pattern.fullmatch, texts))

    def __getattr__(self, name: str) -> str:
        own: str = getattr(DEFAULT_TEXTS, name)
        if name in _CAUSES:
            cause = _CAUSES[name]
            return self._next(lambda fact: fact.cause == cause, own)
        if self._own.get(name, True):
            return own
        outcome, position = _OUTCOMES[name], self._conductor.position
        ends = (fact for fact in self._conductor.recording.after(position) if isinstance(fact, ToolExecEnd))
        text = next((_text(end) for end in ends if end.outcome == outcome), own)
        return Told(text) if "{" in own else text

    def _next(self, fits: Callable[[MessageEnd], bool], own: str) -> str:
        """The next message in this run that fits; what the kernel says where there is none."""
        position, recording = self._conductor.position, self._conductor.recording
        last = recording.at(position)
        for fact in recording.rest_of_run(position, last.run_id if last is not None else ""):
            if isinstance(fact, MessageEnd) and fact.message is not None and fits(fact):
                return fact.message.text
        return own


def _text(end: ToolExecEnd) -> str:
    return "".join([block.text for block in end.content if isinstance(block, Text)])


def _pattern(template: str) -> "re.Pattern[str]":
    parts = re.split(r"\{[^}]*\}", template)
    return re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
