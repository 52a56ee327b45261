"""What it costs to have an agent called by another, beside running it by itself in the same process.

    python benchmarks/subagents.py [--json] [--quick]

A call is what the caller's turn costs more than one with a tool that does nothing. CPU time, the best of several alternated
laps. ``benchmarks/README.md`` says what each row is.
"""

import argparse
import itertools
import json
import os
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import msgspec
from fakes import ANSWER, noop
from laps import Job, best, calibration

from unspool.kernel import (
    Agent,
    Limits,
    ModelRequest,
    StreamEnd,
    StreamEvent,
    Tool,
    ToolCallDelta,
    ToolCallEnd,
)
from unspool.subagent import AgentDefinition, Subagents, TreeLimits
from unspool.trajectory import JsonlSessions, MemoryLog, Sessions, SqliteSessions

Row = dict[str, float]
LIMITS = Limits(turns=20_000)
TREE = TreeLimits(descendants=1_000_000, concurrency=32)
_numbers = itertools.count()


class Caller:
    """A ``ChatModel`` that makes the same call in the first turns of each run, and then answers."""

    name = "fake/model"
    supports_tools = True

    def __init__(self, turns: int, tool: str = "noop", args: Mapping[str, Any] | None = None) -> None:
        self._turns, self._tool = turns, tool
        self._args = msgspec.json.encode({"x": 1} if args is None else args).decode()

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        if _turns_so_far(request) >= self._turns:
            for event in ANSWER:
                yield event
            return
        yield ToolCallDelta(0, f"c{next(_numbers)}", self._tool, self._args)
        yield ToolCallEnd(0)
        yield StreamEnd(stop_reason="tool_use")


def _turns_so_far(request: ModelRequest) -> int:
    """The answers since the last prompt."""
    count = 0
    for message in reversed(request.messages):
        if message.role == "user":
            break
        count += message.role == "assistant"
    return count


def worker(turns: int, tools: Sequence[Tool] = (noop,)) -> AgentDefinition:
    """An agent that takes ``turns`` turns with one tool each, and answers."""
    return AgentDefinition(name="worker", model=Caller(turns), tools=tools)


async def run(model: Caller, tool: Tool, place: Sessions | None, *, before: int = 0, runs: int = 1) -> None:
    """Runs of an agent, each with a log of its own; ``before`` them, turns in the log."""
    for _ in range(runs):
        handle = None if place is None else place.create(f"s{next(_numbers)}")
        log = MemoryLog(session=f"s{next(_numbers)}") if handle is None else handle
        if before:
            await Agent(Caller(before), tools=[noop], log=log, limits=LIMITS).run("go")
        await Agent(model, tools=[tool], log=log, limits=LIMITS).run("go")
        if handle is not None:
            handle.close()


def calling(calls: int, agents: Subagents, **args: Any) -> tuple[Caller, Tool]:
    return Caller(calls, "subagent", args or {"agent": "worker", "task": "go"}), agents.tool


def called(turns: int, calls: int, laps: int, place: Sessions | None = None, before: int = 0) -> Row:
    """µs for a call of an agent that takes ``turns`` turns; bare: the same as a run by itself."""
    agents = Subagents([worker(turns)], sessions=place, tree=TREE)
    jobs: dict[str, Job] = {
        "called": lambda: run(*calling(calls, agents), place, before=before),
        "not called": lambda: run(Caller(calls), noop, place, before=before),
        "bare": lambda: run(Caller(turns), noop, place, runs=calls),
    }
    found = best(jobs, laps)
    return _row(found["called"] - found["not called"], found["bare"], calls)


def side_by_side(children: int, calls: int, laps: int) -> Row:
    """µs for one of ``children`` children of a call."""
    agents = Subagents([worker(1)], tree=TREE)
    tasks = [{"agent": "worker", "task": "go"}] * children
    jobs: dict[str, Job] = {
        "called": lambda: run(*calling(calls, agents, tasks=tasks), None),
        "not called": lambda: run(Caller(calls), noop, None),
        "bare": lambda: run(Caller(1), noop, None, runs=calls * children),
    }
    found = best(jobs, laps)
    return _row(found["called"] - found["not called"], found["bare"], calls * children)


def deep(depth: int, calls: int, laps: int) -> Row:
    """µs for one level of children, each of which calls the next in its one turn."""
    agents = [worker(1)]
    for level in range(1, depth):
        below = Subagents(agents[-1:], tree=TREE)
        agents.append(
            AgentDefinition(
                name="worker", model=calling(1, below)[0], tools=[below.tool], description=str(level)
            )
        )
    top = Subagents(agents[-1:], tree=TREE)
    jobs: dict[str, Job] = {
        "called": lambda: run(*calling(calls, top), None),
        "not called": lambda: run(Caller(calls), noop, None),
        "bare": lambda: run(Caller(1), noop, None, runs=calls * depth),
    }
    found = best(jobs, laps)
    return _row(found["called"] - found["not called"], found["bare"], calls * depth)


def _row(ours: float, bare: float, count: int) -> Row:
    return {"ours": ours / count * 1e6, "bare": bare / count * 1e6}


def measure(quick: bool) -> dict[str, Any]:
    before, calls, laps = calibration(), 5 if quick else 40, 1 if quick else 5
    rows: dict[str, Row] = {}
    for turns in (0, 1, 10) if quick else (0, 1, 10, 100):
        rows[f"child of {turns} turns, in memory"] = called(turns, max(calls // max(turns, 1), 2), laps)
    with tempfile.TemporaryDirectory() as folder:
        places: dict[str, Sessions] = {
            "JSONL": JsonlSessions(os.path.join(folder, "sessions")),
            "SQLite": SqliteSessions(os.path.join(folder, "sessions.db")),
        }
        for kind, place in places.items():
            with place:
                rows[f"child of 1 turn, sessions in {kind}"] = called(1, calls, laps, place)
    for children in (1, 4) if quick else (1, 2, 4, 8, 16, 32):
        rows[f"child of 1 turn, {children} side by side"] = side_by_side(
            children, max(calls // children, 2), laps
        )
    for depth in (1, 2) if quick else (1, 2, 3, 4, 5):
        rows[f"child of 1 turn, {depth} deep"] = deep(depth, max(calls // depth, 2), laps)
    for history in (0, 10) if quick else (0, 100, 1000):
        rows[f"child of 1 turn, below {history} turns"] = called(1, calls, laps, before=history)
    return {"rows": rows, "calibration, µs": [before, calibration()]}


def report(result: dict[str, Any]) -> str:
    lines = [f"{'µs a child':42}{'ours':>10}{'bare':>10}{'× bare':>8}{'more':>10}"]
    for name, row in result["rows"].items():
        ours, bare = row["ours"], row["bare"]
        lines.append(f"{name:42}{ours:10.0f}{bare:10.0f}{ours / bare:8.2f}{ours - bare:10.0f}")
    before, after = result["calibration, µs"]
    return "\n".join([*lines, f"\ncalibration {before:.0f} µs before, {after:.0f} µs after"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--quick", action="store_true", help="few laps, few children: to see that it works")
    options = parser.parse_args()
    result = measure(options.quick)
    print(json.dumps(result) if options.json else report(result))


if __name__ == "__main__":
    main()
