"""The conformance kit for logs: our own pass, and each check finds what is broken for it alone."""

import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from msgspec.structs import replace

from unspool import AgentState, Codec, Fact, LogError, Signal, TurnStart, fold
from unspool.kernel import ConformanceError, EventLog
from unspool.kernel.errors import CodecError
from unspool.kernel.events import ContextProjected, ErrorEvent, UnknownFact
from unspool.kernel.spawn import current_backend
from unspool.trajectory import EACH_FLUSH, JsonlLog, MemoryLog, SqliteSessions, check_log
from unspool.trajectory.conformance import _CHECKS
from unspool.trajectory.strict import encode
from unspool.trajectory.tails import Tails

Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs an async function on each backend."""

    def runner(main: Callable[[], Awaitable[None]]) -> None:
        anyio.run(main, backend=request.param)

    return runner


def failed(run: Run, check: Callable[[], Awaitable[None]]) -> ConformanceError | None:
    """What the kit tells; None when all is well."""
    try:
        run(check)
    except ConformanceError as error:
        return error
    return None


# --- ours --------------------------------------------------------------------------------------


def test_memory_logs_pass(run: Run) -> None:
    run(lambda: check_log(lambda name: MemoryLog(), durable=False))


def test_jsonl_logs_pass(run: Run, tmp_path: Path) -> None:
    run(lambda: check_log(lambda name: JsonlLog(tmp_path / name, durability=EACH_FLUSH)))


@pytest.mark.parametrize("path", ["logs.db", ":memory:"])
def test_sqlite_logs_pass(run: Run, tmp_path: Path, path: str) -> None:
    with SqliteSessions(path if path == ":memory:" else tmp_path / path) as sessions:

        def make(name: str) -> EventLog:
            with suppress(LogError):
                return sessions.create(name)
            return sessions.open(name)

        run(lambda: check_log(make))


# --- a store that is right, and many that are not -----------------------------------------------


class Shelf:
    """What a store keeps of one log."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.session = os.urandom(8).hex()
        self.busy = False


class Good:
    """A store that keeps to the protocol: it buffers until it is flushed."""

    shelves: dict[str, Shelf]

    def __init__(self, name: str) -> None:
        self.shelf = self.shelves.setdefault(name, Shelf())
        self.take()
        self.lines = list(self.shelf.lines)
        self.seq = len(self.lines)
        self.codec = Codec()
        self.lock = threading.Lock()
        self.tails = Tails()
        self.closed = False

    def take(self) -> None:
        if self.shelf.busy:
            raise LogError("log: another writer has it open")
        self.shelf.busy = True

    @property
    def session(self) -> str:
        return self.shelf.session

    def append(self, fact: Fact | Signal) -> Any:
        if isinstance(fact, Signal):
            return
        line = self.encode(fact)
        with self.lock:
            self.check(fact)
            self.lines.append(line)
            self.seq += 1
        self.wake()

    def encode(self, fact: Any) -> bytes:
        try:
            return encode(self.codec, fact)
        except CodecError as error:
            raise LogError("log: the fact cannot be stored", reason=str(error)) from error

    def check(self, fact: Fact) -> None:
        if self.closed:
            raise LogError("log: closed")
        if fact.seq != self.seq + 1:
            raise LogError("log: not the next fact", seq=fact.seq)

    def wake(self) -> None:
        self.tails.wake()

    async def flush(self) -> Any:
        await anyio.lowlevel.checkpoint()
        self.shelf.lines = list(self.lines)

    def facts(self, codec: Codec | None = None) -> Iterator[Fact]:
        return map((codec or self.codec).decode, list(self.lines))

    async def read(self, start: int = 0, stop: int | None = None) -> AsyncGenerator[Fact, None]:
        for fact in self.facts():
            if self.wanted(fact.seq, start, stop):
                yield fact

    def wanted(self, seq: int, start: int, stop: int | None) -> bool:
        return start < seq and (stop is None or seq <= stop)

    async def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        waiter = self.tails.join()
        try:
            while True:
                closed = self.closed
                for fact in list(self.facts())[start:]:
                    yield fact
                    start = fact.seq
                if closed:
                    return
                await waiter.wait()
        finally:
            self.tails.leave(waiter)

    async def aclose(self) -> None:
        if not self.closed:
            await self.flush()
            self.shelf.busy = False
        self.closed = True
        self.wake()

    def state(self, codec: Codec | None = None) -> AgentState:
        return fold(self.facts(codec))


