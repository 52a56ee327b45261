"""Without ``/proc`` and subreapers, as on macOS: what stays in the process group is ended all the same."""

import time

import pytest

from unspool.tools.shell import conduct

from .conftest import Processes, Run, each

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = "import sys; sys.platform = 'other'; " + conduct._LAUNCH
    monkeypatch.setattr(conduct, "_LAUNCH", launch)


COMMANDS = {
    "child": "sleep 300 & echo up",
    "orphan": "(sleep 300 &); echo up",
    "ignores TERM": "(trap '' TERM; sleep 300) & echo up",
    "time is over": "(trap '' TERM; sleep 300) & echo up; sleep 300",
}


async def test_the_group_is_ended(run: Run, processes: Processes) -> None:
    async def check(case: str) -> None:
        began = time.monotonic()
        result = await run(COMMANDS[case], timeout=1)
        assert time.monotonic() - began < 5
        assert str(result.content).startswith("up") and result.details["exit_code"] in (0, 143)

    await each(COMMANDS, check)
    assert processes.alive() == []
