"""A team whose members run in processes of their own, which are killed anywhere and gone on with by others."""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from unspool.kernel.events import MessageEnd, ToolExecDispatch
from unspool.kernel.state import fold
from unspool.team.letters import Letter
from unspool.team.sqlite_mailbox import SqliteMailbox
from unspool.trajectory import JsonlSessions

pytestmark = pytest.mark.anyio
HOST = Path(__file__).parent / "team_host.py"
LONG = bool(os.environ.get("UNSPOOL_LONG"))
COUNT = 60 if LONG else 12
KILLS = 20 if LONG else 3


class Host:
    """A process that is started again when it was killed; ``lines`` is what it has told."""

    def __init__(self, folder: Path, name: str, kills: list[int]) -> None:
        self.command = [sys.executable, "-P", str(HOST), str(folder), name, str(COUNT)]
        self.kills = kills
        self.lines: list[str] = []
        self.failed = ""
        self.over = threading.Event()
        self.process: subprocess.Popen[str] | None = None

    def run(self) -> None:
        while not self.over.is_set():
            with subprocess.Popen(
                self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as self.process:
                assert self.process.stdout is not None and self.process.stderr is not None
                kill_after = self.kills.pop() if self.kills else None
                for number, line in enumerate(self.process.stdout):
                    self.lines.append(line.strip())
                    if number == kill_after:
                        self.process.kill()
                self.failed += self.process.stderr.read()
            if self.process.returncode == 0 or self.failed:
                self.over.set()

    def end(self) -> None:
        self.over.set()
        if self.process is not None:
            self.process.kill()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_letter_is_lost_or_doubled_when_processes_are_killed(tmp_path: Path) -> None:
    pick = random.Random(5)
    lead, ann = (Host(tmp_path, name, [pick.randrange(5) for _ in range(KILLS)]) for name in ("lead", "ann"))
    mailbox = SqliteMailbox(tmp_path / "mailbox.db")
    for name in ("ann", "lead"):
        await mailbox.open(name)
    threads = [threading.Thread(target=host.run) for host in (lead, ann)]
    for thread in threads:
        thread.start()
    try:
        with anyio.move_on_after(100) as scope:
            for number in range(COUNT):
                await mailbox.send(
                    Letter(id=f"host/{number}", sender="host", to="ann", text=f"task {number}")
                )
                while f"asked {number}" not in ann.lines:  # noqa: ASYNC110 (a thread adds them)
                    await anyio.sleep(0.002)
            while not lead.over.is_set():  # noqa: ASYNC110 (a thread sets it)
                await anyio.sleep(0.01)
    finally:
        for host in (lead, ann):
            host.end()
        for thread in threads:
            thread.join()
    ended = not scope.cancelled_caught
    await mailbox.aclose()
    assert not lead.failed, lead.failed
    assert not ann.failed, ann.failed
    assert len(lead.kills) + len(ann.kills) < KILLS  # most were carried out
    assert ended, (lead.lines, ann.lines)
    with JsonlSessions(tmp_path / "logs") as sessions:
        facts = {name: list(sessions.facts(f"team.{name}.1")) for name in ("lead", "ann")}
    for each in facts.values():
        assert fold(each).seq == each[-1].seq
    read = {
        name: [fact.message.text for fact in each if isinstance(fact, MessageEnd) and _is_user(fact)]  # type: ignore[union-attr]  # a user's message has one
        for name, each in facts.items()
    }
    assert read["ann"] == [f"task {number}" for number in range(COUNT)]
    assert [text.split("\n")[1] for text in read["lead"]] == [f"report {number}" for number in range(COUNT)]
    assert any(isinstance(fact, ToolExecDispatch) for fact in facts["ann"])


def _is_user(fact: MessageEnd) -> bool:
    return fact.message is not None and fact.message.role == "user"
