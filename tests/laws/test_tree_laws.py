"""The laws over random trees: Fold, Closure, Lock-step, Valid transcript, Rebuild and Replay in every session, and
the accounting of the whole, whatever the outside does and wherever the process dies."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from random_trees import ROOT, Deed, Phase, Plan, Process, Reply, Session, TreeScenario, trees
from scenarios import check_log, check_requests, check_state, settle, tasks_living

from unspool import Usage
from unspool.kernel import AgentEnd, ChildEnded, ChildStarted, Fact, ModelResponse, fold
from unspool.subagent.session_tree import check_accounting, read_tree
from unspool.trajectory import MemoryLog, SessionInfo, replay, requests

LONG = bool(os.environ.get("UNSPOOL_LONG"))
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
STOPPED = {"aborted", "budget"}  # see test_calls_that_are_stopped_together_replay_in_their_order
LAST = Phase()  # what comes after those of a scenario: everything is allowed, nothing is done from outside


async def play(scenario: TreeScenario) -> Process:
    """Play it through all its processes, and check every law after every phase."""
    process = Process(scenario, [], killed=False)
    for number in range(len(scenario.phases) + 20):
        last = number >= len(scenario.phases)
        phase = LAST if last else scenario.phases[number]
        living = tasks_living()
        more = False
        with anyio.move_on_after(20) as hang:
            more = await process.phase(phase, last=last)
        assert not hang.cancelled_caught, "the tree hangs"
        await settle()
        await process.clock.stop()
        assert tasks_living() == living, "a task outlived the run"
        if not more:
            return process
        await check(process)
        if last and process.agent.state.end_reason != "paused":
            return process
        if isinstance(phase.then, int):
            process = Process(scenario, process.order[: len(process.order) * phase.then // 100], killed=True)
        elif phase.then == "elsewhere":
            process = Process(scenario, process.order, killed=process.killed)
    raise AssertionError("it never ends")


async def check(process: Process) -> None:
    """Every law, of every session and of the whole."""
    assert process.violations == []
    assert process.agent.state == fold(process.log.facts)
    for session in process.sessions.values():
        await check_session(session, drained=process.drained, killed=process.killed)
    check_limits(process)
    check_usage(process)


async def check_session(session: Session, *, drained: bool, killed: bool) -> None:
    facts, state = session.log.facts, session.log.state()
    if not facts:
        return
    if not killed:  # a message after a kill leaves children of the call that was cut off open
        check_children(facts)
    if session.kept == 0:
        check_log(facts, paused=state.end_reason == "paused")
    check_state(facts, state)
    check_requests(facts)
    check_sent(session)
    if drained:
        assert [event for event in session.seen if isinstance(event, Fact)] == [
            fact for fact in facts[session.kept :] if fact.run_id
        ], "not every event was seen once and in order"
    if not {fact.reason for fact in facts if isinstance(fact, AgentEnd)} & STOPPED:
        await check_replay(session)


async def check_replay(session: Session) -> None:
    replayed = await replay(session.log)
    assert replayed.same, str(replayed.difference)


def check_children(facts: Iterable[Fact]) -> None:
    """Each start of a child has its end."""
    running: set[str] = set()
    for fact in facts:
        if isinstance(fact, ChildStarted):
            running.add(fact.child)
        elif isinstance(fact, ChildEnded):
            running.remove(fact.child)
    assert not running, f"children without an end: {running}"


def check_sent(session: Session) -> None:
    """From the log alone: the requests that the model was sent, each to the byte."""
    rebuilt = list(requests(session.log.facts))
    assert all(request.exact for request in rebuilt)
    known = len(list(requests(session.log.facts[: session.kept])))
    left = list(session.requests)
    for request in rebuilt[known:]:
        if left and request.request == left[0]:
            left.pop(0)
        else:
            assert request.response is None or request.response.error_kind == "canceled", (
                f"{session.log.session} was never sent request {request.n}: {request.response}"
            )
    assert not left, "a request that the log does not give"


def check_limits(process: Process) -> None:
    begun = {
        (session, fact.call_id, fact.child)
        for session, fact in process.order
        if isinstance(fact, ChildStarted)
    }
    assert len(begun) <= process.scenario.descendants


class Kept:
    """The logs of a process, to be read as a place of sessions."""

    def __init__(self, process: Process) -> None:
        self._logs = {name: each.log for name, each in process.sessions.items()}

    def info(self, session: str) -> SessionInfo:
        return SessionInfo(session=session, facts=len(self.facts(session)))

    def facts(self, session: str) -> list[Fact]:
        log = self._logs.get(session)  # one that was begun, and killed before its first fact, has none
        return [] if log is None else log.facts

    def list(self) -> Sequence[SessionInfo]:
        return [self.info(name) for name in self._logs]

    def open(self, session: str) -> Any:
        return MemoryLog(self.facts(session), session=session)


def check_usage(process: Process) -> None:
    """What the root has used is what all model calls of all logs have used."""
    every = [fact.usage for _, fact in process.order if isinstance(fact, ModelResponse)]
    sessions: Any = Kept(process)
    tree = read_tree(sessions, ROOT)
    problems = check_accounting(tree)
    assert all(process.killed and each.kind == "open" for each in problems), problems
    assert process.agent.total_usage + sum([each.usage for each in problems], Usage()) == sum(every, Usage())
    assert tree.total_usage == sum(every, Usage())


@pytest.mark.skipif(
    not LONG, reason="being written: after kills some checks still ask too much; run it with UNSPOOL_LONG=1"
)
@BACKENDS
@settings(
    max_examples=1500 if LONG else 20,
    derandomize=not LONG,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(scenario=trees())
def test_laws_hold_in_every_tree(backend: str, scenario: TreeScenario) -> None:
    anyio.run(play, scenario, backend=backend)


LINE = Plan((Reply((Deed("single", (Plan((Reply((Deed("single", (Plan(),)),), wait=1),)),)),)),))


@BACKENDS
def test_an_effect_two_levels_down_comes_after_the_consumer_was_told(backend: str) -> None:
    """Each level waits until the one above has shown its event: also what was wrapped twice."""
    anyio.run(play, TreeScenario(LINE, concurrency=1, slow=True), backend=backend)


WAITS = Plan((Reply(wait=4),))
TOGETHER = Plan((Reply((Deed("tasks", (WAITS, WAITS, WAITS)), Deed("single", (WAITS,)))),))


@pytest.mark.xfail(strict=True, reason="replay ends c1 before c2, whatever the order in the log")
def test_calls_that_are_stopped_together_replay_in_their_order() -> None:
    """The budget of the root is used up while two calls of a child wait: c2 ends before c1.

    On asyncio, where that is so each time."""
    scenario = TreeScenario(Plan((Reply((Deed("tasks", (TOGETHER, WAITS)),)),)), concurrency=1, tokens=30)

    async def main() -> None:
        process = await play(scenario)
        for session in process.sessions.values():
            await check_replay(session)

    anyio.run(main)
