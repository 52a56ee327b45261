"""The transcript as the engine last saw it, what is shown of it, and the tokens of both; kept at the cost of what is new.

Read with: ``engine.py``, ``unspool.kernel.transcript``.
"""

from collections.abc import Sequence

from unspool.kernel.messages import AgentMessage
from unspool.kernel.transcript import Transcript

from .tokens import MessageTokens


class Followed:
    """A transcript that grows, and the view of it that is shown: all of it, or what was put in place of a part."""

    def __init__(self, tokens: MessageTokens) -> None:
        self.tokens = tokens
        self._forget()

    def _forget(self) -> None:
        self.transcript: Transcript[AgentMessage] = Transcript()
        self.shown: Transcript[AgentMessage] = self.transcript
        self.baseline = 0  # tokens of the transcript
        self.projected = 0  # tokens of what is shown
        self.bound = False  # whether what is shown is good for one model alone
        self.turns = 0  # replies shown

    @property
    def whole(self) -> bool:
        """Whether all of the transcript is shown as it is."""
        return self.shown is self.transcript

    def follow(self, view: Sequence[AgentMessage]) -> Sequence[AgentMessage] | None:
        """Take in a transcript: what is new in it; None where it does not go on from the last one."""
        known, given = len(self.transcript), view if isinstance(view, Transcript) else Transcript(view)
        goes_on = given.extends(self.transcript) or (
            len(given) >= known and all(a is b for a, b in zip(self.transcript, given, strict=False))
        )
        if known and not goes_on:
            self._forget()
            self._take(given, given.since(0))
            self.tokens.retain(given)
            return None
        new = given.since(known)
        self._take(given, new)
        return new

    def _take(self, given: Transcript[AgentMessage], new: Sequence[AgentMessage]) -> None:
        count = self.tokens.total(new)
        self.shown = given if self.whole else self.shown.extend(new)
        self.transcript = given
        self.baseline += count
        self.projected += count
        self.turns += _replies(new)

    def show(self, messages: Sequence[AgentMessage], *, bound: bool = False) -> None:
        """From now on show these messages for those of the transcript so far, and what comes after them.

        ``bound``: to this model alone; another is shown everything (``recount``).
        """
        self.bound = bound
        self.shown = Transcript(messages)
        self.projected = self.tokens.total(messages)
        self.turns = _replies(messages)

    def recount(self, tokens: MessageTokens) -> None:
        """Count everything anew, for another model."""
        if self.bound:
            self.shown, self.bound, self.turns = self.transcript, False, _replies(self.transcript)
        self.tokens = tokens
        self.baseline = tokens.total(self.transcript)
        self.projected = self.baseline if self.whole else tokens.total(self.shown)


def _replies(messages: Sequence[AgentMessage]) -> int:
    return sum([message.role == "assistant" for message in messages])
