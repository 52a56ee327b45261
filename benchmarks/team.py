"""What letters between many agents of one process cost: through the mailbox alone, and with agents that read them.

    python benchmarks/team.py [--json] [--quick] [--agents 1000] [--letters 100000]

Every member of one ``Team`` reads a letter in a run of one turn, in which its model calls ``send_message``: so the letters that
the host sends go round until there have been enough. ``benchmarks/README.md`` says what each row is.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import sqlite3
import tempfile
import time
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import msgspec
from laps import best, calibration, scaled

from unspool.kernel import (
    Agent,
    Event,
    Hooks,
    MessageEnd,
    ModelRequest,
    StreamEnd,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    tool,
)
from unspool.team import Letter, Mailbox, MemoryMailbox, SqliteMailbox, Team, TeamLimits
from unspool.trajectory.memory import MemoryLog

Row = dict[str, float]


def letter(number: int, to: str) -> Letter:
    return Letter(id=f"n{number}", sender="host", to=to, text=f"{time.perf_counter()}")


# --- the mailbox alone -----------------------------------------------------------------------------


async def through_mailbox(mailbox: Mailbox, boxes: int, letters: int) -> list[float]:
    """Send letters to readers that wait; how long each was under way, in seconds."""
    took: list[float] = []

    async def read(name: str, count: int) -> None:
        while count:
            found = await mailbox.receive(name, wait_s=None)
            now = time.perf_counter()
            took.extend(now - float(each.letter.text) for each in found)
            await mailbox.acknowledge(name, [each.letter.id for each in found])
            count -= len(found)

    names = [f"b{number}" for number in range(boxes)]
    for name in names:
        await mailbox.open(name)
    readers = [asyncio.create_task(read(name, letters // boxes)) for name in names]
    for number in range(letters // boxes * boxes):
        await mailbox.send(letter(number, names[number % boxes]))
        if number % boxes == boxes - 1:
            await asyncio.sleep(0)
    await asyncio.gather(*readers)
    await mailbox.aclose()
    return took


async def through_queues(boxes: int, letters: int) -> None:
    """The same through plain queues, which promise nothing."""
    queues: list[asyncio.Queue[Letter]] = [asyncio.Queue() for _ in range(boxes)]

    async def read(queue: asyncio.Queue[Letter]) -> None:
        for _ in range(letters // boxes):
            await queue.get()

    readers = [asyncio.create_task(read(queue)) for queue in queues]
    for number in range(letters // boxes * boxes):
        await queues[number % boxes].put(letter(number, ""))
        if number % boxes == boxes - 1:
            await asyncio.sleep(0)
    await asyncio.gather(*readers)


async def through_sqlite(folder: str, boxes: int, letters: int) -> list[float]:
    return await through_mailbox(SqliteMailbox(_new_file(folder)), boxes, letters)


async def through_table(folder: str, letters: int) -> None:
    """A row in and out of a table for each letter, in three commits as a mailbox has: sent, taken, acknowledged."""
    with sqlite3.connect(_new_file(folder), isolation_level=None) as table:
        table.execute("PRAGMA journal_mode=WAL")
        table.execute("PRAGMA synchronous=NORMAL")
        table.execute("CREATE TABLE letters (number INTEGER PRIMARY KEY, letter BLOB, until REAL)")
        for number in range(letters):
            row = (number, msgspec.json.encode(letter(number, "")))
            table.execute("INSERT INTO letters VALUES (?, ?, NULL)", row)
            table.execute("UPDATE letters SET until = 1 WHERE number = ?", (number,))
            table.execute("DELETE FROM letters WHERE number = ?", (number,))
    table.close()


def _new_file(folder: str) -> str:
    return os.path.join(folder, f"{len(os.listdir(folder))}-{os.urandom(4).hex()}.db")


# --- with agents -----------------------------------------------------------------------------------


class Sender:
    """A ``ChatModel`` that sends on, in one turn, as many letters as it was shown since its last."""

    name = "fake/model"
    supports_tools = True

    def __init__(self, crowd: "Crowd", own: int) -> None:
        self._crowd, self._own = crowd, own
        self.shown = self.calls = 0

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        count, self.shown = min(self.shown, self._crowd.left), 0
        self._crowd.left -= count
        for index in range(count):
            self.calls += 1
            args = {"to": self._crowd.somebody_but(self._own), "text": f"{time.perf_counter()}"}
            yield ToolCallDelta(index, f"c{self.calls}", "send_message", msgspec.json.encode(args).decode())
            yield ToolCallEnd(index)
        if not count:
            yield TextDelta("done")
        yield StreamEnd(stop_reason="tool_use" if count else "stop")

    def see(self, event: Event) -> None:
        if type(event) is MessageEnd and event.message is not None and event.message.role == "user":
            self.shown += 1
            self._crowd.arrived(float(event.message.text))


class Crowd:
    """Members that send each other letters, and when each letter was shown to its reader's model."""

    def __init__(self, members: int, letters: int) -> None:
        self.names = [f"m{number}" for number in range(members)]
        self.left = letters
        self.took: list[float] = []
        self.cpu: list[float] = []  # of the process, when each letter was shown
        self._random = random.Random(1)

    def somebody_but(self, own: int) -> str:
        """The name of another member than number ``own``."""
        return self.names[own - self._random.randrange(1, len(self.names))]

    def arrived(self, sent_at: float) -> None:
        self.took.append(time.perf_counter() - sent_at)
        self.cpu.append(time.process_time())

    def agent(self, own: int) -> Agent[Any]:
        model = Sender(self, own)
        agent = Agent(model, log=MemoryLog(), hooks=Hooks(stop_after_tool=lambda _: True))
        agent.subscribe(model.see)
        return agent


