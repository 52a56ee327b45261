"""The registry: ids, ends, stopping, waiting, pruning, messages to a task."""

from collections.abc import Callable
from threading import Event, Thread

import anyio
import msgspec
import pytest

from unspool.kernel.errors import ToolError
from unspool.tools.tasks import Task, Tasks, Work

from .conftest import Desk, ScriptedWork, launching

pytestmark = pytest.mark.anyio


async def test_ids_have_one_counter_and_the_list_is_in_order_of_start(desk: Desk) -> None:
    for kind in ("shell", "subagent", "teammate", "index", "shell"):
        desk.clock.now += 1
        await desk.start(kind=kind)
    listed = desk.tasks.list()
    assert [task.id for task in listed] == ["shell-1", "agent-2", "teammate-3", "index-4", "shell-5"]
    assert [task.started_at for task in listed] == [1001, 1002, 1003, 1004, 1005]
    with pytest.raises(ValueError, match="word of small letters"):
        await desk.start(kind="Two words")


def completes(work: ScriptedWork) -> None:
    work.finish(0)


def exits_with_7(work: ScriptedWork) -> None:
    work.finish(7)


def write_error(work: ScriptedWork) -> None:  # T138
    work.finish(0, "copy: disk full")


def close_error(work: ScriptedWork) -> None:  # T139
    work.finish(0, "close: flush log")


def exit_and_write_error(work: ScriptedWork) -> None:  # T140
    work.finish(7, "copy: disk full")


def all_errors(work: ScriptedWork) -> None:
    work.finish(None, "wait: no child", "copy: disk full", "close: flush log")


def wait_raises(work: ScriptedWork) -> None:
    work.wait_error = OSError("no child")
    work.finish()


ENDS: dict[Callable[[ScriptedWork], None], tuple[str, int | None, str]] = {
    completes: ("completed", 0, ""),
    exits_with_7: ("failed", 7, ""),
    write_error: ("failed", 0, "copy: disk full"),
    close_error: ("failed", 0, "close: flush log"),
    exit_and_write_error: ("failed", 7, "copy: disk full"),
    all_errors: ("failed", None, "wait: no child; copy: disk full; close: flush log"),
    wait_raises: ("failed", None, "no child"),
}


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
async def test_how_work_ends_by_itself(desk: Desk, end: Callable[[ScriptedWork], None]) -> None:
    work = await desk.start()
    end(work)
    task = await desk.ended("shell-1")
    assert (task.status, task.exit_code, task.error) == ENDS[end]
    assert [notice.metadata["task"]["status"] for notice in desk.notices] == [task.status]


async def test_a_notice_is_sent_before_wait_returns(desk: Desk) -> None:
    work = await desk.start()
    seen: list[str] = []
    desk.tasks.notify(lambda message: seen.append("notice"))
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            await desk.tasks.wait("shell-1")
            seen.append("wait")

        group.start_soon(wait)
        group.start_soon(wait)
        work.finish()
    assert seen == ["notice", "wait", "wait"]


async def test_each_stopped_kind_ends_as_stopped_with_one_notice(desk: Desk) -> None:
    for kind in ("shell", "subagent", "teammate"):
        await desk.start(kind=kind)
    for id in ("shell-1", "agent-2", "teammate-3"):
        task = await desk.tasks.stop(id)
        assert (task.status, task.exit_code) == ("stopped", 143)
        assert await desk.tasks.stop(id) == task  # again: nothing happens
    assert [notice.metadata["task"]["status"] for notice in desk.notices] == ["stopped"] * 3


async def test_a_task_that_is_being_stopped_says_so(desk: Desk) -> None:
    begun, go = anyio.Event(), anyio.Event()

    class Slow(ScriptedWork):
        async def stop(self) -> None:
            begun.set()
            await go.wait()
            await super().stop()

    work = Slow()
    await desk.tasks.start("shell", launching(work))
    async with anyio.create_task_group() as group:
        group.start_soon(desk.tasks.stop, "shell-1")
        group.start_soon(desk.tasks.stop, "shell-1")
        await begun.wait()
        assert [task.status for task in desk.tasks.list()] == ["stopping"]
        group.cancel_scope.cancel()  # whoever asked goes away; the task is stopped all the same
    go.set()
    assert (await desk.ended("shell-1")).status == "stopped"
    await desk.tasks.aclose()
    assert work.stops == 1


async def test_a_timeout_is_no_failure_and_the_first_cause_stays(desk: Desk) -> None:
    await desk.start(timeout_s=600.0)
    task = await desk.ended("shell-1")
    assert (task.status, task.exit_code, task.ended_at) == ("timed_out", 143, 1600.0)
    assert (await desk.tasks.stop("shell-1")).status == "timed_out"
    work = await desk.start(timeout_s=600.0)
    work.finish()
    assert (await desk.ended("shell-2")).status == "completed"
    await desk.clock.sleep(1000)
    assert work.stops == 0


