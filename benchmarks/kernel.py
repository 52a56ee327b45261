"""What the kernel costs besides the model, each figure beside that of a bare loop in the same process.

    python benchmarks/kernel.py [--json] [--quick]

CPU times are those of the process, the best of several alternated laps; on a busy machine compare
the ratios. ``benchmarks/README.md`` says what each row is.
"""

import argparse
import asyncio
import gc
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from bare import BareTool, bare_loop
from fakes import FakeModel, Play, deltas, noop, noop_body, sleep_body, sleeper, tool_turns

from unspool.kernel import (
    AgentContext,
    Clock,
    EventLog,
    Fact,
    FakeClock,
    Limits,
    LoopConfig,
    SystemClock,
    Tool,
    agent_loop,
)
from unspool.trajectory.memory import MemoryLog

Job = Callable[[], Coroutine[Any, Any, Any]]
EVENTS_PER_TURN = 12  # of the kernel in a turn with one call; held against the run below


async def ours(
    play: Play, tool: Tool = noop, turns: int = 10, log: EventLog | None = None, clock: Clock | None = None
) -> int:
    """One run of the kernel, drained; the number of its events."""
    limits = Limits(turns=turns + 10, concurrency=1000)
    config = LoopConfig(model=FakeModel(play), limits=limits, log=log, clock=clock or SystemClock())
    events = 0
    async for _ in agent_loop("go", AgentContext(tools=[tool]), config):
        events += 1
    return events


async def bare(play: Play, tool: BareTool = noop_body, events_per_turn: int = EVENTS_PER_TURN) -> int:
    events = 0
    async for _ in bare_loop(play, tool, events_per_turn):
        events += 1
    return events


def lap(job: Job, timer: Callable[[], float] = time.process_time) -> float:
    """Seconds of one lap, without starting the event loop."""

    async def timed() -> float:
        gc.collect()
        start = timer()
        await job()
        return timer() - start

    return asyncio.run(timed())


def best(jobs: dict[str, Job], laps: int, timer: Callable[[], float] = time.process_time) -> dict[str, float]:
    """The best lap of each job; laps alternate, so that all meet the same machine."""
    found = dict.fromkeys(jobs, float("inf"))
    for _ in range(laps):
        for name, job in jobs.items():
            found[name] = min(found[name], lap(job, timer))
    return found


def plain_runs(laps: int) -> dict[str, float]:
    """µs for a run of one prompt and one answer."""
    runs = 50

    async def many(one: Job) -> None:
        for _ in range(runs):
            await one()

    times = best(
        {
            "ours": lambda: many(lambda: ours(tool_turns(0))),
            "logged": lambda: many(lambda: ours(tool_turns(0), log=MemoryLog())),
            "bare": lambda: many(lambda: bare(tool_turns(0))),
        },
        laps,
    )
    return {name: seconds / runs * 1e6 for name, seconds in times.items()}


def turns(count: int, laps: int) -> dict[str, float]:
    """µs for a turn with one tool call, over a run of ``count`` such turns."""
    times = best(
        {
            "ours": lambda: ours(tool_turns(count), turns=count),
            "logged": lambda: ours(tool_turns(count), turns=count, log=MemoryLog()),
            "bare": lambda: bare(tool_turns(count)),
        },
        laps,
    )
    return {name: seconds / count * 1e6 for name, seconds in times.items()}


def per_delta(awaiting: bool, laps: int, count: int = 5000) -> dict[str, float]:
    """µs for a text delta."""
    times = best(
        {
            "ours": lambda: ours(deltas(count, awaiting=awaiting)),
            "bare": lambda: bare(deltas(count, awaiting=awaiting)),
        },
        laps,
    )
    return {name: seconds / count * 1e6 for name, seconds in times.items()}


def parallel(laps: int) -> dict[str, float]:
    """ms of wall time for one reply with 50 calls of 10 ms each."""
    times = best(
        {
            "ours": lambda: ours(tool_turns(1, calls=50), tool=sleeper),
            "bare": lambda: bare(tool_turns(1, calls=50), tool=sleep_body),
        },
        laps,
        time.perf_counter,
    )
    return {name: seconds * 1e3 for name, seconds in times.items()}


def many_agents(agents: int, laps: int) -> dict[str, float]:
    """ms of wall time for ``agents`` agents at once, 5 turns each, a model that takes 20 ms."""

    async def all_at_once(one: Job) -> None:
        await asyncio.gather(*(one() for _ in range(agents)))

    times = best(
        {
            "ours": lambda: all_at_once(lambda: ours(tool_turns(5, delay_s=0.02))),
            "bare": lambda: all_at_once(lambda: bare(tool_turns(5, delay_s=0.02))),
        },
        laps,
        time.perf_counter,
    )
    return {name: seconds * 1e3 for name, seconds in times.items()}


_IMPORT = """
import sys, time
start = time.process_time()
for name in sys.argv[1].split(","): __import__(name)
print(time.process_time() - start)
"""


def import_time(laps: int) -> dict[str, float]:
    """ms of CPU to import unspool, and its foundations alone, in a fresh interpreter."""
    found = {"ours": float("inf"), "bare": float("inf")}
    foundations = "asyncio,anyio,msgspec"
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(laps + 1):
        for name, modules in (("bare", foundations), ("ours", f"{foundations},unspool")):
            command = [sys.executable, "-c", _IMPORT, modules]
            out = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout
            found[name] = min(found[name], float(out) * 1e3)
    return found


