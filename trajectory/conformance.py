"""The conformance kit for logs: ``await check_log(make)``.

A store of your own passes in your tests with one line, on asyncio and on trio::

    await check_log(lambda name: MyLog(folder / name))

Each check works on logs of its own, which are closed when it is over. A log that is a ``SessionLog``, too,
is asked for its session and its state.

Read with: ``conformance_facts.py`` (what is stored), ``unspool.kernel.conformance`` (the pieces),
``unspool.kernel.ports`` (``EventLog``), ``unspool.kernel.recorder`` (``SessionLog``).
"""

import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from inspect import iscoroutine
from typing import Any, TypeAlias

from anyio import to_thread
from anyio.lowlevel import checkpoint

from unspool.kernel.agent import Agent
from unspool.kernel.conformance import (
    MOMENTS,
    SETTLE,
    Check,
    Kit,
    Ran,
    Running,
    attempt,
    living,
    must_be_callable,
    shown,
)
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact
from unspool.kernel.ports import Clock, EventLog
from unspool.kernel.recorder import SessionLog
from unspool.kernel.state import AgentState, fold

from .conformance_facts import (
    PROMPT,
    SIGNAL,
    UNKNOWN,
    EchoModel,
    awkward,
    echo,
    memos,
    not_json,
    survives_json,
    turns,
)

MakeLog: TypeAlias = "Callable[[str], EventLog | Awaitable[EventLog]]"
_METHODS = ("append", "flush", "read", "tail", "aclose")
_MOST = 10_000  # facts that a log is read for, so that one without end is found out
_THREADS, _EACH = 4, 25


async def check_log(
    make: MakeLog,
    *,
    durable: bool = True,
    clock: Clock | None = None,
    timeout_s: float = 60.0,
    grace_s: float = 5.0,
    skip: Collection[str] = (),
) -> None:
    """Check that a log keeps to the protocol ``EventLog``, on the event loop that this is awaited on.

    ``make`` opens the log of a name, sync or async: a new and empty one for a name it was not given before,
    else the one it was given then, with what was stored. Names are random, of letters, digits and ``-``.
    ``durable`` is False for a log whose facts are gone when it is closed: it is not opened again, nor by a
    second writer, and may keep what is not JSON. ``timeout_s`` bounds one use of the log, ``grace_s`` the
    end of a tail that was told to end, both on ``clock``. ``skip`` names checks to leave out.

    Raises:
        ConformanceError: lists each violation.
        TypeError: ``make`` is a log.
        ValueError: ``skip`` names no check.
    """
    __tracebackhide__ = True
    must_be_callable(make, _METHODS, "check_log")
    kit = _LogKit(lambda: None, clock, timeout_s, grace_s)
    kit.make, kit.durable = make, durable
    await kit.carry_out(_CHECKS if durable else _TRANSIENT, skip)
    kit.conclude("log")


