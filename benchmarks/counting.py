"""What a turn costs in things that can be counted; unlike times, counts are exact.

A count that depends on the length of the history is a defect, whatever the clock says.
"""

import asyncio
import re

from fakes import FakeModel, noop, tool_turns

from unspool.kernel import AgentContext, AgentState, Fact, Limits, LoopConfig, SystemClock, agent_loop
from unspool.trajectory.memory import MemoryLog

_WINDOW = 5  # turns at the end of a run that are counted
_NUMBER = re.compile(rb"(?<![0-9a-f])[0-9]+(?![0-9a-f])")  # ids and sequence numbers, no part of a hash


class FrozenClock(SystemClock):
    """Stands still, so that records hold the same times in every turn."""

    def time(self) -> float:
        return 1.0

    def monotonic(self) -> float:
        return 1.0


class CountingLog(MemoryLog):
    """Counts the bytes of each record."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self._encode = LoopConfig(model=FakeModel(tool_turns(0))).codec.encode

    def append(self, fact: Fact, /) -> None:
        super().append(fact)
        self.bytes += len(_NUMBER.sub(b"0", self._encode(fact)))  # numbers grow, records must not


async def _totals(turns: int) -> dict[str, int]:
    """All counts of one run."""
    log, events = CountingLog(), 0
    config = LoopConfig(
        model=FakeModel(tool_turns(turns)), limits=Limits(turns=turns + 10), log=log, clock=FrozenClock()
    )
    context = AgentContext(tools=[noop], state=AgentState(session="s"))
    stream = agent_loop("go", context, config)
    async for _ in stream:
        events += 1
    return {
        "events": events,
        "facts": len(log.facts),
        "signals": events - len(log.facts),
        "bytes of facts": log.bytes,
        "messages lowered": stream.counters.lowered,
        "bytes fingerprinted": stream.counters.encoded,
        "tokens counted": sum(getattr(fact, "tokens", None) or 0 for fact in log.facts),
    }


def counters(turns: int) -> dict[str, float]:
    """The counts of one turn, as the mean of the last turns of a run of ``turns``."""
    shorter, whole = (asyncio.run(_totals(n)) for n in (turns - _WINDOW, turns))
    return {name: (whole[name] - shorter[name]) / _WINDOW for name in whole}