class NotEmpty(Good):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.append(TurnStart(1, seq=1))


class NoTail(Good):
    tail: Any = None


class CannotBeMade(Good):
    def __init__(self, name: str) -> None:
        raise PermissionError("no")


class AsyncAppend(Good):
    async def append(self, fact: Any) -> None:
        super().append(fact)


class GivesNumber(Good):
    def append(self, fact: Any) -> Any:
        super().append(fact)
        return self.seq


class RefusesAll(Good):
    def check(self, fact: Fact) -> None:
        raise LogError("log: full")


class IncludesStart(Good):
    def wanted(self, seq: int, start: int, stop: int | None) -> bool:
        return start <= seq and (stop is None or seq <= stop)


class ExcludesStop(Good):
    def wanted(self, seq: int, start: int, stop: int | None) -> bool:
        return start < seq and (stop is None or seq < stop)


class StopsAtZero(Good):
    def wanted(self, seq: int, start: int, stop: int | None) -> bool:
        return start < seq and (not stop or seq <= stop)


class NewestFirst(Good):
    def facts(self, codec: Codec | None = None) -> Iterator[Fact]:
        return reversed(list(super().facts(codec)))


class NeverStopsReading(Good):
    async def read(self, start: int = 0, stop: int | None = None) -> AsyncGenerator[Fact, None]:
        while self.lines:
            yield TurnStart(1, seq=1)
        await anyio.lowlevel.checkpoint()


class CutsText(Good):
    def encode(self, fact: Any) -> bytes:
        return super().encode(fact).replace(b"\\u0000", b"")


class RoundsTimes(Good):
    def encode(self, fact: Any) -> bytes:
        known = type(fact) is not UnknownFact and not isinstance(fact, TurnStart)
        return super().encode(replace(fact, time=round(fact.time, 3)) if known else fact)


class TidiesUnknown(Good):
    def encode(self, fact: Any) -> bytes:
        line = super().encode(fact)
        return msgspec.json.encode(msgspec.json.decode(line)) if type(fact) is UnknownFact else line


class DropsUnknown(Good):
    def facts(self, codec: Codec | None = None) -> Iterator[Fact]:
        return (fact for fact in super().facts(codec) if type(fact) is not UnknownFact)


class TakesAnyNumber(Good):
    def check(self, fact: Fact) -> None:
        if self.closed:
            raise LogError("log: closed")


class RaisesValueError(Good):
    def check(self, fact: Fact) -> None:
        if fact.seq != self.seq + 1:
            raise ValueError(fact.seq)
        super().check(fact)


class CountsFirst(Good):
    def check(self, fact: Fact) -> None:
        wanted = self.seq + 1
        if fact.seq != wanted and not self.closed:
            self.seq += 1
            raise LogError("log: not the next fact")
        super().check(fact)


class IgnoresRepeats(Good):
    def append(self, fact: Any) -> Any:
        return None if fact.seq <= self.seq else super().append(fact)


class WritesNan(Good):
    def encode(self, fact: Any) -> bytes:
        if type(fact) is ErrorEvent and "x" in fact.details and fact.kind == "x":
            return b'{"type":"error","kind":"x","details":{"x":NaN},"seq":2}'
        return super().encode(fact)


class RaisesTypeError(Good):
    def encode(self, fact: Any) -> bytes:
        try:
            return super().encode(fact)
        except LogError as error:
            raise TypeError(str(error)) from error


class HalfWrites(Good):
    def encode(self, fact: Any) -> bytes:
        try:
            return super().encode(fact)
        except LogError:
            self.lines.append(b'{"type":"error","kind":"')
            raise


class StoresSignals(Good):
    def append(self, fact: Any) -> Any:
        if isinstance(fact, Signal):
            self.lines.append(self.codec.encode(TurnStart(1, seq=fact.seq)))
            return None
        return super().append(fact)


class FailsAtSignals(Good):
    def append(self, fact: Any) -> Any:
        if isinstance(fact, Signal):
            raise TypeError("no fact")
        return super().append(fact)


class NoLock(Good):
    def append(self, fact: Any) -> Any:
        if isinstance(fact, Signal):
            return
        line = self.encode(fact)
        self.check(fact)
        threading.Event().wait(0.001)  # where another thread comes in
        self.lines.append(line)
        self.seq = fact.seq
        self.wake()


