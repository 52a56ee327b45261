"""Tasks that were cut off with their process: found in the facts, told once, ids go on."""

import pytest

from unspool.kernel.events import Event, MessageEnd, QueueChanged, ToolExecEnd
from unspool.tools.tasks import Status, Task
from unspool.tools.tasks.notice import notice
from unspool.tools.tasks.restore import tasks_of

from .conftest import Desk


def task(number: int, status: Status = "running", kind: str = "shell", pid: int | None = None) -> Task:
    return Task(
        id=f"{kind}-{number}", kind=kind, status=status, started_at=float(number), session="s", pid=pid
    )


def started(what: Task) -> Event:
    return ToolExecEnd(call_id="c", tool="bash", details={"task": what.details})


def showed(*what: Task) -> Event:
    return ToolExecEnd(call_id="c", tool="task_list", details={"tasks": [each.details for each in what]})


def queued(what: Task) -> Event:
    return QueueChanged("follow_up", "queued", ("q",), message=notice(what, ""))


def committed(what: Task) -> Event:
    return MessageEnd(id="m", message=notice(what, ""))


CASES: dict[str, tuple[list[Event], list[str]]] = {
    "nothing": ([], []),
    "started": ([started(task(1))], ["shell-1"]),
    "started, told flat": (
        [ToolExecEnd(call_id="c", details={"shell_id": "x", **task(1).details})],
        ["shell-1"],
    ),
    "two": ([started(task(2)), started(task(1, kind="index"))], ["index-1", "shell-2"]),
    "its end was queued": ([started(task(1)), queued(task(1, "completed"))], []),
    "its end was delivered": ([started(task(1)), committed(task(1, "failed"))], []),
    "its end was shown": ([started(task(1)), showed(task(1, "stopped"))], []),
    "shown while it ran": ([started(task(1)), showed(task(1), task(2))], ["shell-1", "shell-2"]),
    "shown late": ([started(task(1)), queued(task(1, "timed_out")), showed(task(1))], []),
    "lost before": ([started(task(1)), queued(task(1, "lost"))], []),
    "other details": ([ToolExecEnd(call_id="c", details={"task": "x", "tasks": [{"id": 3}, 4]})], []),
    "not an id of ours": (
        [started(task(1, kind=kind)) for kind in ("../x", "x" * 10**6, "K\n</task-id>")],
        [],
    ),
    "a number without end": ([started(task(10**20))], []),
    "other tasks": ([ToolExecEnd(call_id="c", details={"task": {"id": "a", "status": "odd"}})], []),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_lost(case: str) -> None:
    facts, expected = CASES[case]
    desk = Desk()
    assert [each.id for each in desk.tasks.restore(facts)] == expected
    assert [each.metadata["task"]["status"] for each in desk.notices] == ["lost"] * len(expected)
    again = [*facts, *(QueueChanged("follow_up", "queued", ("q",), message=each) for each in desk.notices)]
    assert Desk().tasks.restore(again) == ()


def test_an_id_that_came_again_is_another_task() -> None:
    first = Task(id="shell-1", kind="shell", status="completed", started_at=1.0)
    second = Task(id="shell-1", kind="shell", status="running", started_at=2.0)
    assert [each.status for each in tasks_of([started(first), started(second)])] == ["completed", "running"]


@pytest.mark.anyio
async def test_ids_go_on_and_what_is_lost_says_why(desk: Desk) -> None:
    desk.tasks.restore([started(task(7, "completed")), started(task(4, pid=4711))])
    (lost,) = desk.tasks.list("s")
    assert (lost.id, lost.status, lost.told) == ("shell-4", "lost", "sent")
    assert lost.error == (
        "the process that ran it ended before it did; whether its own process 4711 still runs is not known"
    )
    assert desk.tasks.output("shell-4").total == 0
    assert desk.tasks.append_pending("shell-4", "hello") == "terminal"
    assert await desk.tasks.wait("shell-4") == (lost,)
    assert await desk.tasks.stop("shell-4") == lost
    await desk.start()
    assert [each.id for each in desk.tasks.list()] == ["shell-4", "shell-8"]
