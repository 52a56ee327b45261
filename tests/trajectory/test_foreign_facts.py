"""Logs whose records are whole and say what cannot be: every reader has one answer, and none is a crash."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from unspool import AgentEnd, AgentStart, Fact, LogError, MessageEnd, QueueChanged, fold, user_message
from unspool.kernel import ContextCompacted, Replaced
from unspool.trajectory import (
    JsonlLog,
    JsonlSessions,
    SqliteSessions,
    load,
    recorded_settings,
    replay,
    requests,
    runs,
    transcript,
)

START = AgentStart(session="s", model="m", seq=1, run_id="r1")
CASES: dict[str, list[Fact]] = {
    "a queue that is not there": [START, QueueChanged("sideways", "queued", ("q1",), seq=2, run_id="r1")],
    "nobody who is queued": [START, QueueChanged("prompt", "queued", (), seq=2, run_id="r1")],
    "a rewrite of what is not there": [
        START,
        MessageEnd("m1", user_message("x"), seq=2, run_id="r1"),
        ContextCompacted(committed=True, replaced=Replaced(first="m7", last="m9"), seq=3, run_id="r1"),
    ],
}
READERS: list[Callable[[list[Fact]], Any]] = [
    fold,
    lambda facts: list(requests(facts)),
    transcript,
    lambda facts: recorded_settings(fold(facts)),
]


def stored(path: Path, facts: list[Fact]) -> Path:
    with JsonlLog(path) as log:
        for fact in facts:
            log.append(fact)
    return path


@pytest.mark.parametrize("facts", CASES.values(), ids=CASES.keys())
def test_what_cannot_follow_is_one_error_that_names_the_fact(tmp_path: Path, facts: list[Fact]) -> None:
    loaded = load(stored(tmp_path / "log", facts))
    for reader in READERS:
        with pytest.raises(LogError, match="cannot follow") as error:
            reader(loaded)
        assert error.value.details["kind"] == "impossible"
        assert error.value.details["seq"] == facts[-1].seq
    assert [run.run_id for run in runs(loaded)] == ["r1"]
    assert anyio.run(replay, loaded).difference is not None


@pytest.mark.parametrize("make", [JsonlSessions, SqliteSessions], ids=["jsonl", "sqlite"])
@pytest.mark.parametrize("facts", CASES.values(), ids=CASES.keys())
def test_it_is_damage_that_verify_finds(
    tmp_path: Path, make: Callable[[Path], Any], facts: list[Fact]
) -> None:
    with make(tmp_path / "place") as place:
        with place.create("s") as log:
            for fact in facts:
                log.append(fact)
        report = place.verify("s")
        assert [(damage.kind, damage.seq) for damage in report.damage] == [("impossible", facts[-1].seq)]
        fork = place.fork("s")
        assert [damage.kind for damage in place.verify(fork).damage] == ["impossible"]
        assert place.salvage("s").facts == facts


def test_run_ids_of_somebody_else_are_a_difference() -> None:
    facts: list[Fact] = [
        AgentStart(session="s", model="m", seq=1, run_id="r9"),
        QueueChanged("prompt", "queued", ("q1",), user_message("x"), seq=2, run_id="r9"),
        AgentEnd("stop", seq=3, run_id="r9"),
    ]
    difference = anyio.run(replay, facts).difference
    assert difference is not None
    assert (difference.seq, [field.path for field in difference.fields if field.path == "run_id"]) == (
        1,
        ["run_id"],
    )