async def test_what_cannot_be_stopped_in_an_orderly_way_is_killed_and_told(desk: Desk) -> None:
    work = await desk.start()
    work.stop_error = OSError("no permission")
    task = await desk.tasks.stop("shell-1")
    assert (work.kills, task.status, task.error) == (1, "stopped", "stop: no permission")


async def test_waiting_for_some_or_the_first_or_not_for_ever(desk: Desk) -> None:
    first, second = await desk.start(), await desk.start()
    assert [task.status for task in await desk.tasks.wait(timeout_s=5)] == ["running", "running"]
    second.finish(1)
    found = await desk.tasks.wait("shell-1", "shell-2", first=True)
    assert [task.status for task in found] == ["running", "failed"]
    with anyio.move_on_after(0):
        await desk.tasks.wait("shell-1")
    assert first.stops == 0  # cancelling a wait stops nothing
    first.finish()
    assert [task.status for task in await desk.tasks.wait()] == ["completed", "failed"]
    assert await Tasks().wait(first=True) == ()
    with pytest.raises(ToolError, match="no such task: shell-9; there are: shell-1, shell-2"):
        await desk.tasks.wait("shell-9")


async def test_closing_stops_all_and_nothing_starts_any_more(desk: Desk) -> None:
    works = [await desk.start() for _ in range(5)]
    works[0].finish()
    await desk.ended("shell-1")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await desk.tasks.aclose()  # also when the owner is cancelled
    assert [work.stops for work in works] == [0, 1, 1, 1, 1]
    assert [task.status for task in desk.tasks.list()] == ["completed", *["stopped"] * 4]
    with pytest.raises(ToolError, match="closed"):
        await desk.start()
    await desk.tasks.aclose()


async def test_closing_waits_for_what_is_being_launched(desk: Desk) -> None:
    work, launched, go = ScriptedWork(), anyio.Event(), anyio.Event()

    async def launch(id: str) -> Work:
        launched.set()
        await go.wait()
        return work

    async with anyio.create_task_group() as group:
        group.start_soon(desk.tasks.start, "shell", launch)
        await launched.wait()
        group.start_soon(desk.tasks.aclose)
        await anyio.lowlevel.checkpoint()
        go.set()
    assert (work.stops, [task.status for task in desk.tasks.list()]) == (1, ["stopped"])


async def test_stopping_what_one_session_has_started(desk: Desk) -> None:
    for session in ("a", "b", "a"):
        await desk.start(session=session)
    assert await desk.tasks.stop_all("a") == 2
    assert [task.status for task in desk.tasks.list()] == ["stopped", "running", "stopped"]
    assert await desk.tasks.stop_all() == 1


async def test_what_fails_to_start_is_no_task(desk: Desk) -> None:
    async def launch(id: str) -> Work:
        raise ToolError(f"{id}: no such program")

    with pytest.raises(ToolError, match="shell-1: no such program"):
        await desk.tasks.start("shell", launch)
    assert desk.tasks.list() == ()


async def test_so_many_run_at_a_time_and_no_more() -> None:
    desk = Desk(max_running=2)
    work = await desk.start()
    await desk.start()
    with pytest.raises(ToolError, match="2 background tasks run already"):
        await desk.start()
    work.finish()
    await desk.ended("shell-1")
    await desk.start()
    await desk.tasks.aclose()


async def test_finished_tasks_are_pruned_by_count_and_by_age() -> None:
    desk = Desk(keep=2, keep_s=100)
    running = await desk.start()
    for number in range(2, 6):
        (await desk.start()).finish()
        await desk.ended(f"shell-{number}")
        desk.clock.now += 10
    assert [task.id for task in desk.tasks.list()] == ["shell-1", "shell-4", "shell-5"]
    desk.clock.now += 85
    assert [task.id for task in desk.tasks.list()] == ["shell-1", "shell-5"]
    assert desk.tasks.get("shell-4") is None
    running.finish()
    await desk.tasks.aclose()


async def test_what_nobody_was_told_is_not_pruned() -> None:
    desk = Desk(keep=0)
    tasks = Tasks(clock=desk.clock, keep=0)
    work = ScriptedWork()
    await tasks.start("shell", launching(work))
    work.finish(3)
    await tasks.wait()
    desk.clock.now += 1e6
    assert [task.id for task in tasks.list()] == ["shell-1"]
    tasks.notify(desk.notices.append)  # it is told as soon as somebody can be
    assert [notice.metadata["task"]["exit_code"] for notice in desk.notices] == [3]
    assert tasks.list() == ()
    await tasks.aclose()


async def test_what_somebody_waits_for_is_not_pruned() -> None:
    desk = Desk(keep=0)
    work = await desk.start()
    with desk.tasks.reading(["shell-1"]):
        work.finish()
        desk.tasks.mark_read([await desk.ended("shell-1")])
        assert [task.told for task in desk.tasks.list()] == ["read"]
    assert desk.tasks.list() == ()
    await desk.tasks.aclose()


