"""The law Rebuild: from its log alone a session runs again to the byte, and each request is made again."""

import builtins
import io
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from conversations import DEEDS, Conversation, Deed, converse
from drawing import scenarios
from hosts import HOSTS, Host, codec
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import Scenario, play

from unspool.kernel import Agent, Codec, Fact, ModelRequest, Verdict, fold
from unspool.kernel.errors import ContinueError
from unspool.trajectory import JsonlLog, MemoryLog, SqliteSessions, load, replay, requests
from unspool.trajectory.replay import Replayed
from unspool.trajectory.sources import Source

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
CONVERSATION = st.lists(st.builds(Deed, st.sampled_from(DEEDS), st.integers(0, 17)), min_size=2, max_size=8)
RICH = [
    *[Deed("run", 2), Deed("title", 1), Deed("steer", 1), Deed("run", 4), Deed("model", 1), Deed("run", 1)],
    *[Deed("run", 3), Deed("decide", 1), Deed("resume", 0), Deed("options", 2), Deed("configure_in", 4)],
    *[Deed("set_messages", 2), Deed("run", 1), Deed("crash", 4), Deed("continue"), Deed("abort_in", 6)],
    *[
        Deed("unknown", 3),
        Deed("follow_up", 2),
        Deed("crash", 1),
        Deed("crash", 2),
        Deed("run", 5),
        Deed("clear"),
    ],
    *[
        Deed("fork", 26),
        Deed("plain_model", 1),
        Deed("run", 2),
        Deed("reset"),
        Deed("run", 0),
        Deed("leave_in", 8),
    ],
]


NESTED = [
    *[Deed("nest", 3), Deed("decide", 1), Deed("resume", 0), Deed("resume", 2), Deed("safe_nest", 5)],
    *[Deed("steer", 1), Deed("continue", 1), Deed("nest", 8), Deed("nest", 7), Deed("background")],
    *[Deed("safe_nest", 1), Deed("crash", 3), Deed("resume", 1), Deed("nest", 1), Deed("fork", 26)],
    *[Deed("resume", 0), Deed("nest", 5), Deed("reset")],
]


