"""What the kernel costs besides the model, each figure beside that of a bare loop in the same process.

    python benchmarks/kernel.py [--json] [--quick]

CPU times are those of the process, the best of several alternated laps; on a busy machine compare
the ratios. ``benchmarks/README.md`` says what each row is.
"""

import argparse
import asyncio
import json
import time
from typing import Any, NamedTuple

from bare import BareTool, bare_loop
from counting import counters
from fakes import FakeModel, Play, deltas, noop, noop_body, sleep_body, sleeper, tool_turns
from laps import Job, best, calibration, import_time, lap, peak_kb, scaled

from unspool.kernel import AgentContext, EventLog, Limits, LoopConfig, Tool, agent_loop
from unspool.kernel.spawn import current_backend
from unspool.trajectory.memory import MemoryLog

Figures = dict[str, float]
Rows = dict[str, Figures]


async def ours(play: Play, tool: Tool = noop, turns: int = 10, log: EventLog | None = None) -> int:
    """One run of the kernel, drained; the number of its events."""
    limits = Limits(turns=turns + 10, concurrency=1000)
    config = LoopConfig(model=FakeModel(play), limits=limits, log=log)
    events = 0
    async for _ in agent_loop("go", AgentContext(tools=[tool]), config):
        events += 1
    return events


async def bare(play: Play, tool: BareTool = noop_body) -> int:
    """One run of the bare loop, drained; the number of its structs."""
    events = 0
    async for _ in bare_loop(play, tool):
        events += 1
    return events


def check_fairness() -> None:
    """Both loops must say equally much, or their times can't be compared."""
    for turns, calls in ((0, 0), (3, 1), (1, 4)):
        here = asyncio.run(ours(tool_turns(turns, calls)))
        there = asyncio.run(bare(tool_turns(turns, calls)))
        if here != there:
            raise SystemExit(f"the loops differ: {here} events of the kernel, {there} of bare.py")


def plain_runs(laps: int, runs: int = 50) -> Figures:
    """µs for a run of one prompt and one answer."""

    async def many(one: Job) -> None:
        for _ in range(runs):
            await one()

    jobs: dict[str, Job] = {
        "ours": lambda: many(lambda: ours(tool_turns(0))),
        "logged": lambda: many(lambda: ours(tool_turns(0), log=MemoryLog())),
        "bare": lambda: many(lambda: bare(tool_turns(0))),
    }
    return scaled(best(jobs, laps), 1e6 / runs)


def turns(count: int, laps: int) -> Figures:
    """µs for a turn with one tool call, over a run of ``count`` such turns."""
    jobs: dict[str, Job] = {
        "ours": lambda: ours(tool_turns(count), turns=count),
        "logged": lambda: ours(tool_turns(count), turns=count, log=MemoryLog()),
        "bare": lambda: bare(tool_turns(count)),
    }
    return scaled(best(jobs, laps), 1e6 / count)


def growth_within(count: int, laps: int) -> float:
    """What a turn of the last tenth of a run costs, as a multiple of one of the first tenth."""
    first = last = float("inf")
    tenth = count // 10
    for _ in range(laps):
        stamps: list[float] = []
        lap(lambda: ours(tool_turns(count, stamps=stamps), turns=count, log=MemoryLog()))  # noqa: B023 (called at once)
        first = min(first, stamps[tenth] - stamps[0])
        last = min(last, stamps[-1] - stamps[-1 - tenth])
    return last / first


def call_of_many(count: int, laps: int) -> Figures:
    """µs for a call of a reply with ``count`` calls."""
    jobs: dict[str, Job] = {
        "ours": lambda: ours(tool_turns(1, calls=count)),
        "logged": lambda: ours(tool_turns(1, calls=count), log=MemoryLog()),
        "bare": lambda: bare(tool_turns(1, calls=count)),
    }
    return scaled(best(jobs, laps), 1e6 / count)


async def two_tasks(turns: int) -> None:
    """What a turn cannot do without: a task that pumps the model, one that runs the tool, each waking the loop."""
    backend = current_backend()
    wake = backend.waker()

    async def task() -> None:
        wake.set()

    for _ in range(2 * turns):
        backend.spawn(task)
        await wake.wait()


def tasks_alone(laps: int, turns: int = 2000) -> Figures:
    """µs for the two tasks of a turn and nothing else, beside the whole bare turn."""
    jobs: dict[str, Job] = {"ours": lambda: two_tasks(turns), "bare": lambda: bare(tool_turns(turns))}
    return scaled(best(jobs, laps), 1e6 / turns)


def per_delta(awaiting: bool, laps: int, count: int = 5000) -> Figures:
    """µs for a text delta."""
    jobs: dict[str, Job] = {
        "ours": lambda: ours(deltas(count, awaiting=awaiting)),
        "logged": lambda: ours(deltas(count, awaiting=awaiting), log=MemoryLog()),
        "bare": lambda: bare(deltas(count, awaiting=awaiting)),
    }
    return scaled(best(jobs, laps), 1e6 / count)


def parallel(laps: int) -> Figures:
    """ms of wall time for one reply with 50 calls of 10 ms each."""
    jobs: dict[str, Job] = {
        "ours": lambda: ours(tool_turns(1, calls=50), tool=sleeper),
        "logged": lambda: ours(tool_turns(1, calls=50), tool=sleeper, log=MemoryLog()),
        "bare": lambda: bare(tool_turns(1, calls=50), tool=sleep_body),
    }
    return scaled(best(jobs, laps, time.perf_counter), 1e3)


async def at_once(agents: int, one: Job) -> None:
    await asyncio.gather(*(one() for _ in range(agents)))