class OneThread(Good):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.thread = threading.get_ident()

    def check(self, fact: Fact) -> None:
        if threading.get_ident() != self.thread:
            raise RuntimeError("made in another thread")
        super().check(fact)


class FlushGives(Good):
    async def flush(self) -> Any:
        await super().flush()
        return len(self.lines)


class FlushNeedsFacts(Good):
    async def flush(self) -> Any:
        if not self.closed and len(self.lines) == len(self.shelf.lines):
            raise LogError("log: nothing to flush")
        await super().flush()


class FlushesOneAtATime(Good):
    flushing = False

    async def flush(self) -> Any:
        if self.flushing:
            raise LogError("log: busy")
        self.flushing = True
        await super().flush()
        self.flushing = False


class HangsInFlush(Good):
    async def flush(self) -> Any:
        await anyio.sleep_forever()

    async def aclose(self) -> None:
        self.closed = True
        self.wake()


class TakesAfterClose(Good):
    def check(self, fact: Fact) -> None:
        if fact.seq != self.seq + 1:
            raise LogError("log: not the next fact")


class ClosesOnce(Good):
    async def aclose(self) -> None:
        if self.closed:
            raise LogError("log: closed")
        await super().aclose()


class ForgetsBuffer(Good):
    async def aclose(self) -> None:
        self.closed = True
        self.shelf.busy = False
        self.wake()


class ForgetsAll(Good):
    async def flush(self) -> None:
        await anyio.lowlevel.checkpoint()


class BeginsAgain(Good):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.seq = 0


class LastWriterWins(Good):
    def take(self) -> None:
        pass


class RefusesWithOSError(Good):
    def take(self) -> None:
        if self.shelf.busy:
            raise BlockingIOError("locked")
        self.shelf.busy = True


class TailEndsEarly(Good):
    async def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        async for fact in self.read(start):
            yield fact


class TailFromNow(Good):
    async def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        async with aclosing(super().tail(self.seq)) as facts:
            async for fact in facts:
                yield fact


class TailRepeats(Good):
    async def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        async with aclosing(super().tail(start)) as facts:
            async for fact in facts:
                yield fact
                yield fact


class TailHearsOneThread(Good):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.thread = threading.get_ident()

    def wake(self) -> None:
        if threading.get_ident() == self.thread:
            super().wake()


class TailNeverEnds(Good):
    async def aclose(self) -> None:
        tails, self.tails = self.tails, Tails()
        await super().aclose()
        self.tails = tails


class TailLeaks(Good):
    async def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        current_backend().spawn(anyio.sleep_forever)
        async with aclosing(super().tail(start)) as facts:
            async for fact in facts:
                yield fact


class TailIsMissed(Good):
    gone = False

    async def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        try:
            async with aclosing(super().tail(start)) as facts:
                async for fact in facts:
                    yield fact
        finally:
            self.gone = not self.closed

    def check(self, fact: Fact) -> None:
        if self.gone:
            raise RuntimeError("a reader is gone")
        super().check(fact)


class NewSession(Good):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.shelf.session = os.urandom(8).hex()


class OneSession(Good):
    @property
    def session(self) -> str:
        return "the session"


class NoSession(Good):
    session: Any = None


class StateWithoutCodec(Good):
    def state(self, codec: Codec | None = None) -> AgentState:
        return fold(self.facts())


class OldState(Good):
    made: AgentState | None = None

    def state(self, codec: Codec | None = None) -> AgentState:
        self.made = self.made or super().state(codec)
        return self.made


class DropsProjections(Good):
    def facts(self, codec: Codec | None = None) -> Iterator[Fact]:
        return (fact for fact in super().facts(codec) if type(fact) is not ContextProjected)


class RefusesProjections(Good):
    def encode(self, fact: Any) -> bytes:
        if type(fact) is ContextProjected:
            raise LogError("log: too large")
        return super().encode(fact)


class ShortState(Good):
    def state(self, codec: Codec | None = None) -> AgentState:
        return fold(list(self.facts(codec))[:5])


