"""Who uses the agent of the killed session, and the tools that have effects outside.

The host knows nothing but what the state of the agent shows: it sends what was not sent yet, decides what
waits, goes on as long as there is something to go on from. So do hosts that are started again.

Read with: ``killmatrix_plan.py``, ``killmatrix_points.py``.
"""

import os
from typing import Protocol

import anyio
import anyio.lowlevel

from unspool.kernel.agent import Agent
from unspool.kernel.errors import ToolError
from unspool.kernel.limits import Retry
from unspool.kernel.ports import JSON, EventLog, ToolContext, ToolSpec
from unspool.kernel.state import AgentState

from .killmatrix_plan import DECISIONS, SAID, SPECS, PlannedModel, Summaries
from .killmatrix_points import Points


class Effects:
    """What tools did, each by one write of a line to a file; the death of the process costs nothing."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "effects")

    def add(self, tool: str, key: str) -> None:
        """A tool did something, under this idempotency key."""
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, f"{tool} {key}\n".encode())
        finally:
            os.close(fd)

    def all(self) -> list[tuple[str, str]]:
        """Tool and key of each effect, in order."""
        if not os.path.exists(self._path):
            return []
        with open(self._path, encoding="ascii") as file:
            return [(tool, key) for tool, key in map(str.split, file)]


class ToolHost(Protocol):
    """Who has the tools."""

    effects: Effects

    def points_of(self, session: str) -> Points:
        """Where calls of a session may die."""
        ...

    def say(self) -> None:
        """A call has had its effect."""
        ...


class EffectTool:
    """A tool with an effect outside, around which the process may be killed."""

    def __init__(self, spec: ToolSpec, host: "ToolHost") -> None:
        self.spec = spec
        self._host = host

    async def execute(self, args: JSON, ctx: ToolContext, /) -> object:
        """See ``Tool.execute``."""
        host, name = self._host, self.spec.name
        points = host.points_of(ctx.session)
        await anyio.lowlevel.checkpoint()  # so that calls that run together take turns
        points.reach("tool")
        host.effects.add(name, ctx.idempotency_key)
        points.reach("effect")
        await anyio.lowlevel.checkpoint()
        host.say()
        match name:
            case "watch":
                await anyio.sleep_forever()
            case "fail":
                raise ToolError("it does not work")
            case "big":
                return "large " * 5_000
        return f"{name} done, {args}"


class Host:
    """Who uses the agent. It knows nothing but what the state of the agent shows."""

    def __init__(self, log: EventLog, points: Points, folder: str) -> None:
        self.points = points
        self.effects = Effects(folder)
        self.agent: Agent[str] = Agent(
            PlannedModel(),
            tools=[EffectTool(spec, self) for spec in SPECS.values()],
            system="Do as planned.",
            context=Summaries(),
            retry=Retry(attempts=1, base_s=0.0),
            log=log,
        )

    def points_of(self, session: str) -> Points:
        """See ``ToolHost.points_of``."""
        return self.points

    def say(self) -> None:
        """Send what is due and was not sent."""
        state = self.agent.state
        if not 0 < state.queue_count < len(SAID):
            return
        said = SAID[state.queue_count]
        if _has_begun(state, said.during):
            (self.agent.steer if said.lane == "steering" else self.agent.follow_up)(said.text)

    async def drive(self) -> None:
        """Use the agent until the session has ended."""
        for _ in range(20):  # runs; three are enough
            self.say()
            state = self.agent.state
            if not state.queue_count:
                await self.agent.run(SAID[0].text)
            elif state.waiting_calls:
                waiting = [call.call.id for call in state.waiting_calls]
                await self.agent.resume({id: DECISIONS[id] for id in waiting})
            elif self.agent.can_continue:
                await self.agent.continue_()
            else:
                return
        raise RuntimeError(f"the session does not end (end_reason={self.agent.state.end_reason!r})")


def _has_begun(state: AgentState, call_id: str) -> bool:
    """Whether a call may have run."""
    call = state.turn.calls.get(call_id) if state.turn is not None else None
    if call is None:
        return call_id in state.seen_calls  # its turn is over
    return call.stage in ("dispatched", "ended", "committed")