def many_agents(agents: int) -> dict[str, Job]:
    """``agents`` agents at once, 5 turns each, with a model that takes 20 ms."""
    return {
        "ours": lambda: at_once(agents, lambda: ours(tool_turns(5, delay_s=0.02))),
        "logged": lambda: at_once(agents, lambda: ours(tool_turns(5, delay_s=0.02), log=MemoryLog())),
        "bare": lambda: at_once(agents, lambda: bare(tool_turns(5, delay_s=0.02))),
    }


def turn_laps(count: int, laps: int) -> int:
    """Short runs get more laps."""
    return laps * 2 if count <= 100 else max(2, laps * 50 // count)


def measure(quick: bool) -> dict[str, Any]:
    laps, agents = (2, 100) if quick else (7, 1000)
    sizes = (10, 100) if quick else (10, 100, 500, 5000)
    check_fairness()  # also warms up: imports, pydantic, bytecode
    before = calibration()
    crowd = many_agents(agents)
    rows: Rows = {"plain run, µs": plain_runs(laps)}
    rows |= {f"turn with one tool, of {n}, µs": turns(n, turn_laps(n, laps)) for n in sizes}
    rows |= {f"call of one reply, of {n}, µs": call_of_many(n, laps) for n in (10, 1000)}
    rows["two tasks of a turn alone, µs"] = tasks_alone(laps)
    rows["delta, batching source, µs"] = per_delta(False, laps)
    rows["delta, awaiting source, µs"] = per_delta(True, laps)
    rows["50 parallel tools of 10 ms, wall ms"] = parallel(laps)
    rows[f"{agents} agents × 5 turns, wall ms"] = scaled(
        best(crowd, 1 if quick else 3, time.perf_counter), 1e3
    )
    rows[f"{agents} agents, peak KB each"] = {name: peak_kb(job) / agents for name, job in crowd.items()}
    rows["import, ms"] = import_time(laps)
    growth = {n: growth_within(n, 3) for n in sizes if n >= 500}  # a tenth of less is noise
    counted = {n: counters(n) for n in sizes}
    return {
        "rows": rows,
        "growth, last tenth over first": growth,
        "counters per turn": counted,
        "calibration, µs": [before, calibration()],
        "targets": [target._asdict() for target in targets(rows, growth, counted, agents)],
    }


class Target(NamedTuple):
    """What is promised: a figure, and the most it may be."""

    name: str
    figure: float
    bound: float
    passed: bool


def targets(rows: Rows, growth: dict[int, float], counted: dict[int, Figures], agents: int) -> list[Target]:
    sizes = sorted(counted)

    def ratio(row: str) -> float:
        return rows[row]["ours"] / rows[row]["bare"]

    def turn(n: int) -> str:
        return f"turn with one tool, of {n}, µs"

    found = [(f"turn of {n}, × bare", ratio(turn(n)), 8.0) for n in sizes]
    for name in ("ours", "logged"):
        for n in sizes[1:]:
            grown = rows[turn(n)][name] / rows[turn(10)][name]
            found.append((f"turn of {n}, × of 10{', with log' * (name == 'logged')}", grown, 1.3))
    calls = [rows[f"call of one reply, of {n}, µs"]["ours"] for n in (10, 1000)]
    found.append(("call of a reply of 1000, × of 10", calls[1] / calls[0], 1.3))
    found += [(f"last tenth of {n}, × first tenth", times, 1.3) for n, times in growth.items()]
    found.append(("delta, batching, × bare", ratio("delta, batching source, µs"), 3.0))
    found.append(("delta, awaiting, × bare", ratio("delta, awaiting source, µs"), 3.0))
    found.append(("agents, wall × bare", ratio(f"{agents} agents × 5 turns, wall ms"), 5.0))
    found.append(("import, ms more", rows["import, ms"]["ours"] - rows["import, ms"]["bare"], 60.0))
    for name in counted[sizes[0]]:
        values = [counted[n][name] for n in sizes]
        found.append((f"{name} a turn, max − min", max(values) - min(values), 0.0))
    return [Target(name, figure, bound, figure <= bound) for name, figure, bound in found]


def report(result: dict[str, Any]) -> str:
    lines = [f"{'':36}{'ours':>10}{'with log':>10}{'bare':>10}{'× bare':>8}"]
    for name, row in result["rows"].items():
        logged = f"{row['logged']:10.2f}" if "logged" in row else " " * 10
        lines.append(
            f"{name:36}{row['ours']:10.2f}{logged}{row['bare']:10.2f}{row['ours'] / row['bare']:8.2f}"
        )
    lines += ["", *_counter_table(result["counters per turn"]), ""]
    for row in result["targets"]:
        verdict = "PASS" if row["passed"] else "FAIL"
        lines.append(f"{verdict}  {row['name']:40}{row['figure']:8.2f}  (at most {row['bound']:g})")
    before, after = result["calibration, µs"]
    lines.append(f"\ncalibration {before:.0f} µs before, {after:.0f} µs after")
    return "\n".join(lines)


def _counter_table(counted: dict[int, Figures]) -> list[str]:
    """Each counter at each length of the run; flat means equal to the last digit."""
    lines = [f"{'per turn, in a run of':36}" + "".join(f"{n:>10}" for n in counted) + "    flat"]
    for name in next(iter(counted.values())):
        values = [figures[name] for figures in counted.values()]
        flat = "PASS" if len(set(values)) == 1 else "FAIL"
        lines.append(f"{name:36}" + "".join(f"{value:10g}" for value in values) + f"    {flat}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--quick", action="store_true", help="few laps, short runs: to see that it works")
    options = parser.parse_args()
    result = measure(options.quick)
    print(json.dumps(result) if options.json else report(result))


if __name__ == "__main__":
    main()
