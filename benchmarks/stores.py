"""What logs cost, one function for each question; ``trajectory.py`` asks them all.

Every figure stands beside that of the bare operation, taken in turns with it, so that both meet the same machine.
"""

import asyncio
import gc
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple

import msgspec
from fakes import FakeModel, noop, tool_turns
from laps import best, scaled
from sessions import facts_of_session, numbered, run_session, size_of, unique_bytes

from unspool.kernel import AgentContext, EventLog, Fact, Limits, LoopConfig, agent_loop, fold
from unspool.kernel.codec import Codec
from unspool.kernel.events import KnownFact
from unspool.trajectory import (
    BUFFERED,
    EACH_FLUSH,
    JsonlLog,
    SqliteSessions,
    follow,
    fork_log,
    group,
    iter_facts,
    load,
    verify,
)
from unspool.trajectory.record import NO_HASH, seal

Figures = dict[str, float]
Rows = dict[str, Figures]
_TABLE = "CREATE TABLE records (id INTEGER PRIMARY KEY, session TEXT, seq INTEGER, line BLOB)"
_INSERT = "INSERT INTO records (session, seq, line) VALUES (?, ?, ?)"
_numbers = count()


class Sizes(NamedTuple):
    """How much is measured."""

    laps: int = 15
    turns: int = 1000  # of the session whose facts are appended, and whose size is taken
    facts: int = 10_000  # loaded and verified
    long: int = 100_000  # facts of a long log
    short: int = 1000  # and of a short one
    followed: int = 100 << 20  # bytes
    flushes: int = 100


QUICK = Sizes(laps=2, turns=60, facts=300, long=3000, short=500, followed=4 << 20, flushes=5)


@contextmanager
def folder(base: str) -> Iterator[str]:
    """A new folder, removed at the end."""
    made = tempfile.mkdtemp(prefix="unspool-", dir=base or None)
    try:
        yield made
    finally:
        shutil.rmtree(made)


def best_of(jobs: dict[str, Callable[[], object]], laps: int) -> Figures:
    """Seconds of CPU of the best lap of each job; laps alternate."""
    found = dict.fromkeys(jobs, float("inf"))
    for _ in range(laps):
        for name, job in jobs.items():
            gc.collect()
            start = time.process_time()
            job()
            found[name] = min(found[name], time.process_time() - start)
    return found