@contextmanager
def offline() -> Iterator[None]:
    """Nothing inside reaches a network or writes a file. Event loops have pairs of sockets of their own."""
    was_socket, was_open, was_os_open = socket.socket, builtins.open, os.open

    class Socket(was_socket):  # type: ignore[misc, valid-type]
        def __init__(self, family: int = -1, *args: Any, **kwargs: Any) -> None:
            assert family == socket.AF_UNIX, "a replay reaches for the network"
            super().__init__(family, *args, **kwargs)

    def only_read(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        assert not set(mode) & set("wax+"), f"a replay writes to {file}"
        return was_open(file, mode, *args, **kwargs)

    def only_read_os(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        assert not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT), f"a replay writes to {path}"
        return was_os_open(path, flags, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "socket", Socket)
        patch.setattr(builtins, "open", only_read)
        patch.setattr(io, "open", only_read)
        patch.setattr(os, "open", only_read_os)
        yield


async def replayed(source: Source, **options: Any) -> Replayed:
    """A replay without the world, which ends."""
    with offline(), anyio.fail_after(20):
        return await replay(source, **options)


def check(result: Replayed, facts: Sequence[Fact]) -> None:
    assert result.same, str(result.difference)
    assert result.facts == result.recorded == len(facts)


# --- any session ------------------------------------------------------------------------------------


@BACKENDS
@settings(max_examples=150, deadline=None)
@given(scenario=scenarios())
def test_a_run_in_which_anything_goes_wrong_comes_out_the_same(backend: str, scenario: Scenario) -> None:
    async def main() -> None:
        played = await play(scenario)
        check(await replayed(played.facts), played.facts)
        check_requests(played.facts, played.requests)

    anyio.run(main, backend=backend)


@BACKENDS
@settings(max_examples=150, deadline=None)
@given(deeds=CONVERSATION)
def test_a_session_of_many_runs_comes_out_the_same(backend: str, deeds: list[Deed]) -> None:
    async def main() -> None:
        conversation = Conversation()
        for deed in deeds:
            await conversation.do(deed)
        for log in (conversation.log, *conversation.below.values()):
            check(await replayed(log.facts), log.facts)
            assert all(request.exact for request in requests(log.facts))

    anyio.run(main, backend=backend)


FOUND = {
    "two messages in one moment, the first of which interrupts a tool": [Deed("steer_in", 13)],
    "a call that waits is ended before a run that is aborted at once has begun": [
        *[Deed("leave_in", 8), Deed("nest", 14), Deed("inject", 6), Deed("reset", 4)]
    ],
    "a gate looks at a call beside one that runs again after a crash": [
        *[Deed("clear_in", 10), Deed("tools", 14), Deed("fork", 16), Deed("continue", 15)]
    ],
}


@BACKENDS
@pytest.mark.parametrize("name", FOUND)
def test_a_session_that_once_came_out_otherwise(backend: str, name: str) -> None:
    async def main() -> None:
        facts = await converse(FOUND[name])
        check(await replayed(facts), facts)

    anyio.run(main, backend=backend)


# --- wherever it is kept ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rich() -> list[Fact]:
    facts = anyio.run(converse, RICH)
    assert {"crash", "fork", "reset"} <= {deed.what for deed in RICH} and fold(facts).runs == 13
    return facts


@BACKENDS
def test_from_a_file(backend: str, rich: list[Fact], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with JsonlLog(path) as log:
        for fact in rich:
            log.append(fact)
        check(anyio.run(replayed, log, backend=backend), rich)
    check(anyio.run(replayed, path, backend=backend), rich)
    check(anyio.run(replayed, str(path), backend=backend), rich)
    check(anyio.run(replayed, load(path), backend=backend), rich)


@BACKENDS
def test_from_a_database(backend: str, rich: list[Fact], tmp_path: Path) -> None:
    with SqliteSessions(tmp_path / "sessions.db") as sessions:
        with sessions.create("a") as log:
            for fact in rich:
                log.append(fact)
            check(anyio.run(replayed, log, backend=backend), rich)
        middle = len(rich) // 2
        fork = sessions.fork("a", middle)
        check(anyio.run(replayed, sessions.facts("a"), backend=backend), rich)
        check(anyio.run(replayed, sessions.facts(fork), backend=backend), rich[:middle])


@BACKENDS
def test_from_memory(backend: str, rich: list[Fact]) -> None:
    check(anyio.run(replayed, MemoryLog(rich), backend=backend), rich)
    check(anyio.run(replayed, iter(rich), backend=backend), rich)


# --- wherever it was cut off ------------------------------------------------------------------------


@BACKENDS
def test_every_beginning_of_a_session(backend: str, rich: list[Fact]) -> None:
    """As the process may die after any fact."""

    async def main() -> None:
        for end in range(0, len(rich) + 1, 1 if backend == "asyncio" else 7):
            check(await replayed(rich[:end]), rich[:end])

    anyio.run(main, backend=backend)


@BACKENDS
def test_every_beginning_of_a_session_with_others_in_it(backend: str) -> None:
    facts = anyio.run(converse, NESTED)
    kinds = {type(fact).__name__ for fact in facts}
    assert {"ChildStarted", "ChildEnded", "Handoff", "ApprovalDecided"} <= kinds

    async def main() -> None:
        for end in range(0, len(facts) + 1, 2 if backend == "asyncio" else 7):
            check(await replayed(facts[:end]), facts[:end])

    anyio.run(main, backend=backend)


async def go_on(host: Host, facts: Sequence[Fact]) -> list[Fact]:
    """The session after a crash, gone on with by another process up to a normal end."""
    log = MemoryLog(facts, session="session")
    agent = host.agent(log, state=fold(facts))
    try:
        await agent.continue_()
    except ContinueError:
        await agent.run("and now?")
    await decide_all(agent)
    return log.facts


async def decide_all(agent: Agent[Any]) -> None:
    while agent.state.waiting_calls:
        await agent.resume(Verdict.allow(by="eve"))


@pytest.mark.parametrize(
    "name",
    ["parallel", "gated", "paused", "turns", "summaries", "remembered", "overflow", "traits", "nested"],
)
def test_a_crash_after_every_fact_and_another_one(name: str) -> None:
    async def main() -> None:
        host = HOSTS[name]()
        _, facts = await host.session()
        for end in range(1, len(facts), 3 if name == "nested" else 1):  # that one is long
            once = await go_on(HOSTS[name](), facts[:end])
            check(await replayed(once), once)
            again = end + (len(once) - end) // 2
            twice = await go_on(HOSTS[name](), once[:again])
            check(await replayed(twice), twice)

    anyio.run(main)


# --- whatever the host does -------------------------------------------------------------------------


@BACKENDS
@pytest.mark.parametrize("name", HOSTS)
def test_without_the_code_of_the_host(backend: str, name: str) -> None:
    async def main() -> None:
        _, facts = await HOSTS[name]().session()
        check(await replayed(facts), facts)

    anyio.run(main, backend=backend)


@BACKENDS
@pytest.mark.parametrize("name", HOSTS)
def test_with_the_code_of_the_host(backend: str, name: str) -> None:
    async def main() -> None:
        _, facts = await HOSTS[name]().session()
        check(await replayed(facts, settings=HOSTS[name]().agent().settings), facts)

    anyio.run(main, backend=backend)


# --- requests ---------------------------------------------------------------------------------------


def shown(request: ModelRequest) -> tuple[Any, ...]:
    return list(request.messages), tuple(request.system), tuple(request.tools), request.options


def check_requests(facts: Sequence[Fact], seen: Sequence[ModelRequest]) -> None:
    """Those that the model saw are those that the log gives; the others were announced and never made."""
    left = list(seen)
    for rebuilt in requests(facts):
        assert rebuilt.exact
        if left and shown(rebuilt.request) == shown(left[0]):
            left.pop(0)
        else:
            assert rebuilt.response is None or rebuilt.response.error_kind == "canceled"
    assert not left, "a request that the log does not give"


@pytest.mark.parametrize("name", HOSTS)
def test_each_request_is_the_one_that_the_model_saw(name: str) -> None:
    host = HOSTS[name]()
    _, facts = anyio.run(host.session)
    rebuilt = list(requests(facts))
    assert [shown(each.request) for each in rebuilt] == [shown(request) for request in host.model.requests]
    assert all(each.exact and each.response is not None for each in rebuilt)
    assert [each.n for each in rebuilt] == list(range(1, len(rebuilt) + 1))


@pytest.mark.parametrize("name", ["summaries", "overflow"])
def test_calls_of_context_strategies_are_among_them(name: str) -> None:
    _, facts = anyio.run(HOSTS[name]().session)
    asides = [each for each in requests(facts) if each.purpose == "compaction"]
    assert asides
    for each in asides:
        assert each.request.messages[-1].text == "Sum up."
        assert each.request.system[0].text == "You sum up." and each.request.options.temperature == 1
        assert each.response is not None and each.response.purpose == "compaction"


@pytest.mark.parametrize("known", [Codec, codec])
def test_a_message_whose_class_is_gone_is_what_was_sent_of_it(
    known: Callable[[], Codec], tmp_path: Path
) -> None:
    host, path = HOSTS["own_messages"](), tmp_path / "log.jsonl"
    with JsonlLog(path, codec()) as log:
        agent = host.agent(log)
        anyio.run(host.act, agent)
    facts = load(path, known())
    rebuilt = list(requests(facts))
    assert all(each.exact for each in rebuilt)
    assert [list(r.request.messages) for r in rebuilt] == [list(r.messages) for r in host.model.requests]
    check(anyio.run(replayed, path), facts)


def test_a_message_that_says_something_else_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    host = HOSTS["own_messages"]()
    agent, facts = anyio.run(host.session)
    sent = [list(request.messages) for request in host.model.requests]
    kind = type(agent.state.messages[0])
    monkeypatch.setattr(kind, "text", property(lambda self: "something else"))
    rebuilt = list(requests(facts))
    assert all(each.exact for each in rebuilt)
    assert [list(each.request.messages) for each in rebuilt] == sent


# --- the examples -----------------------------------------------------------------------------------

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KEPT = (
    {name: 1 for name in ("approval", "gate", "hello", "own_message", "harness", "triage")}
    | {name: 2 for name in ("budget", "coding_agent", "steering", "stop_guard")}
    | {"code_review": 3, "map_reduce": 5, "research_team": 3}
)  # how many sessions each has
KEEPING = """
import itertools, pathlib, runpy, sys, tempfile
from unspool.kernel.recorder import Recorder
from unspool.trajectory import JsonlLog

class Kept:
    def __enter__(self):
        return tempfile.mkdtemp(dir=".")
    def __exit__(self, *_):
        pass

def keeping(self, state=None, *, log, clock, codec, session=""):
    log = JsonlLog(f"{next(numbers)}.jsonl", codec) if log is None else log
    begin(self, state, log=log, clock=clock, codec=codec, session=session)
    logs.append(log)

numbers, logs, begin = itertools.count(), [], Recorder.__init__
Recorder.__init__, tempfile.TemporaryDirectory = keeping, Kept
sys.argv = sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
for log in logs:
    log.close()
"""


@pytest.mark.parametrize("name", KEPT)
def test_an_example_can_be_replayed(name: str, tmp_path: Path) -> None:
    """Each with a log, also where it keeps none of its own."""
    demo = ["--demo"] if name == "harness" else []
    subprocess.run(
        [sys.executable, "-c", KEEPING, str(EXAMPLES / f"{name}.py"), *demo],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=60,
    )
    kept = sorted(tmp_path.rglob("*.jsonl"))
    assert len(kept) == KEPT[name]
    for path in kept:
        facts = load(path)
        check(anyio.run(replayed, path), facts)
        rebuilt = list(requests(path))
        assert rebuilt and all(each.exact for each in rebuilt)


def test_no_example_is_forgotten() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*KEPT, "harness_demo"}
