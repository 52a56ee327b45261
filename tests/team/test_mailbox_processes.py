"""Two processes exchange letters through one file, and one of them is killed again and again, anywhere."""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

HOST = Path(__file__).parent / "mailbox_host.py"
LONG = bool(os.environ.get("UNSPOOL_LONG"))
COUNT = 3000 if LONG else 600
KILLS = 40 if LONG else 4


class Host:
    """A process that is started again when it was killed; ``lines`` is what it has told."""

    def __init__(self, path: Path, what: str) -> None:
        self._path, self._what = path, what
        self.lines: list[tuple[str, int, int]] = []
        self.failed = ""

    def run(self, kill_after: int | None) -> bool:
        """Whether it came to its end; killed after so many lines."""
        numbers = [str(len(self.lines)), str(COUNT)] if self._what == "send" else []
        command = [sys.executable, "-P", str(HOST), str(self._path), self._what, *numbers]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stderr is not None
            for number, line in enumerate(process.stdout):
                if line.endswith("\n"):  # the last one may be cut
                    what, id, more = line.split()
                    self.lines.append((what, int(id), int(more)))
                if number == kill_after:
                    process.kill()
            self.failed += process.stderr.read()
        return process.returncode == 0

    def run_to_the_end(self, kills: list[int]) -> None:
        while not self.run(kills.pop() if kills else None):
            if self.failed:
                return


@pytest.mark.parametrize("seed", range(3 if LONG else 1))
def test_nothing_is_lost_or_out_of_order_when_processes_are_killed(tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    sender, reader = Host(tmp_path / "box.db", "send"), Host(tmp_path / "box.db", "read")
    most = COUNT // KILLS
    plans = [(each, [pick.randrange(most) for _ in range(KILLS)]) for each in (sender, reader)]
    threads = [threading.Thread(target=each.run_to_the_end, args=(kills,)) for each, kills in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not sender.failed and not reader.failed

    assert [id for _, id, _ in sender.lines] == list(range(COUNT))
    resent = [id for _, id, accepted in sender.lines if not accepted]
    assert len(resent) <= KILLS  # only what was accepted when the process died

    read = [id for what, id, _ in reader.lines if what == "read"]
    assert sorted(set(read)) == list(range(COUNT))  # none is lost
    for line in range(3):
        seen = dict.fromkeys(id for id in read if id % 3 == line)
        assert list(seen) == sorted(seen)  # in the order of their sender
    done: set[int] = set()
    for what, id, _ in reader.lines:
        assert id not in done  # none is delivered again, or acknowledged twice
        if what == "done":
            done.add(id)