def bare_database(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(_TABLE)
    return connection


def lines_of(facts: list[Fact]) -> list[bytes]:
    """The lines that a log stores of ``facts``, ends included."""
    encode, before, lines = Codec().encode, NO_HASH, []
    for fact in facts:
        line, before = seal(encode(fact), before)
        lines.append(line + b"\n")
    return lines


class Appends:
    """The facts of one session appended again and again: to a log, and bare, to files of one folder."""

    def __init__(self, base: str, facts: list[Fact]) -> None:
        self.facts = facts
        self.lines = lines_of(facts)
        self.sqlite = SqliteSessions(os.path.join(base, "ours.db"))
        self.logs: dict[str, Any] = {
            "jsonl": JsonlLog(os.path.join(base, "ours.jsonl")),
            "sqlite": self.sqlite.create("s"),
        }
        self._fd = os.open(os.path.join(base, "bare.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._bare = bare_database(os.path.join(base, "bare.db"))
        self._encode = Codec().encode

    def prepare(self, kind: str) -> None:
        """Between laps, off the clock: what the next lap appends follows on, and the WAL is written back."""
        numbered(self.facts, self.logs[kind].seq)
        asyncio.run(self.logs[kind].flush())

    def ours(self, kind: str) -> None:
        append = self.logs[kind].append
        for fact in self.facts:
            append(fact)

    def write(self) -> None:
        write, fd = os.write, self._fd
        for line in self.lines:
            write(fd, line)

    def insert(self) -> None:
        execute = self._bare.execute
        for seq, line in enumerate(self.lines):
            execute(_INSERT, ("s", seq, line))

    def parts(self) -> None:
        """What no log that seals its records can leave out: the JSON, its hash, the write."""
        write, fd, encode = os.write, self._fd, self._encode
        for fact in self.facts:
            body = encode(fact)
            sha256(body).digest()
            write(fd, body)

    def close(self) -> None:
        for log in self.logs.values():
            log.close()
        self.sqlite.close()
        os.close(self._fd)
        self._bare.close()


def appending(base: str, sizes: Sizes) -> tuple[Rows, float]:
    """µs for an append, and the mean size of a line."""
    with folder(base) as place:
        appends = Appends(place, facts_of_session(sizes.turns, 1000))
        jobs: dict[str, Callable[[], object]] = {
            "write": appends.write, "jsonl": partial(appends.ours, "jsonl"), "parts": appends.parts,
            "insert": appends.insert, "sqlite": partial(appends.ours, "sqlite"),
        }  # fmt: skip
        found = dict.fromkeys(jobs, float("inf"))
        for _ in range(sizes.laps):
            for name, job in jobs.items():
                if name in appends.logs:
                    appends.prepare(name)
                found[name] = min(found[name], best_of({name: job}, 1)[name])
        appends.close()
        each = scaled(found, 1e6 / len(appends.facts))
        mean = sum(map(len, appends.lines)) / len(appends.lines)
    return {
        "append, JSONL, µs": {"ours": each["jsonl"], "bare": each["write"]},
        "  encode, hash and write alone, µs": {"ours": each["parts"], "bare": each["write"]},
        "append, SQLite, µs": {"ours": each["sqlite"], "bare": each["insert"]},
    }, mean


def growth(base: str, sizes: Sizes) -> Figures:
    """What an append to a long log costs, as a multiple of one to a short log: the median of pairs of laps."""
    facts = facts_of_session(max(sizes.short // 9, 10), 1000)
    found: Figures = {}
    with folder(base) as place:
        sessions = [SqliteSessions(os.path.join(place, f"{name}.db")) for name in ("short", "long")]
        pairs: dict[str, list[Any]] = {
            "JSONL": [JsonlLog(os.path.join(place, f"{name}.jsonl")) for name in ("short", "long")],
            "SQLite": [each.create("s") for each in sessions],
        }
        for kind, (short, long) in pairs.items():
            for log, length in ((short, sizes.short), (long, sizes.long)):
                while log.seq < length:
                    _append_all(log, facts)
                    asyncio.run(log.flush())
            laps: dict[Any, list[float]] = {short: [], long: []}
            for number in range(2 * sizes.laps):
                for log in (short, long) if number % 2 else (long, short):
                    asyncio.run(log.flush())
                    laps[log].append(_append_all(log, facts))
            found[kind] = min(
                statistics.median(laps[long]) / statistics.median(laps[short]),
                min(laps[long]) / min(laps[short]),
            )
            short.close()
            long.close()
        for each in sessions:
            each.close()
    return found


def _append_all(log: Any, facts: list[Fact]) -> float:
    """Append ``facts`` with numbers that follow on; seconds of CPU."""
    numbered(facts, log.seq)
    append = log.append
    gc.collect()
    start = time.process_time()
    for fact in facts:
        append(fact)
    return time.process_time() - start


def loading(base: str, sizes: Sizes) -> tuple[Rows, float]:
    """ms to load, verify and open a log, beside decoding the same lines; and its MB."""
    facts = facts_of_session(sizes.facts // 9 + 1, 15_500)[: sizes.facts]
    decode = msgspec.json.Decoder(KnownFact).decode
    with folder(base) as place:
        path = os.path.join(place, "s.jsonl")
        sessions = SqliteSessions(os.path.join(place, "s.db"))
        with JsonlLog(path) as log, sessions.create("s") as rows:
            for number, fact in enumerate(facts):
                log.append(fact)
                rows.append(fact)
                if number % 1000 == 0:
                    asyncio.run(rows.flush())
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")[1:-1]
        jobs: dict[str, Callable[[], object]] = {
            "bare": lambda: [decode(line) for line in lines],
            "load, JSONL": lambda: load(path),
            "load and fold, JSONL": lambda: fold(iter_facts(path)),
            "load and fold, SQLite": lambda: fold(sessions.facts("s")),
            "verify, JSONL": lambda: verify(path),
            "verify, SQLite": lambda: sessions.verify("s"),
            "open for writing, JSONL": lambda: JsonlLog(path).close(),
            "open for writing, SQLite": lambda: sessions.open("s").close(),
        }
        found = scaled(best_of(jobs, sizes.laps // 2 + 1), 1e3)
        sessions.close()
        megabytes = os.path.getsize(path) / 1e6
    bare = found.pop("bare")
    return {f"{name}, ms": {"ours": ms, "bare": bare} for name, ms in found.items()}, megabytes


class Fork(NamedTuple):
    """What a fork costs: ms of CPU, and bytes."""

    ms: float
    size: float


def forking(base: str, sizes: Sizes) -> dict[str, Fork]:
    """Forks of logs of several lengths, at their end and in their middle."""
    facts = facts_of_session(12, 1000)
    found: dict[str, Fork] = {}
    forks = 50
    for length in (10, sizes.short, sizes.long):
        with folder(base) as place, SqliteSessions(os.path.join(place, "s.db")) as sessions:
            path = os.path.join(place, "s.jsonl")
            with JsonlLog(path) as log, sessions.create("s") as rows:
                while log.seq < length:
                    numbered(facts, log.seq)
                    for fact in facts[: length - log.seq]:
                        log.append(fact)
                        rows.append(fact)
                    if log.seq % 9000 < len(facts):
                        asyncio.run(rows.flush())
            _checkpoint(sessions)
            for where, at in ((f"of {length}", None), (f"in the middle of {length}", length // 2)):
                target = os.path.join(place, "forks")
                ms = _each_ms(lambda: fork_log(path, os.path.join(target, f"{next(_numbers)}"), at), forks)  # noqa: B023
                found[f"fork {where}, JSONL"] = Fork(ms, size_of(target) / len(os.listdir(target)))
                before = size_of(sessions.path)
                ms = _each_ms(lambda: sessions.fork("s", at), forks)  # noqa: B023 (called at once)
                _checkpoint(sessions)
                found[f"fork {where}, SQLite"] = Fork(ms, (size_of(sessions.path) - before) / forks)
    return found


def _each_ms(job: Callable[[], object], times: int) -> float:
    """ms of CPU for one of many, the best of ten rounds."""
    return (
        min(best_of({"job": lambda: [job() for _ in range(times // 10)]}, 10).values()) * 1e3 / (times // 10)
    )


def _checkpoint(sessions: SqliteSessions) -> None:
    """Have SQLite write everything into its one file."""
    connection = sqlite3.connect(sessions.path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


def following(base: str, sizes: Sizes) -> Figures:
    """MB that this process grows by while it follows a log that another writer makes long."""

    facts = facts_of_session(20, 15_500)

    async def drain() -> Figures:
        with folder(base) as place, JsonlLog(os.path.join(place, "s.jsonl")) as log:
            reader = follow(log.path, poll_s=0.0)
            begin = 0.0
            while size_of(log.path) < sizes.followed:
                _append_all(log, facts)
                async for fact in reader:
                    if fact.seq == log.seq:
                        break
                if not begin and size_of(log.path) > sizes.followed // 10:
                    begin = _resident_mb()
            await reader.aclose()
            return {"grown": _resident_mb() - begin, "log": size_of(log.path) / 1e6}

    return asyncio.run(drain())


def _resident_mb() -> float:
    """MB of this process in memory; 0 where the system has no /proc."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return 0.0


class Stored(NamedTuple):
    """Bytes of a session: its contents once, and as it is stored."""

    unique: int
    jsonl: int
    sqlite: int
    turns: int

    def allowed(self) -> float:
        return 1.15 * self.unique + 1536 * self.turns


def storing(base: str, sizes: Sizes) -> dict[str, Stored]:
    """How large sessions are: one whose results are all different, one that reads the same files again."""
    found: dict[str, Stored] = {}
    for name, size, files in (("results of 1 KB", 1000, 0), ("30 files of 30 KB, read again", 30_000, 30)):
        with folder(base) as place:
            path = os.path.join(place, "s.jsonl")
            with JsonlLog(path) as log:
                asyncio.run(run_session(sizes.turns, size, log, files=files))
                unique = unique_bytes(iter_facts(path))
            with SqliteSessions(os.path.join(place, "s.db")) as sessions:
                with sessions.create("s") as rows:
                    asyncio.run(run_session(sizes.turns, size, rows, files=files))
                _checkpoint(sessions)
                sqlite = size_of(sessions.path)
            found[name] = Stored(unique, size_of(path) + size_of(f"{path}.blobs"), sqlite, sizes.turns)
    return found


def flushing(base: str, sizes: Sizes) -> Rows:
    """Wall ms for an append and a flush, beside a write and an ``fdatasync``: means of the best nine tenths."""
    facts = facts_of_session(12, 1000)
    lines = lines_of(facts)
    rows: Rows = {}
    with folder(base) as place:
        fd = os.open(os.path.join(place, "bare"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for name, durability in (
            ("buffered", BUFFERED),
            ("group(16, 5)", group()),
            ("each flush", EACH_FLUSH),
        ):
            sessions = SqliteSessions(os.path.join(place, f"{name}.db"), durability=durability)
            logs: dict[str, Any] = {
                "JSONL": JsonlLog(os.path.join(place, f"{name}.jsonl"), durability=durability),
                "SQLite": sessions.create("s"),
            }
            for kind, log in logs.items():
                taken: dict[str, list[float]] = {"ours": [], "bare": []}
                asyncio.run(_flushes(log, facts, fd, lines, sizes.flushes, taken))
                rows[f"{name}, {kind}, wall ms"] = {
                    side: statistics.mean(sorted(times)[: len(times) * 9 // 10 or 1]) * 1e3
                    for side, times in taken.items()
                }
                log.close()
            sessions.close()
        os.close(fd)
    return rows


async def _flushes(
    log: Any, facts: list[Fact], fd: int, lines: list[bytes], flushes: int, taken: dict[str, list[float]]
) -> None:
    for number in range(flushes):
        fact = facts[number % len(facts)]
        numbered([fact], log.seq)
        start = time.perf_counter()
        log.append(fact)
        await log.flush()
        middle = time.perf_counter()
        os.write(fd, lines[number % len(lines)])
        os.fdatasync(fd)
        taken["ours"].append(middle - start)
        taken["bare"].append(time.perf_counter() - middle)


def running(base: str, sizes: Sizes) -> Rows:
    """µs for a turn of the kernel with a log, beside one without."""
    turns = min(sizes.turns, 200)

    async def run(log: EventLog | None = None) -> None:
        config = LoopConfig(model=FakeModel(tool_turns(turns)), limits=Limits(turns=turns + 10), log=log)
        async for _ in agent_loop("go", AgentContext(tools=[noop]), config):
            pass

    with folder(base) as place, SqliteSessions(os.path.join(place, "s.db")) as sessions:

        async def jsonl() -> None:
            with JsonlLog(os.path.join(place, f"{next(_numbers)}.jsonl")) as log:
                await run(log)

        async def sqlite() -> None:
            with sessions.create() as log:
                await run(log)

        found = scaled(
            best({"none": run, "jsonl": jsonl, "sqlite": sqlite}, sizes.laps // 2 + 1), 1e6 / turns
        )
    return {
        "turn with a JSONL log, µs": {"ours": found["jsonl"], "bare": found["none"]},
        "turn with a SQLite log, µs": {"ours": found["sqlite"], "bare": found["none"]},
    }