async def test_a_notice_that_is_refused_is_kept_and_told_later(desk: Desk) -> None:
    def refuse(message: object) -> None:
        raise OSError("the log is full")

    desk.tasks.notify(refuse)
    (await desk.start()).finish()
    task = await desk.ended("shell-1")
    assert (task.told, task.notice_error) == ("", "the log is full")
    assert [each.id for each in desk.tasks.untold("s")] == ["shell-1"]
    desk.tasks.notify(desk.notices.append)
    desk.tasks.notify(desk.notices.append)  # once
    assert len(desk.notices) == 1
    assert desk.tasks.untold("s") == ()


async def test_snapshots_do_not_change(desk: Desk) -> None:
    work = await desk.start()
    before = desk.tasks.list()
    work.write("more")
    work.finish()
    await desk.ended("shell-1")
    assert (before[0].status, before[0].output_bytes) == ("running", 0)
    assert desk.tasks.list()[0].output_bytes == 4


async def test_messages_to_a_task(desk: Desk) -> None:
    work = await desk.start(kind="subagent")
    tasks = desk.tasks
    assert tasks.append_pending("agent-9", "hello") == "not_found"
    assert [tasks.append_pending("agent-1", text) for text in ("one", "two")] == ["ok", "ok"]
    desk_list = tasks.list()
    assert desk_list[0].unread == 2
    assert tasks.drain_pending("agent-1") == ("one", "two")
    assert tasks.drain_pending("agent-1") == ()
    tasks.append_pending("agent-1", "three")
    assert tasks.drain_pending("agent-1", last=True) == ("three",)  # so it goes on
    assert tasks.append_pending("agent-1", "four") == "ok"
    assert tasks.drain_pending("agent-1", last=True) == ("four",)
    assert tasks.drain_pending("agent-1", last=True) == ()
    assert tasks.append_pending("agent-1", "too late") == "terminal"
    work.finish()
    await desk.ended("agent-1")
    assert tasks.append_pending("agent-1", "too late") == "terminal"


async def test_messages_that_a_task_did_not_take_are_told(desk: Desk) -> None:
    work = await desk.start(kind="subagent")
    desk.tasks.append_pending("agent-1", "hurry")
    work.finish()
    assert (await desk.ended("agent-1")).unread == 1
    assert "1 of the messages to it not read" in desk.notices[0].text


async def test_messages_to_a_task_are_bounded(desk: Desk) -> None:
    await desk.start(kind="subagent")
    for number in range(1000):
        assert desk.tasks.append_pending("agent-1", str(number)) == "ok"
    with pytest.raises(ToolError, match="agent-1 has 1000 messages that it has not read"):
        desk.tasks.append_pending("agent-1", "one more")
    assert len(desk.tasks.drain_pending("agent-1")) == 1000


async def test_no_message_is_lost_between_many_threads_and_the_end(desk: Desk) -> None:
    await desk.start(kind="subagent")
    tasks = desk.tasks
    accepted: list[tuple[int, int]] = []
    taken: list[object] = []

    def send(number: int) -> None:
        for count in range(200):
            if tasks.append_pending("agent-1", f"{number}/{count}") == "ok":
                accepted.append((number, count))

    threads = [Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while True:
        got = tasks.drain_pending("agent-1", last=any(not thread.is_alive() for thread in threads))
        taken += got
        if not got and tasks.append_pending("agent-1", "") == "terminal":
            break
    for thread in threads:
        thread.join()
    assert len([text for text in taken if text]) == len(accepted)


async def test_tasks_are_closed_with_their_context() -> None:
    work = ScriptedWork()
    async with Tasks() as tasks:
        await tasks.start("shell", launching(work))
    assert work.stops == 1


async def test_details_are_json_and_bounded(desk: Desk) -> None:
    task = await desk.tasks.start(
        "shell",
        launching(ScriptedWork()),
        command="é" * 100_000,
        description="d" * 100_000,
        agent=("main", "sub"),
    )
    assert msgspec.json.decode(msgspec.json.encode(task.details)) == task.details
    assert msgspec.convert(task.details, Task) == task
    assert len(str(task.details)) < 5000


async def test_a_thousand_at_a_time_and_one_after_the_other() -> None:
    desk = Desk(max_running=1000)
    works = [await desk.start("x") for _ in range(1000)]
    assert await desk.tasks.stop_all() == 1000
    assert [work.stops for work in works] == [1] * 1000
    for number in range(1001, 2001):
        (await desk.start("x")).finish()
        await desk.ended(f"shell-{number}")
    assert len(desk.notices) == 2000 and len(desk.tasks.list()) == 32
    await desk.tasks.aclose()
    assert not (desk.tasks._jobs or desk.tasks._alive or desk.tasks._sleepers._sleepers)


async def test_looking_from_threads_while_tasks_come_and_go() -> None:
    desk = Desk(keep=1000)
    done = Event()
    seen: set[int] = set()

    def look() -> None:
        while not done.is_set():
            seen.update(desk.tasks.output(task.id).total for task in desk.tasks.list()[-3:])

    threads = [Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(1, 101):
            work = await desk.start("some output")
            work.finish()
            await desk.tasks.wait(f"shell-{number}")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert seen <= {11}
    assert len(desk.notices) == 100
    await desk.tasks.aclose()
