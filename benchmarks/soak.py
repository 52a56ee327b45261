"""Many agents at once, over and over, some of them aborted: does anything stay behind?

    python benchmarks/soak.py [--agents 1000] [--turns 50] [--rounds 10] [--trio]

Each round runs all agents together; about a third are aborted at a random turn (the seed is
fixed). After each round every log must have one balanced ending, and from the second round on
there may be no more tasks, file descriptors, objects or memory than after the first.
"""

import argparse
import gc
import os
import random
import sys
import tracemalloc
from dataclasses import dataclass

import anyio
import anyio.lowlevel
from fakes import FakeModel, noop, tool_turns

from unspool.kernel import Abort, AgentContext, Fact, Limits, LoopConfig, TurnEnd, agent_loop
from unspool.trajectory.memory import MemoryLog


@dataclass(frozen=True)
class Footprint:
    """What a process holds on to between rounds."""

    tasks: int
    descriptors: int
    objects: int
    traced_kb: int
    rss_kb: int


def footprint(tasks: int) -> Footprint:
    gc.collect()
    with open("/proc/self/status") as status:
        rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    traced = tracemalloc.get_traced_memory()[0] // 1024
    return Footprint(tasks, len(os.listdir("/proc/self/fd")), len(gc.get_objects()), traced, rss)


async def one_agent(turns: int, abort_at: int | None) -> bool:
    """One run, aborted at a turn or not; whether its log is closed and balanced."""
    log, abort = MemoryLog(), Abort()
    config = LoopConfig(
        model=FakeModel(tool_turns(turns)), limits=Limits(turns=turns + 10), log=log, abort=abort
    )
    async with agent_loop("go", AgentContext(tools=[noop]), config) as run:
        async for event in run:
            if type(event) is TurnEnd:
                await anyio.lowlevel.checkpoint()
                if event.index == abort_at:
                    abort.fire()
    return closed(log.facts, "stop" if abort_at is None else "aborted")


def closed(facts: list[Fact], reason: str) -> bool:
    """Whether the run ended once, for that reason, with every call and turn ended."""
    names = [type(fact).__name__ for fact in facts]
    pairs = (("ToolExecStart", "ToolExecEnd"), ("TurnStart", "TurnEnd"), ("AgentStart", "AgentEnd"))
    balanced = all(names.count(start) == names.count(end) for start, end in pairs)
    return balanced and names.count("AgentEnd") == 1 and getattr(facts[-1], "reason", "") == reason


async def one_round(agents: int, turns: int, chance: random.Random) -> int:
    """All agents at once; how many did not close well."""
    bad = 0

    async def play(abort_at: int | None) -> None:
        nonlocal bad
        bad += not await one_agent(turns, abort_at)

    async with anyio.create_task_group() as group:
        for _ in range(agents):
            aborted = chance.random() < 0.33
            group.start_soon(play, chance.randint(1, turns) if aborted else None)
    return bad


def living_tasks() -> int:
    if "trio" in sys.modules and sys.modules["trio"].lowlevel.in_trio_run():
        return int(sys.modules["trio"].lowlevel.current_statistics().tasks_living)
    return len(anyio.get_running_tasks())


async def soak(agents: int, turns: int, rounds: int) -> bool:
    chance = random.Random(7)
    first: Footprint | None = None
    good = True
    for number in range(rounds + 1):
        bad = await one_round(agents, turns, chance)
        await anyio.lowlevel.checkpoint()
        now = footprint(living_tasks())
        grown = first is not None and (
            now.tasks > first.tasks
            or now.descriptors > first.descriptors
            or now.objects > first.objects * 1.01 + 100
            or now.traced_kb > first.traced_kb * 1.02 + 200
        )
        good = good and not bad and not grown
        verdict = "warm-up" if first is None else "FAIL" if bad or grown else "ok"
        print(f"round {number:2}: {verdict}, {bad} not closed, {now}", flush=True)
        first = now if number == 0 else first
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