BROKEN: list[tuple[type[Good], str]] = [
    (NotEmpty, "opens"),
    (NoTail, "opens"),
    (CannotBeMade, "opens"),
    (AsyncAppend, "append"),
    (GivesNumber, "append"),
    (RefusesAll, "append"),
    (IncludesStart, "read"),
    (ExcludesStop, "read"),
    (StopsAtZero, "read"),
    (NewestFirst, "read"),
    (NeverStopsReading, "read"),
    (CutsText, "contents"),
    (RoundsTimes, "contents"),
    (TidiesUnknown, "unknown_kinds"),
    (DropsUnknown, "unknown_kinds"),
    (TakesAnyNumber, "wrong_seq"),
    (RaisesValueError, "wrong_seq"),
    (CountsFirst, "wrong_seq"),
    (IgnoresRepeats, "wrong_seq"),
    (WritesNan, "not_json"),
    (RaisesTypeError, "not_json"),
    (HalfWrites, "not_json"),
    (StoresSignals, "signals"),
    (FailsAtSignals, "signals"),
    (NoLock, "threads"),
    (FlushGives, "flush"),
    (FlushNeedsFacts, "flush"),
    (FlushesOneAtATime, "flush"),
    (HangsInFlush, "flush"),
    (TakesAfterClose, "closes"),
    (ClosesOnce, "closes"),
    (ForgetsAll, "reopens"),
    (ForgetsBuffer, "reopens"),
    (BeginsAgain, "reopens"),
    (LastWriterWins, "second_writer"),
    (RefusesWithOSError, "second_writer"),
    (TailEndsEarly, "tail"),
    (TailFromNow, "tail"),
    (TailRepeats, "tail"),
    (TailHearsOneThread, "tail_threads"),
    (TailNeverEnds, "tail_ends"),
    (TailLeaks, "tail_cancelled"),
    (TailIsMissed, "tail_cancelled"),
    (NewSession, "session_stays"),
    (OneSession, "session"),
    (NoSession, "session"),
    (StateWithoutCodec, "state"),
    (OldState, "state"),
    (DropsProjections, "run"),
    (RefusesProjections, "run"),
    (ShortState, "goes_on"),
]


HANGING = (HangsInFlush, TailFromNow, TailHearsOneThread)


@pytest.fixture(autouse=True)
def shelves() -> Iterator[None]:
    Good.shelves = {}
    yield
    Good.shelves = {}


def test_a_good_log_passes(run: Run) -> None:
    run(lambda: check_log(Good))
    run(lambda: check_log(Good, durable=False))


@pytest.mark.parametrize(("broken", "check"), BROKEN, ids=[row[0].__name__ for row in BROKEN])
def test_a_broken_log_fails_the_one_check(run: Run, broken: type[Good], check: str) -> None:
    timeout_s = 0.3 if broken in HANGING else 30
    error = failed(run, lambda: check_log(broken, timeout_s=timeout_s, grace_s=0.05))
    assert error is not None and error.checks == (check,), str(error)


# --- what the kit is given ----------------------------------------------------------------------


def test_make_may_be_async(run: Run) -> None:
    async def make(name: str) -> EventLog:
        await anyio.lowlevel.checkpoint()
        return Good(name)

    run(lambda: check_log(make))


def test_a_log_need_not_be_a_session(run: Run) -> None:
    class Plain(Good):
        state: Any = property()

    run(lambda: check_log(Plain))


def test_a_make_that_never_ends(run: Run) -> None:
    async def make(name: str) -> EventLog:
        await anyio.sleep_forever()
        return Good(name)

    error = failed(run, lambda: check_log(make, timeout_s=0.05, grace_s=0.05))
    assert error is not None and error.checks == ("opens",)
    assert "did not end in time" in str(error)


def test_checks_may_be_left_out(run: Run) -> None:
    run(lambda: check_log(StoresSignals, skip=["signals"]))
    with pytest.raises(ValueError, match=r"no such check: speed; there are opens, append, read"):
        run(lambda: check_log(Good, skip=["speed"]))


def test_a_log_instead_of_a_maker_is_refused(run: Run) -> None:
    with pytest.raises(TypeError, match="check_log"):
        run(lambda: check_log(MemoryLog()))  # type: ignore[arg-type]


def test_every_check_finds_something() -> None:
    assert {check for _, check in BROKEN} == {check.name for check in _CHECKS}


def test_all_logs_are_closed(run: Run) -> None:
    made: list[Good] = []

    def make(name: str) -> EventLog:
        made.append(Good(name))
        return made[-1]

    run(lambda: check_log(make))
    assert len(made) > 30 and all(log.closed for log in made)
