"""An event loop that ends while tasks run: their work is killed, and that is told."""

import gc
import warnings
from typing import cast

import anyio
import pytest

from unspool.kernel.messages import Message
from unspool.tools.tasks import Tasks, Work
from unspool.tools.tasks.leftovers import kill_all

from .conftest import ScriptedWork, launching

BACKENDS = ("asyncio", "trio")


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_still_runs_is_killed_and_told(backend: str) -> None:
    told: list[Message] = []
    tasks = Tasks(notify=told.append)
    works: list[ScriptedWork] = []

    async def main() -> None:
        works.extend([ScriptedWork(), ScriptedWork()])
        for work in works:
            await tasks.start("shell", launching(work))

    with pytest.warns(ResourceWarning, match=r"background task shell-\d was killed: await Tasks.aclose\(\)"):
        anyio.run(main, backend=backend)
    assert [work.kills for work in works] == [1, 1]
    assert [(task.status, task.error) for task in tasks.list()] == [("stopped", "its event loop ended")] * 2
    assert [message.metadata["task"]["status"] for message in told] == ["stopped", "stopped"]
    anyio.run(tasks.aclose, backend=backend)  # on another loop: nothing is left to do


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_left_where_the_registry_is_closed(backend: str) -> None:
    async def main() -> ScriptedWork:
        work = ScriptedWork()
        async with Tasks() as tasks:
            await tasks.start("shell", launching(work))
        return work

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert anyio.run(main, backend=backend).kills == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_tasks_of_one_loop_after_those_of_another(backend: str) -> None:
    tasks = Tasks()

    async def main(number: int) -> None:
        work = ScriptedWork()
        await tasks.start("shell", launching(work))
        work.finish(number)
        await tasks.wait(f"shell-{number + 1}")

    for number in range(3):
        anyio.run(main, number, backend=backend)
    assert [task.exit_code for task in tasks.list()] == [0, 1, 2]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("backend", BACKENDS)
def test_warnings_that_are_errors_break_no_loop(backend: str) -> None:
    works: list[ScriptedWork] = []

    async def main() -> str:
        tasks = Tasks()
        for _ in range(3):
            works.append(ScriptedWork())
            await tasks.start("shell", launching(works[-1]))
        return "done"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert anyio.run(main, backend=backend) == "done"
    gc.collect()
    assert [work.kills for work in works] == [1, 1, 1]


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_at_the_exit_of_the_interpreter_one_warning_keeps_no_other_task_alive() -> None:
    alive: dict[str, Work] = {"shell-1": ScriptedWork(), "shell-2": ScriptedWork()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kill_all(alive)
    gc.collect()
    assert [cast(ScriptedWork, work).kills for work in alive.values()] == [1, 1]
