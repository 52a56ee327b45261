"""Tools in threads, and messages from threads: in real time, ordered by events."""

import threading
import time
from contextvars import ContextVar
from typing import Any

import pytest
from play import Player, echo

from unspool.kernel import Abort, Inbox, Limits, ToolContext
from unspool.kernel.function_tool import raw_tool, tool
from unspool.llm.scripted import call

ASKS = [call("c1", "t")]


def in_thread(fn: Any) -> None:
    thread = threading.Thread(target=fn)
    thread.start()
    thread.join()


def test_progress_from_a_thread_is_shown_at_once(play: Player) -> None:
    shown = threading.Event()

    def work(args: Any, ctx: ToolContext) -> str:
        ctx.progress("waiting", thread=True)
        assert shown.wait(4)
        return "done"

    run = play(
        ASKS,
        "ok",
        tools=[raw_tool("t", "", {}, work)],
        on={"tool_exec_update c1 progress 'waiting'": lambda _: shown.set()},
        real_time=True,
    )
    assert run.outcomes() == {"c1": "ok"}


def test_steering_from_a_thread(play: Player) -> None:
    inbox = Inbox()

    def work(args: Any, ctx: ToolContext) -> str:
        in_thread(lambda: inbox.steer("from a thread"))
        return "done"

    calls = [*ASKS, call("c2", "echo", value="x")]
    run = play(calls, "ok", tools=[raw_tool("t", "", {}, work), echo()], inbox=inbox, real_time=True)
    assert run.outcomes() == {"c1": "ok", "c2": "skipped"}
    assert run.sent()[-1] == "user: from a thread"


def test_steering_from_many_threads_loses_nothing(play: Player) -> None:
    inbox = Inbox()

    def push(thread: int) -> None:
        for number in range(20):
            inbox.follow_up(f"{thread}/{number}")

    def work(args: Any, ctx: ToolContext) -> str:
        threads = [threading.Thread(target=push, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return "done"

    run = play(ASKS, "one", "two", tools=[raw_tool("t", "", {}, work)], inbox=inbox, real_time=True)
    texts = [text for text in run.texts if "/" in text]
    assert len(texts) == len(set(texts)) == 160
    assert [fact.seq for fact in run.facts] == list(range(1, len(run.facts) + 1))


def test_abort_from_a_thread(play: Player) -> None:
    abort = Abort()

    def work(args: Any, ctx: ToolContext) -> str:
        in_thread(lambda: abort.fire(reason="stop"))
        deadline = time.monotonic() + 4
        while not ctx.cancelled and time.monotonic() < deadline:
            pass
        return "too late"

    run = play(ASKS, tools=[raw_tool("t", "", {}, work)], abort=abort, real_time=True)
    assert run.outcomes() == {"c1": "cancelled"}
    assert run.end.reason == "aborted"


def test_tool_that_takes_too_long(play: Player) -> None:
    async def slow(args: Any, ctx: ToolContext) -> str:
        await ctx.clock.sleep(90)
        return "too late"

    run = play(ASKS, "sorry", tools=[raw_tool("t", "", {}, slow, timeout_s=3)])
    assert run.results() == {"c1": "the tool took longer than 3 s and was stopped"}
    assert run.now == 3.0


def test_late_result_of_a_thread_is_dropped(play: Player) -> None:  # B142
    release, ended = threading.Event(), threading.Event()

    def work(args: Any, ctx: ToolContext) -> str:
        if ctx.call_id == "e2":
            return "fast"
        release.wait(4)
        ended.set()
        return "late"

    def let_it_end(_: Any) -> None:
        release.set()
        assert ended.wait(4)

    with pytest.warns(ResourceWarning, match="abandoned: t"):
        run = play(
            [call("e1", "t")],
            [call("e2", "t")],
            "done",
            tools=[raw_tool("t", "", {}, work, timeout_s=0.01)],
            limits=Limits(grace_s=0.01),
            on={"tool_exec_end e1": let_it_end},
            real_time=True,
        )
    assert run.outcomes() == {"e1": "error", "e2": "ok"}
    assert run.results()["e2"] == "fast"


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_context_variables_reach_tools(play: Player, kind: str) -> None:  # B141
    user: ContextVar[str] = ContextVar("user", default="nobody")

    def read(args: Any, ctx: ToolContext) -> str:
        seen = user.get()
        user.set("x")
        return seen

    async def read_async(args: Any, ctx: ToolContext) -> str:
        return read(args, ctx)

    user.set("alice")
    calls = [call("c1", "t"), call("c2", "t")]
    fn = read if kind == "sync" else read_async
    run = play(calls, "done", tools=[raw_tool("t", "", {}, fn)], real_time=True)
    assert run.results() == {"c1": "alice", "c2": "alice"}
    assert user.get() == "alice"


@tool
def area(width: int, height: int = 2) -> int:
    """The area of a rectangle.

    Args:
        width: in metres
        height: in metres
    """
    return width * height


def test_typed_function_as_a_tool(play: Player) -> None:
    calls = [call("c1", "area", width=3), call("c2", "area", width="3"), call("c3", "area")]
    run = play(calls, "done", tools=[area], real_time=True)
    assert run.outcomes() == {"c1": "ok", "c2": "invalid", "c3": "invalid"}
    assert run.results()["c1"] == "6"
