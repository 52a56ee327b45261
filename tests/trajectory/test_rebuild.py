"""Requests made again from a log: one by its number, over forks, and those that were never made."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from hosts import HOSTS, Host
from msgspec.structs import replace

from unspool.kernel import (
    Agent,
    AgentStart,
    ContextProjected,
    Fact,
    FakeClock,
    MessageEnd,
    ModelResponse,
    Text,
    fold,
)
from unspool.kernel.errors import LogError
from unspool.llm.scripted import ScriptedModel, Wait
from unspool.trajectory import JsonlSessions, MemoryLog, SqliteSessions, request_at, requests
from unspool.trajectory.sessions import Sessions


@pytest.fixture(scope="module")
def session() -> tuple[Host, list[Fact]]:
    host = HOSTS["parallel"]()
    _, facts = anyio.run(host.session)
    return host, facts


def texts(messages: Sequence[object]) -> list[str]:
    return [getattr(message, "text", "") for message in messages]


def test_each_by_its_number(session: tuple[Host, list[Fact]]) -> None:
    host, facts = session
    for n, seen in enumerate(host.model.requests, 1):
        rebuilt = request_at(facts, n)
        assert (rebuilt.n, rebuilt.exact, rebuilt.purpose) == (n, True, "reply")
        assert list(rebuilt.request.messages) == list(seen.messages)
        assert rebuilt.request.tools == seen.tools and rebuilt.request.options == seen.options
        assert isinstance(facts[rebuilt.seq - 1], ContextProjected)
        assert rebuilt.response is not None and facts[rebuilt.response.seq - 1] is rebuilt.response


@pytest.mark.parametrize("n", [0, -1, 5, 10**9])
def test_a_number_that_no_call_has(n: int, session: tuple[Host, list[Fact]]) -> None:
    with pytest.raises(LogError, match="no such model call") as caught:
        request_at(session[1], n)
    assert caught.value.details == {"kind": "no_call", "n": n, "calls": 4}


def test_nothing_comes_of_nothing() -> None:
    assert list(requests([])) == []


def test_they_come_as_they_are_asked_for(session: tuple[Host, list[Fact]]) -> None:
    """What comes after a request and its response is not read."""
    _, facts = session
    response = next(fact for fact in facts if isinstance(fact, ModelResponse))

    def read() -> object:
        yield from facts[: response.seq]
        raise AssertionError("more is read than the first request needs")

    assert next(requests(read())).n == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("store", [JsonlSessions, SqliteSessions])
def test_over_a_fork(store: type, session: tuple[Host, list[Fact]], tmp_path: Path) -> None:
    """A fork has the requests of its parent up to where it begins, and then its own."""
    _, facts = session
    sessions: Sessions = store(tmp_path / "sessions")
    with sessions:
        with sessions.create("a") as log:
            for fact in facts:
                log.append(fact)
        second = [fact for fact in facts if isinstance(fact, ContextProjected)][1]
        sessions.fork("a", second.seq, to="b")
        model = ScriptedModel(["in the fork", "again"])
        with sessions.open("b") as log:
            agent = Agent(model, log=log, clock=FakeClock())
            anyio.run(agent.continue_)
            anyio.run(agent.run, "and now?")
        forked = list(requests(sessions.facts("b")))
        assert [each.exact for each in forked] == [True] * 4
        assert [each.fingerprint for each in forked[:2]] == [
            each.fingerprint for each in list(requests(sessions.facts("a")))[:2]
        ]
        assert forked[1].response is None  # it was never made there
        for rebuilt, seen in zip(forked[2:], model.requests, strict=True):
            assert list(rebuilt.request.messages) == list(seen.messages)
        assert len(list(requests(sessions.facts("a")))) == 4


def test_a_run_that_was_aborted_before_the_call() -> None:
    async def main() -> tuple[ScriptedModel, list[Fact]]:
        model, log = ScriptedModel(["not asked", "asked"]), MemoryLog()
        agent = Agent(model, log=log, clock=FakeClock())

        def abort(event: object) -> None:
            if isinstance(event, ContextProjected) and event.run_id == "r1":
                agent.abort()

        agent.subscribe(abort)
        await agent.run("go")
        await agent.run("go on")
        return model, log.facts

    model, facts = anyio.run(main)
    first, second = requests(facts)
    assert first.response is None and first.exact and texts(first.request.messages) == ["go"]
    assert second.response is not None
    assert list(second.request.messages) == list(model.requests[0].messages)


def test_a_run_that_was_aborted_in_the_call() -> None:
    async def main() -> list[Fact]:
        log, clock = MemoryLog(), FakeClock()
        agent = Agent(ScriptedModel([[Wait(9), "late"]], clock=clock), log=log, clock=clock)
        clock.call_later(3, agent.abort)
        await agent.run("go")
        return log.facts

    (only,) = requests(anyio.run(main))
    assert only.response is not None and only.response.error_kind == "canceled"


def test_after_a_crash_in_the_call(session: tuple[Host, list[Fact]]) -> None:
    facts = session[1]
    announced = [fact for fact in facts if isinstance(fact, ContextProjected)]
    (*_, last) = requests(facts[: announced[2].seq])
    assert (last.n, last.response, last.exact) == (3, None, True)


def test_what_was_changed_is_not_exact(session: tuple[Host, list[Fact]]) -> None:
    def changed(fact: Fact) -> Fact:
        if isinstance(fact, MessageEnd) and fact.queue_id and fact.message is not None:
            return replace(fact, message=replace(fact.message, content=(Text("something else"),)))
        return fact

    assert [each.exact for each in requests(map(changed, session[1]))] == [False] * 4


def test_what_is_not_there_is_damage(session: tuple[Host, list[Fact]]) -> None:
    def renamed(fact: Fact) -> Fact:
        if not isinstance(fact, MessageEnd) or fact.message is None:
            return fact
        return replace(fact, id="other", message=replace(fact.message, id="other"))

    def emptied(fact: Fact) -> Fact:
        return replace(fact, blobs={}) if isinstance(fact, AgentStart | ContextProjected) else fact

    for change, what in (
        (renamed, "a message that is not there"),
        (emptied, "contents that are not there"),
    ):
        with pytest.raises(LogError, match=what):
            list(requests(map(change, session[1])))


def test_what_cannot_be_read_is_damage(session: tuple[Host, list[Fact]]) -> None:
    """A setting that there is no more, say."""

    def changed(fact: Fact) -> Fact:
        if not isinstance(fact, AgentStart):
            return fact
        return replace(fact, blobs={key: b"[5]" for key in fact.blobs})

    _, facts = session
    with pytest.raises(LogError, match="contents that cannot be read"):
        list(requests([changed(fact) for fact in facts]))


def test_a_fact_that_is_missing_is_damage(session: tuple[Host, list[Fact]]) -> None:
    facts = session[1]
    with pytest.raises(LogError, match="a fact is missing") as raised:
        list(requests(facts[:6] + facts[7:]))
    assert raised.value.details["kind"] == "gap"


def test_the_state_of_a_log_is_not_changed_by_it(session: tuple[Host, list[Fact]]) -> None:
    facts = session[1]
    before = fold(facts)
    list(requests(facts))
    assert fold(facts) == before
