"""Many agents at once, over and over, some of them cut short: does anything stay behind?

    python benchmarks/soak.py [--agents 1000] [--turns 50] [--rounds 10] [--trio]

Each round runs all agents together. A sixth are aborted and a sixth are left by their consumer, at
a random event (the seed is fixed). Each log must then have one balanced ending, and after the
warm-up there may be no more tasks, file descriptors, objects or memory than before.
"""

import argparse
import gc
import os
import random
import sys
import tracemalloc
from dataclasses import dataclass
from typing import NamedTuple

import anyio
import anyio.lowlevel
from fakes import FakeModel, noop, tool_turns

from unspool.kernel import Abort, AgentContext, Fact, Limits, LoopConfig, TurnEnd, agent_loop
from unspool.trajectory.memory import MemoryLog

WARM_UP = 1  # rounds before the one that the others are held against


@dataclass(frozen=True)
class Footprint:
    """What a process holds on to between rounds."""

    tasks: int
    descriptors: int
    objects: int
    traced_kb: int
    rss_kb: int


class Cut(NamedTuple):
    """At which event a run is cut short; its consumer leaves, or aborts it and reads on."""

    event: int
    leave: bool


def footprint(tasks: int) -> Footprint:
    gc.collect()
    with open("/proc/self/status") as status:
        rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    traced = tracemalloc.get_traced_memory()[0] // 1024
    return Footprint(tasks, len(os.listdir("/proc/self/fd")), len(gc.get_objects()), traced, rss)


async def one_agent(turns: int, cut: Cut | None) -> bool:
    """One run, cut short or not; whether its log is closed and balanced."""
    log, abort, events = MemoryLog(), Abort(), 0
    config = LoopConfig(
        model=FakeModel(tool_turns(turns)), limits=Limits(turns=turns + 10), log=log, abort=abort
    )
    async with agent_loop("go", AgentContext(tools=[noop]), config) as run:
        async for event in run:
            events += 1
            if type(event) is TurnEnd:
                await anyio.lowlevel.checkpoint()
            if cut is not None and events == cut.event:
                if cut.leave:
                    break
                abort.fire()
    return closed(log.facts, "stop" if cut is None else "aborted")


def closed(facts: list[Fact], reason: str) -> bool:
    """Whether the run ended once, for that reason, with every call and turn ended."""
    names = [type(fact).__name__ for fact in facts]
    pairs = (("ToolExecStart", "ToolExecEnd"), ("TurnStart", "TurnEnd"), ("AgentStart", "AgentEnd"))
    balanced = all(names.count(start) == names.count(end) for start, end in pairs)
    return balanced and names.count("AgentEnd") == 1 and getattr(facts[-1], "reason", "") == reason


def some_cut(chance: random.Random, turns: int) -> Cut | None:
    kind, event = chance.random(), chance.randint(1, 12 * turns)  # a turn has twelve events
    return Cut(event, kind < 1 / 6) if kind < 1 / 3 else None


async def one_round(agents: int, turns: int, chance: random.Random) -> int:
    """All agents at once; how many did not close well."""
    bad = 0

    async def play(cut: Cut | None) -> None:
        nonlocal bad
        bad += not await one_agent(turns, cut)

    async with anyio.create_task_group() as group:
        for _ in range(agents):
            group.start_soon(play, some_cut(chance, turns))
    return bad


def living_tasks() -> int:
    if "trio" in sys.modules and sys.modules["trio"].lowlevel.in_trio_run():
        return int(sys.modules["trio"].lowlevel.current_statistics().tasks_living)
    return len(anyio.get_running_tasks())


def grown(now: Footprint, first: Footprint) -> list[str]:
    """What has grown since the warm-up; memory may move a little, as allocators do."""
    return [
        name
        for name, most in (
            ("tasks", first.tasks),
            ("descriptors", first.descriptors),
            ("objects", first.objects * 1.01 + 100),
            ("traced_kb", first.traced_kb * 1.02 + 200),
            ("rss_kb", first.rss_kb * 1.1 + 8192),
        )
        if getattr(now, name) > most
    ]


async def soak(agents: int, turns: int, rounds: int) -> bool:
    chance = random.Random(7)
    good = True
    first = footprint(living_tasks())  # taken again at the end of the warm-up
    for number in range(-WARM_UP, rounds + 1):
        bad = await one_round(agents, turns, chance)
        await anyio.lowlevel.checkpoint()
        now = footprint(living_tasks())
        if number == 0:
            first = now
        more = grown(now, first) if number > 0 else []
        good = good and not bad and not more
        verdict = "FAIL " + ", ".join(more) if bad or more else "ok" if number > 0 else "warm-up"
        print(f"round {number:2}: {verdict}, {bad} not closed, {now}", flush=True)
    print("PASS" if good else "FAIL")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--trio", action="store_true")
    options = parser.parse_args()
    tracemalloc.start()
    good = anyio.run(
        soak,
        options.agents,
        options.turns,
        options.rounds,
        backend="trio" if options.trio else "asyncio",
    )
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
