"""Two processes work on one board, and one of them is killed again and again, anywhere."""

import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import anyio
import pytest

from unspool.team.board import BoardTask, TaskDraft
from unspool.team.sqlite_board import SqliteBoard

HOST = Path(__file__).parent / "board_host.py"
LONG = bool(os.environ.get("UNSPOOL_LONG"))
COUNT = 500
KILLS = 30 if LONG else 4


class Worker:
    """A process that is started again when it was killed; ``lines`` is what it has told."""

    def __init__(self, path: Path, name: str, kills: list[int]) -> None:
        self._command = [sys.executable, "-P", str(HOST), str(path), name, str(COUNT)]
        self._kills = kills
        self.killed = 0
        self.lines: list[tuple[str, str]] = []
        self.failed = ""

    def run(self) -> None:
        while not self._run(self._kills.pop() if self._kills else None) and not self.failed:
            self.killed += 1

    def _run(self, kill_after: int | None) -> bool:
        """Whether it came to its end; killed after so many lines."""
        with subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            for number, line in enumerate(process.stdout):
                if line.endswith("\n"):  # the last one may be cut
                    what, id = line.split()
                    self.lines.append((what, id))
                if number == kill_after:
                    process.kill()
            self.failed += process.stderr.read()
        return process.returncode == 0


async def fill(path: Path) -> None:
    board = SqliteBoard(path)
    # every tenth needs the one before it
    drafts = [
        TaskDraft(
            title=f"task {number}", key=f"k{number}", depends_on=(f"k{number - 1}",) * (number % 10 == 9)
        )
        for number in range(COUNT)
    ]
    await board.add("lead", *drafts)
    await board.aclose()


async def outcome(path: Path) -> tuple[BoardTask, ...]:
    board = SqliteBoard(path)
    tasks = tuple(await board.list())
    await board.aclose()
    return tasks


@pytest.mark.parametrize("seed", range(3 if LONG else 1))
def test_each_task_is_done_once_when_processes_are_killed(tmp_path: Path, seed: int) -> None:
    path, pick = tmp_path / "team.db", random.Random(seed)
    anyio.run(fill, path)
    most = COUNT // KILLS
    workers = [
        Worker(path, "bob", [pick.randrange(most) for _ in range(KILLS)]),
        Worker(path, "eve", []),
    ]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(worker.failed for worker in workers)
    killed = workers[0].killed
    assert killed

    tasks = {task.id: task for task in anyio.run(outcome, path)}
    assert len(tasks) == COUNT
    assert all(task.status == "done" for task in tasks.values())  # none is lost

    told = [(what, id) for worker in workers for what, id in worker.lines]
    done = Counter(id for what, id in told if what == "done")
    assert max(done.values()) == 1  # none is completed twice
    assert COUNT - len(done) <= killed  # done, and killed before it said so
    again = {
        id: count for id, count in Counter(id for what, id in told if what == "work").items() if count > 1
    }
    assert sum(again.values()) - len(again) <= killed  # only what was held when its holder died
    assert sum(task.attempts - 1 for task in tasks.values()) <= killed
    for worker, name in zip(workers, ("bob", "eve"), strict=True):
        assert all(tasks[id].result == f"by {name}" for what, id in worker.lines if what == "done")