class _Watch:
    """A tail that is read in a task of its own; ``facts`` is what it gave."""

    def __init__(self, kit: Kit, log: EventLog, start: int) -> None:
        self.facts: list[Fact] = []
        self._kit, self._log, self._start = kit, log, start
        self.running: Running = kit.start(self._work)

    async def _work(self) -> None:
        async with aclosing(self._log.tail(self._start)) as facts:
            async for fact in facts:
                self.facts.append(fact)
                self.running.poke()

    async def saw(self, count: int) -> bool:
        """Whether it gave that many facts in time."""
        await self.running.wait(self._kit.timeout_s, lambda: len(self.facts) >= count)
        for _ in range(SETTLE // 10):
            await checkpoint()  # one that gives too many does so now
        return len(self.facts) == count

    @property
    def got(self) -> str:
        """What came of it, as a violation shows it."""
        ran, given = self.running.ran, _numbers(self.facts)
        return given if ran is None else f"{given}, and then {ran.failure or 'it ended'}"


class _LogKit(Kit):
    make: MakeLog
    durable = True

    def __init__(
        self, make: Callable[[], Any], clock: Clock | None, timeout_s: float, grace_s: float
    ) -> None:
        super().__init__(make, clock, timeout_s, grace_s)
        self._opened: list[Any] = []
        self._watches: list[_Watch] = []
        self._names = 0
        self._token = os.urandom(4).hex()

    # --- logs and what is done with them

    def name(self) -> str:
        """A name that no log has."""
        self._names += 1
        return f"log{self._names}-{self._token}"

    async def open(self, name: str = "") -> Any:
        """The log of that name, or a new one."""
        ran = await self.try_open(name or self.name())
        if ran.error is not None:
            raise ran.error
        if ran.late:
            raise TimeoutError("`make` did not give a log in time")
        return ran.value

    async def try_open(self, name: str) -> Ran:
        ran = await self.run(self.fresh, partial(self.make, name))
        if not ran.failure:
            self._opened.append(ran.value)
        return ran

    async def filled(self, facts: Iterable[Fact], name: str = "") -> Any:
        """A new log that holds ``facts``."""
        log = await self.open(name)
        for fact in facts:
            log.append(fact)
        return log

    async def reopened(self, log: EventLog, name: str) -> Any:
        """The log of that name after ``log``, which has it open, was closed."""
        await self.must(log.aclose)
        return await self.open(name)

    async def must(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """What ``fn(*args)`` gives."""
        ran = await self.run(fn, *args)
        if ran.error is not None:
            raise ran.error
        if ran.late:
            raise TimeoutError(f"{fn!r} did not end in time")
        return ran.value

    async def read(self, log: EventLog, start: int = 0, stop: int | None = None) -> Ran:
        """The facts that it has, as a list."""
        return await self.run(_collected, log, start, stop)

    async def holds(
        self, log: EventLog, facts: Sequence[Fact], expected: str, advice: str, *bounds: int | None
    ) -> bool:
        """Say so unless reading it gives ``facts``; whether it did."""
        start, stop = bounds or (0, None)
        ran = await self.read(log, start or 0, stop)
        if ran.failure or ran.value != list(facts):
            self.found_once(expected, ran.failure or _difference(facts, ran.value), advice)
            return False
        return True

    def watch(self, log: EventLog, start: int = 0) -> _Watch:
        watch = _Watch(self, log, start)
        self._watches.append(watch)
        return watch

    async def in_thread(self, fn: Callable[..., Any], *args: Any) -> Ran:
        """What synchronous foreign code comes to in a thread."""
        return await self.run(partial(to_thread.run_sync, abandon_on_cancel=True), partial(fn, *args))

    async def _carry_out(self, check: Check[Any]) -> None:
        await super()._carry_out(check)
        watches, self._watches = self._watches, []
        for watch in watches:
            watch.running.cancel()
            await watch.running.wait(self.grace_s)
        logs, self._opened = self._opened, []
        for log in logs:
            close = getattr(log, "aclose", None)
            if close is not None:
                await self.run(close)

    # --- storing

    async def opens(self) -> None:
        expected = "`make` gives a log for a new name"
        ran = await self.try_open(self.name())
        if ran.failure:
            self.found(expected, ran.failure, "make what is missing: a file, a table")
        elif missing := [name for name in _METHODS if not callable(getattr(ran.value, name, None))]:
            got = f"{shown(ran.value)} without {', '.join(missing)}"
            self.found(expected, got, "give it the methods of EventLog")
        else:
            advice = "open another store for each name; keep headers and the like to yourself"
            await self.holds(ran.value, [], "a log of a new name is empty", advice)

    async def append(self) -> None:
        log = await self.open()
        for fact in turns(3):
            ran = attempt(log.append, fact)
            if iscoroutine(ran.value):
                ran.value.close()
            if ran.failure or ran.value is not None:
                got = ran.failure or f"it gave {shown(ran.value)}"
                advice = "make `append` a plain function that buffers or writes; do the slow part in `flush`"
                self.found_once("`append` stores the next fact, at once, and gives None", got, advice)

    async def read_bounds(self) -> None:
        facts = turns(4)
        log = await self.filled(facts)
        for start in range(6):
            for stop in (None, *range(6)):
                wanted = [fact for fact in facts if start < fact.seq and (stop is None or fact.seq <= stop)]
                expected = f"read({start}, {stop}) gives {_numbers(wanted)} of {_numbers(facts)}"
                advice = "give the facts with start < seq, and seq <= stop where there is one, in order"
                if not await self.holds(log, wanted, expected, advice, start, stop):
                    return

    async def contents(self) -> None:
        facts = awkward()
        log = await self.filled(facts)
        for fact in facts:
            expected = f"a fact comes back as it was: {shown(fact)}"
            advice = "store what `Codec.encode` gives, byte for byte, and read it with `Codec.decode`"
            if not await self.holds(log, [fact], expected, advice, fact.seq - 1, fact.seq):
                return

    async def unknown_kinds(self) -> None:
        log = await self.filled([UNKNOWN])
        expected = f"a fact of an unknown kind keeps its bytes: {UNKNOWN.raw!r}"
        await self.holds(log, [UNKNOWN], expected, "store and give back `UnknownFact.raw` as it is")

    async def wrong_seq(self) -> None:
        facts = turns(5)
        log = await self.filled(facts[:3])
        for seq in (0, 1, 3, 5, 1000):
            self._refused(attempt(log.append, turns(1, seq)[0]), f"fact {seq} after fact 3 is refused")
            advice = "look at `fact.seq` before anything is stored: the next is the last plus one"
            await self.holds(log, facts[:3], f"a refused fact {seq} changes nothing", advice)
        await self._goes_on(log, facts, 3, "after facts were refused")

    def _refused(self, ran: Ran, expected: str) -> None:
        if not isinstance(ran.error, LogError):
            got = ran.failure or "it is accepted"
            self.found_once(f"{expected} with LogError", got, "raise LogError")

    async def _goes_on(self, log: EventLog, facts: Sequence[Fact], count: int, when: str) -> None:
        """Append what follows the first ``count`` facts: all of them must be there."""
        expected, advice = f"{when}, the next ones are stored", "change nothing before all is well"
        for fact in facts[count:]:
            ran = attempt(log.append, fact)
            if ran.failure:
                self.found_once(expected, ran.failure, advice)
        await self.holds(log, facts, expected, advice)

    async def not_json(self) -> None:
        for what, odd in not_json().items():
            name, facts = self.name(), turns(3)
            log = await self.filled(facts[:1], name)
            ran = attempt(log.append, odd)
            if ran.failure:
                self._refused(ran, f"a fact with {what}, which is not JSON, is refused")
                await self._goes_on(log, facts, 1, f"after a fact with {what} was refused")
            kept = await self.read(log)
            if not ran.failure and (kept.failure or not survives_json(facts[0], odd, kept.value)):
                expected = f"a fact with {what}, which is not JSON, is refused, or becomes JSON that is read"
                got = kept.failure or shown(kept.value)
                self.found(expected, got, "check what is to be stored before anything is; raise LogError")
                continue
            again = await self.reopened(log, name)
            expected = f"a fact with {what} leaves a log that can be opened again"
            await self.holds(again, kept.value, expected, "store a fact whole, or nothing of it")

    async def signals(self) -> None:
        facts = turns(2)
        log = await self.filled(facts[:1])
        ran = attempt(log.append, SIGNAL)
        if ran.error is not None and not isinstance(ran.error, LogError):
            self.found("a signal is passed over, or refused with LogError", ran.failure, "store facts only")
        await self._goes_on(log, facts, 1, "after a signal, which is no fact and is not stored")

    async def threads(self) -> None:
        log, race = await self.open(), _Race()
        ran = await self.in_thread(race.run, log)
        race.over.set()
        expected = (
            "`append` may be called from any thread: of one number one fact is stored, others are refused"
        )
        advice = "hold a lock from the look at `fact.seq` until the fact is stored"
        accepted = sorted(race.accepted, key=lambda fact: fact.seq)
        if ran.failure or race.errors:
            self.found(expected, ran.failure or Ran(error=race.errors[0]).failure, advice)
        elif [fact.seq for fact in accepted] != list(range(1, _EACH + 1)):
            self.found(expected, f"{_numbers(accepted)} were accepted", advice)
        else:
            await self.holds(log, accepted, expected, advice)

    # --- keeping

    async def flush(self) -> None:
        log = await self.open()
        for when in ("with nothing to flush", "with facts", "again"):
            ran = await self.run(log.flush)
            if ran.failure or ran.value is not None:
                got = ran.failure or f"it gave {shown(ran.value)}"
                self.found(f"`flush` {when} returns None", got, "return when all is durable")
                return
            if when == "with nothing to flush":
                log.append(turns(1)[0])
        ran = await self.run(_both, self, log.flush)
        if ran.failure:
            self.found("`flush` twice at once returns", ran.failure, "let the second wait for the first")

    async def closes(self) -> None:
        facts, name = turns(2), self.name()
        log = await self.filled(facts[:1], name)
        for when in ("`aclose`", "`aclose` again"):
            ran = await self.run(log.aclose)
            if ran.failure:
                self.found_once(f"{when} returns", ran.failure, "do nothing where it is closed already")
        self._refused(attempt(log.append, facts[1]), "`append` after `aclose` is refused")
        if self.durable:
            expected = "what was refused after `aclose` is not stored"
            await self.holds(await self.open(name), facts[:1], expected, "refuse it before it is stored")

    async def reopens(self) -> None:
        hard, name = awkward(), self.name()
        facts = [*hard, *turns(3, len(hard) + 1)]
        first, last = facts[:-2], facts[-2:]
        log = await self.filled(first, name)
        await self.must(log.flush)
        log = await self.reopened(log, name)
        advice = "have `make` open the store of that name again; write in `append` or in `flush`"
        expected = "what was appended before a flush is there when the log is opened again"
        if not await self.holds(log, first, expected, advice):
            return
        await self._goes_on(log, facts, len(first), "in a log that was opened again")
        log = await self.reopened(log, name)
        expected = f"{_numbers(last)}, appended before the log was closed, are there, too"
        await self.holds(log, facts, expected, "flush in `aclose`")

    async def second_writer(self) -> None:
        facts, name = turns(3), self.name()
        first = await self.filled(facts[:2], name)
        await self.must(first.flush)
        ran = await self.try_open(name)
        if ran.failure:
            self._refused(ran, "a second writer of a log that is open is refused")
            await self._goes_on(first, facts, 2, "after a second writer was refused")
            return
        second, other = ran.value, turns(1, 3, run_id="second writer")[0]
        apart = isinstance(first, SessionLog) and second.session != first.session
        taken = [
            fact
            for log, fact in ((second, other), (first, facts[2]))
            if not attempt(log.append, fact).failure
        ]
        wanted = facts if apart else [*facts[:2], *taken]
        await self.must(second.aclose)
        log = await self.reopened(first, name)
        expected = "two writers of one log are not mixed: one is refused, or what is accepted is there"
        advice = "take a lock when the log is opened, and raise LogError where another has it"
        await self.holds(log, wanted, expected, advice)

    # --- following

    async def tail(self) -> None:
        facts = turns(4)
        log = await self.filled(facts[:2])
        for start in (0, 1):
            watch = self.watch(log, start)
            await self._sees(watch, facts[start:2], f"tail({start}) gives what is there after fact {start}")
        if not self.violations or self.violations[-1].check != "tail":
            watch = self.watch(log)
            await watch.saw(2)
            log.append(facts[2])
            await self._sees(watch, facts[:3], "a tail waits, and gives what is appended")

    async def _sees(self, watch: _Watch, facts: Sequence[Fact], expected: str) -> None:
        seen = await watch.saw(len(facts))
        if not seen or watch.facts != list(facts) or watch.running.ran is not None:
            advice = "in `tail`: read what is there, wait to be woken by `append`, read on"
            self.found_once(f"{expected}: {_numbers(facts)}", watch.got, advice)

    async def tail_threads(self) -> None:
        facts = turns(20)
        log = await self.filled(facts[:1])
        watch = self.watch(log)
        await watch.saw(1)
        for fact in facts[1:]:
            log.append(fact) if fact.seq % 2 else await self.in_thread(log.append, fact)
        if not await watch.saw(len(facts)) or watch.facts != facts:
            advice = "wake the tail's event loop with call_soon_threadsafe, or trio's token"
            self.found("a tail gives what other threads append, in order", watch.got, advice)

    async def tail_ends(self) -> None:
        facts = turns(2)
        log = await self.filled(facts[:1])
        watch = self.watch(log)
        await watch.saw(1)
        log.append(facts[1])
        await self.must(log.aclose)
        ended = await watch.running.wait(self.grace_s)
        ran = watch.running.ran or Ran(late=True)
        if not ended or ran.failure or watch.facts != facts:
            expected = "a tail gives the rest and ends when the log is closed"
            got = watch.got if ended else f"{watch.got}, and no end within {self.grace_s:g} s"
            self.found(expected, got, "wake the tails in `aclose`")

    async def tail_cancelled(self) -> None:
        facts = turns(3)
        log = await self.filled(facts[:2])
        for moment in MOMENTS:
            before = living()
            watch = self.watch(log)
            ran = await self.run_cancelled(partial(watch.running.wait, self.timeout_s), moment)
            watch.running.cancel()
            ended = await watch.running.wait(self.grace_s)
            left = await self.left_since(before)
            if ran is None or not ended or left:
                expected = (
                    f"a tail that is cancelled ends within {self.grace_s:g} s and leaves no task behind"
                )
                got = f"still running: {', '.join(left)}" if left else watch.got
                self.found_once(expected, got, "wait in the generator itself, and clean up in `finally`")
                return
        await self._goes_on(log, facts, 2, "after tails were cancelled")

    # --- sessions, and agents on them

    async def session(self) -> None:
        log = await self.open()
        if not _knows_its_session(log):
            return
        session = log.session
        if not isinstance(session, str) or not session or log.session != session:
            self.found("`session` is a text, always the same", shown(log.session), "make an id for each log")
            return
        other = (await self.open()).session
        if other == session:
            self.found("each log has a session of its own", f"both have {shown(other)}", "make random ids")

    async def session_stays(self) -> None:
        name = self.name()
        log = await self.open(name)
        if not _knows_its_session(log):
            return
        session = log.session
        again = (await self.reopened(log, name)).session
        if again != session:
            expected = f"the session stays when the log is opened again: {session!r}"
            self.found(expected, shown(again), "store the id with the log")

    async def state(self) -> None:
        name, (codec, facts) = self.name(), memos()
        log = await self.open(name)
        if not _knows_its_session(log):
            return
        self._state(log, AgentState(), codec)
        for fact in facts:
            log.append(fact)
        self._state(log, fold(facts), codec)
        if self.durable:
            self._state(await self.reopened(log, name), fold(facts), codec)

    def _state(self, log: SessionLog, wanted: AgentState, codec: Any) -> None:
        ran = attempt(log.state, codec)
        if ran.failure or ran.value != wanted:
            expected = "`state(codec)` is the fold of the facts, application messages decoded by `codec`"
            got = ran.failure or shown(ran.value)
            self.found_once(expected, got, "return fold(the facts, decoded by the codec that is given)")

    async def run_recorded(self) -> None:
        log = await self.open()
        await self._run(self._agent(log, None), log, 4, "a run of an agent")

    def _agent(self, log: EventLog, state: AgentState | None) -> Agent[str]:
        return Agent(EchoModel(), tools=[echo()], log=log, clock=self.clock, state=state)

    async def _run(self, agent: Agent[str], log: EventLog, messages: int, what: str) -> None:
        ran = await self.run(agent.run, PROMPT)
        kept = await self.read(log)
        expected = f"{what} ends well, and the facts of the log fold into its state"
        if ran.failure or kept.failure:
            self.found(expected, ran.failure or kept.failure, "see the other checks")
        elif fold(kept.value) != agent.state or len(agent.state.messages) != messages:
            got = f"{_numbers(kept.value)} and {len(agent.state.messages)} messages"
            self.found(expected, got, "store every fact that is appended, in order")

    async def goes_on(self) -> None:
        name = self.name()
        log = await self.open(name)
        first = self._agent(log, None)
        await self.must(first.run, PROMPT)
        again = await self.reopened(log, name) if self.durable else log
        kept = await self.must(_collected, again, 0, None)
        agent = self._agent(again, None if isinstance(again, SessionLog) else fold(kept))
        if agent.state != first.state:
            expected = "an agent that is given the log again knows what the first one knew"
            got = f"{agent.state.seq} facts, not {first.state.seq}"
            self.found(expected, got, "give in `state` the fold of all facts")
            return
        await self._run(agent, again, 8, "a second run, of an agent that was given the log again,")


_CHECKS: tuple[Check[_LogKit], ...] = (
    Check("opens", _LogKit.opens),
    Check("append", _LogKit.append, ("opens",)),
    Check("read", _LogKit.read_bounds, ("append",)),
    Check("contents", _LogKit.contents, ("read",)),
    Check("unknown_kinds", _LogKit.unknown_kinds, ("read",)),
    Check("wrong_seq", _LogKit.wrong_seq, ("read",)),
    Check("signals", _LogKit.signals, ("read",)),
    Check("threads", _LogKit.threads, ("wrong_seq",)),
    Check("flush", _LogKit.flush, ("append",)),
    Check("reopens", _LogKit.reopens, ("contents", "flush")),
    Check("closes", _LogKit.closes, ("reopens",)),
    Check("not_json", _LogKit.not_json, ("reopens",)),
    Check("second_writer", _LogKit.second_writer, ("reopens",)),
    Check("tail", _LogKit.tail, ("read",)),
    Check("tail_threads", _LogKit.tail_threads, ("tail",)),
    Check("tail_ends", _LogKit.tail_ends, ("tail", "closes")),
    Check("tail_cancelled", _LogKit.tail_cancelled, ("tail",)),
    Check("session", _LogKit.session, ("opens",)),
    Check("session_stays", _LogKit.session_stays, ("session", "reopens")),
    Check("state", _LogKit.state, ("contents", "reopens")),
    Check("run", _LogKit.run_recorded, ("contents", "flush")),
    Check("goes_on", _LogKit.goes_on, ("run", "state")),
)
_LASTING = ("not_json", "reopens", "second_writer", "session_stays")
_TRANSIENT = tuple(check for check in _CHECKS if check.name not in _LASTING)
"""For a log that keeps nothing when it is closed."""


# --- small things ------------------------------------------------------------------------------


def _knows_its_session(log: object) -> bool:
    return isinstance(log, SessionLog)


async def _collected(log: EventLog, start: int, stop: int | None) -> list[Fact]:
    found: list[Fact] = []
    facts: AsyncIterator[Fact] = log.read(start, stop)
    async for fact in facts:
        found.append(fact)
        if len(found) > _MOST:
            break
    close = getattr(facts, "aclose", None)
    if close is not None:
        await close()
    return found


async def _both(kit: Kit, fn: Callable[[], Awaitable[Any]]) -> None:
    first, second = kit.start(fn), kit.start(fn)
    for running in (first, second):
        ran = await kit.result(running)
        if ran.error is not None:
            raise ran.error
        if ran.late:
            raise TimeoutError("it did not end in time")


class _Race:
    """Threads that each try to store a fact of their own under each number."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.accepted: list[Fact] = []
        self.errors: list[BaseException] = []
        self._taken: set[int] = set()
        self._begin = threading.Barrier(_THREADS)

    def run(self, log: EventLog) -> None:
        threads = [
            threading.Thread(target=self._work, args=(log, f"thread {number}"), daemon=True)
            for number in range(_THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, log: EventLog, name: str) -> None:
        self._begin.wait()
        for fact in turns(_EACH, run_id=name):
            while fact.seq not in self._taken and not self.over.is_set():
                ran = attempt(log.append, fact)
                if ran.error is None:
                    self.accepted.append(fact)
                    self._taken.add(fact.seq)
                elif isinstance(ran.error, LogError):
                    time.sleep(0)  # another is faster, or its turn has not come
                else:
                    self.errors.append(ran.error)
                    self.over.set()


def _numbers(facts: Sequence[Fact]) -> str:
    """Facts by their numbers, as a violation shows them."""
    seqs = [fact.seq for fact in facts]
    if not seqs:
        return "no facts"
    if len(seqs) > 2 and seqs == list(range(seqs[0], seqs[-1] + 1)):
        return f"facts {seqs[0]}–{seqs[-1]}"
    return f"fact{'s' if len(seqs) > 1 else ''} {', '.join(map(str, seqs))}"


def _difference(wanted: Sequence[Fact], got: Sequence[Fact]) -> str:
    """Where two lists of facts part."""
    for fact, other in zip(wanted, got, strict=False):
        if fact != other:
            return shown(other)
    return f"{_numbers(got)}, not {_numbers(wanted)}"