class _Counting:
    """A log that counts what each turn adds."""

    def __init__(self) -> None:
        self.facts = 0
        self.turns: list[tuple[int, int]] = []
        self._bytes = 0
        self._encode = LoopConfig(model=FakeModel(tool_turns(0))).codec.encode

    def append(self, fact: Fact, /) -> None:
        self.facts += 1
        self._bytes += _plain_size(self._encode(fact))
        if type(fact).__name__ == "TurnEnd":
            self.turns.append((self.facts, self._bytes))
            self.facts = self._bytes = 0

    async def flush(self) -> None:
        """Nothing to wait for."""

    read = tail = aclose = None  # never asked for here


_NUMBER = re.compile(rb"(?<![0-9a-f])[0-9]+(?![0-9a-f])")  # ids and sequence numbers, no part of a hash


def _plain_size(data: bytes) -> int:
    """Bytes of a record, every number counted as one digit: numbers grow, records do not."""
    return len(_NUMBER.sub(b"0", data))


def counters(count: int) -> dict[str, float]:
    """What the last turns of a run of ``count`` cost in things counted, per turn."""
    log = _Counting()
    asyncio.run(ours(tool_turns(count), turns=count, log=log, clock=FakeClock()))  # type: ignore[arg-type]  # all that is asked of it
    tail = log.turns[-6:-1]
    events = asyncio.run(ours(tool_turns(count), turns=count)) - asyncio.run(
        ours(tool_turns(count - 1), turns=count)
    )
    return {
        "events": events,
        "facts": sum(facts for facts, _ in tail) / len(tail),
        "bytes": sum(size for _, size in tail) / len(tail),
        **_lowering(count),
    }


def _lowering(count: int) -> dict[str, float]:
    """Messages lowered and bytes encoded for fingerprints in the last turn of a run."""
    found: list[tuple[int, int]] = []
    for n in (count, count + 1):
        stream = agent_loop(
            "go",
            AgentContext(tools=[noop]),
            LoopConfig(model=FakeModel(tool_turns(n)), limits=Limits(turns=n + 10)),
        )
        asyncio.run(_drain(stream))
        found.append((stream.counters.lowered, stream.counters.encoded))
    return {
        "lowered": found[1][0] - found[0][0],
        "encoded": found[1][1] - found[0][1],
        "tokens counted": 0,
    }


async def _drain(stream: Any) -> None:
    async for _ in stream:
        pass


def measure(quick: bool) -> dict[str, Any]:
    laps = 2 if quick else 7
    sizes = (10, 100) if quick else (10, 100, 500, 5000)
    asyncio.run(ours(tool_turns(20), turns=20))  # warm up: imports, pydantic, bytecode
    asyncio.run(bare(tool_turns(20)))
    result: dict[str, Any] = {
        "plain run, µs": plain_runs(laps),
        "turns, µs": {n: turns(n, max(2, laps * 50 // max(n, 50)) if n > 100 else laps * 2) for n in sizes},
        "delta, batching source, µs": per_delta(False, laps),
        "delta, awaiting source, µs": per_delta(True, laps),
        "50 parallel tools of 10 ms, ms": parallel(laps),
        "agents × 5 turns, ms": many_agents(100 if quick else 1000, 1 if quick else 3),
        "import, ms": import_time(laps),
        "counters per turn": {n: counters(n) for n in sizes},
        "peak memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    return result


def targets(result: dict[str, Any]) -> list[tuple[str, float, float]]:
    """What is promised: a name, the figure, its bound."""
    per_turn = result["turns, µs"]
    sizes = sorted(per_turn)
    counted = result["counters per turn"]
    rows = [(f"turn at {n}, × bare", per_turn[n]["ours"] / per_turn[n]["bare"], 8.0) for n in sizes]
    rows.append((f"turn at {sizes[-1]}, × at 10", per_turn[sizes[-1]]["ours"] / per_turn[10]["ours"], 1.3))
    for source in ("batching", "awaiting"):
        row = result[f"delta, {source} source, µs"]
        rows.append((f"delta, {source}, × bare", row["ours"] / row["bare"], 3.0))
    row = result["agents × 5 turns, ms"]
    rows.append(("agents, wall × bare", row["ours"] / row["bare"], 5.0))
    row = result["import, ms"]
    rows.append(("import, ms more", row["ours"] - row["bare"], 60.0))
    for name in counted[10]:
        values = [counted[n][name] for n in sizes]
        rows.append((f"counter {name}, max − min", max(values) - min(values), 0.0))
    return rows


def report(result: dict[str, Any]) -> str:
    lines = [f"{'':36}{'ours':>10}{'with log':>10}{'bare':>10}{'× bare':>8}"]

    def row(name: str, figures: dict[str, float]) -> None:
        logged = f"{figures['logged']:10.2f}" if "logged" in figures else f"{'':10}"
        ratio = figures["ours"] / figures["bare"]
        lines.append(f"{name:36}{figures['ours']:10.2f}{logged}{figures['bare']:10.2f}{ratio:8.2f}")

    for name, value in result.items():
        if name == "turns, µs":
            for n, figures in value.items():
                row(f"turn with one tool, of {n}, µs", figures)
        elif isinstance(value, dict) and "bare" in value:
            row(name, value)
    lines.append("")
    for n, counted in result["counters per turn"].items():
        lines.append(f"per turn at {n}: " + ", ".join(f"{v:g} {k}" for k, v in counted.items()))
    lines.append(f"peak memory {result['peak memory, MB']:.0f} MB")
    lines.append("")
    for name, figure, bound in targets(result):
        verdict = "pass" if figure <= bound else "FAIL"
        lines.append(f"{verdict}  {name:36}{figure:10.2f}  (at most {bound:g})")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--quick", action="store_true", help="few laps, short runs: to see that it works")
    options = parser.parse_args()
    result = measure(options.quick)
    print(json.dumps(result) if options.json else report(result))


if __name__ == "__main__":
    main()