class Exchange(NamedTuple):
    """What an exchange came to. Times in seconds, sizes in bytes."""

    crowd: Crowd
    spawn: float
    cpu: float
    wall: float
    members_size: int
    letters_size: int


async def exchange(members: int, letters: int, under_way: int) -> Exchange:
    """``letters`` letters in all, of which ``under_way`` are on their way at any time."""
    crowd = Crowd(members, letters - under_way)
    limits = TeamLimits(members=members, concurrency=members, messages=None, per_pair=None)
    gc.collect()
    before, cpu = resident(), time.process_time()
    async with Team(limits=limits, format_letter=lambda letter: letter.text) as team:
        for number, name in enumerate(crowd.names):
            await team.add(crowd.agent(number), name=name)
        spawn = time.process_time() - cpu
        await team.wait_idle()
        begun, cpu, wall = resident(), time.process_time(), time.perf_counter()
        for number in range(under_way):
            await team.send(crowd.names[number % members], f"{time.perf_counter()}")
        await team.wait_idle()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if len(crowd.took) != letters:
            raise SystemExit(f"{len(crowd.took)} of {letters} letters were shown")
        return Exchange(crowd, spawn, cpu, wall, begun - before, resident() - begun)


@tool
async def send_message(to: str, text: str) -> str:
    """Send nothing."""
    return "Sent."


async def runs_alone(members: int, runs: int) -> None:
    """Runs of one turn with a call and its result, of agents with logs that nobody writes to."""
    crowd = Crowd(members, runs)
    agents = [crowd.agent(number) for number in range(members)]
    for agent in agents:
        agent.configure(tools=[send_message])
    for number in range(runs):
        await agents[number % members].run(f"{time.perf_counter()}")


def resident() -> int:
    """Bytes of memory of this process."""
    with open("/proc/self/statm") as sizes:
        return int(sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def halves(stamps: list[float]) -> float:
    """What a letter of the second half costs, as a multiple of one of the first."""
    middle = len(stamps) // 2
    return (stamps[-1] - stamps[middle]) / (stamps[middle] - stamps[0])


# --- all of it -------------------------------------------------------------------------------------


def mailbox_rows(agents: int, letters: int, laps: int) -> dict[str, Row]:
    found: dict[str, list[float]] = {}

    async def ours() -> None:
        found["memory"] = await through_mailbox(MemoryMailbox(), agents, letters)

    rows = {"memory": best({"ours": ours, "bare": lambda: through_queues(agents, letters)}, laps)}
    few, boxes = max(letters // 20, 20), max(agents // 50, 2)
    few -= few % boxes
    with tempfile.TemporaryDirectory() as folder:

        async def sqlite() -> None:
            found["sqlite"] = await through_sqlite(folder, boxes, few)

        rows["sqlite"] = best(
            {"ours": sqlite, "bare": lambda: through_table(folder, few)}, laps, time.perf_counter
        )
    counts = {"memory": letters // agents * agents, "sqlite": few}
    return {
        f"mailbox, {name}, {counts[name]} letters": scaled(row, 1e6 / counts[name])
        | {f"p{share}": percentile(found[name], share / 100) * 1e3 for share in (50, 99)}
        for name, row in rows.items()
    }


def agents_row(done: Exchange, alone: float) -> Row:
    letters = len(done.crowd.took)
    return {
        "ours": done.cpu / letters * 1e6,
        "bare": alone,
        "p50": percentile(done.crowd.took, 0.5) * 1e3,
        "p99": percentile(done.crowd.took, 0.99) * 1e3,
    }


def measure(agents: int, letters: int, laps: int) -> dict[str, Any]:
    before = calibration()
    rows = mailbox_rows(agents, letters, laps)
    runs = max(agents, letters // 50)
    alone = scaled(best({"runs": lambda: runs_alone(10, runs)}, laps), 1e6 / runs)["runs"]
    whole = asyncio.run(exchange(agents, letters, agents))
    rows[f"{agents} members, {letters} letters"] = agents_row(whole, alone)
    single = asyncio.run(exchange(agents, runs, 1))
    rows[f"{agents} members, one letter at a time"] = agents_row(single, alone)
    return {
        "rows": rows,
        "figures": {
            "letters a second": letters / whole.wall,
            "spawn of a member, ms": whole.spawn / agents * 1e3,
            "memory of a member, KB": whole.members_size / agents / 1024,
            "memory of a letter in its sessions, KB": whole.letters_size / letters / 1024,
            "second half, × first half": halves(whole.crowd.cpu),
        },
        "calibration, µs": [before, calibration()],
    }


def report(result: dict[str, Any]) -> str:
    lines = [f"{'µs a letter':40}{'ours':>10}{'bare':>10}{'× bare':>8}{'p50, ms':>10}{'p99, ms':>10}"]
    for name, row in result["rows"].items():
        ratio = row["ours"] / row["bare"]
        lines.append(
            f"{name:40}{row['ours']:10.1f}{row['bare']:10.1f}{ratio:8.2f}{row['p50']:10.2f}{row['p99']:10.2f}"
        )
    lines += ["", *(f"{name:40}{value:10.2f}" for name, value in result["figures"].items())]
    before, after = result["calibration, µs"]
    return "\n".join([*lines, f"\ncalibration {before:.0f} µs before, {after:.0f} µs after"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--quick", action="store_true", help="few agents, few letters: to see that it works")
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--letters", type=int, default=100_000)
    options = parser.parse_args()
    sizes = (20, 200, 1) if options.quick else (options.agents, options.letters, 3)
    result = measure(*sizes)
    print(json.dumps(result) if options.json else report(result))


if __name__ == "__main__":
    main()
