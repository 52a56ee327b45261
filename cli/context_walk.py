"""The facts of a log, and what they mean for context managers that go through it once more.

Read with: ``context_replay.py`` (the caller), ``context_projecting.py``, ``context_recorded.py``.
"""

from unspool.kernel.events import (
    AgentEnd,
    AgentStart,
    ConfigChanged,
    ContextCompacted,
    ContextCompacting,
    ContextProjected,
    Fact,
    MessageEnd,
)
from unspool.kernel.messages import Usage
from unspool.kernel.ports import ContextManager
from unspool.kernel.state import AgentState, apply
from unspool.trajectory.written import committed_by

from .context_projecting import Asked, Follower, Ledger, Made, Rewritten
from .context_recorded import RecordedManager
from .context_recording import BY_HOSTS, Recording, is_managers
from .context_scope import ReplayScope
from .context_table import Prices, Row


class Walk:
    """Goes through the facts of a log once, with all managers."""

    def __init__(
        self,
        recording: Recording,
        managers: dict[str, ContextManager],
        own: int,
        window: int,
        *,
        known: bool,
    ) -> None:
        self.recorded = RecordedManager(recording, own)
        self.others = {
            name: Follower(manager, ReplayScope(recording, window), exact=False)
            for name, manager in managers.items()
        }
        self._ledgers = {name: Ledger(name, recording, window) for name in managers}
        self._recording = recording
        self._known = known
        self._state = AgentState()
        self._instructions = ""
        self._rewrites: list[Rewritten] = []  # in the log since the last request

    async def go(self) -> None:
        for fact in self._recording.facts:
            before, self._state = self._state, apply(self._state, fact)
            await self._see(fact, before)

    def rows(self, prices: Prices | None) -> list[Row]:
        """What it comes to, the recorded manager first."""
        asked = self.recorded.asked if self._known else asked_in(self._recording)
        rows = [Row.of(self.recorded.ledger, self._recording, asked, prices)]
        for name, each in self.others.items():
            rows.append(Row.of(self._ledgers[name], self._recording, each.asked, prices))
        return rows

    @property
    def _followers(self) -> list[Follower]:
        return [*self.recorded.followers, *self.others.values()]

    async def _see(self, fact: Fact, before: AgentState) -> None:
        """What a fact of the log means for the managers."""
        match fact:
            case AgentStart():
                await self.recorded.settle()
                if self._known:
                    self.recorded.begin(fact.context, died=before.active)
                self._say(fact, before)
            case ConfigChanged() if fact.context is not None and self._known:
                self.recorded.change(fact.context)
            case MessageEnd():
                await self.recorded.settle()
                self._say(fact, before)
            case AgentEnd():
                await self.recorded.settle()
            case ContextCompacting() if fact.reason == "manual":
                self._instructions = fact.plan
            case ContextCompacted() if fact.reason in BY_HOSTS:
                self._replace(fact, before)
            case ContextCompacted():
                await self._compacted(fact)
            case ContextProjected() if not fact.purpose:
                await self._project(fact)
            case _:
                return

    def _say(self, fact: Fact, before: AgentState) -> None:
        for _, message, _ in committed_by(fact, before, self._state):
            for each in self._followers:
                each.say(message)

    def _replace(self, fact: ContextCompacted, before: AgentState) -> None:
        """The host has changed what was written."""
        for each in self._followers:
            if fact.reason == "interrupted":
                heard = [message for _, message, _ in committed_by(fact, before, self._state)]
                each.end_reply(heard)
            else:
                each.restart(self._state.messages)

    async def _compacted(self, fact: ContextCompacted) -> None:
        """The recorded manager was asked after an overflow, or has found the view too long; a person asks them all."""
        if is_managers(fact):
            self._rewrites.append(Rewritten(fact.committed, fact.steps))
        if fact.reason == "manual":
            for each in self._followers:
                await each.compact("manual", self._instructions)
        elif fact.reason == "overflow":
            for each in self.recorded.followers:
                await each.compact("overflow", "")
        else:
            self.recorded.rewritten()

    async def _project(self, fact: ContextProjected) -> None:
        point = self._recording.points[fact.seq]
        for each in self._followers:
            each.scope.take(self._state.model, point.request)
        rewrites, self._rewrites = self._rewrites, []
        if self._known:
            await self.recorded.project(point)
        else:
            sent = point.request.request.messages
            made = Made(None, sent, fact.fingerprint, fact.tokens, point.asked, rewrites)
            self.recorded.ledger.take(point, made, overflowed=point.overflowed)
        for name, follower in self.others.items():
            follower.tokens = self._ledgers[name].take(point, await follower.project(point))


def asked_in(recording: Recording) -> Asked:
    """What the recorded manager asked models for."""
    responses = [each.response for each in recording.asides if each.response is not None]
    usage = sum([response.usage for response in responses], Usage())
    return Asked(recorded=len(recording.asides), extracted=0, usage=usage, failures=())
