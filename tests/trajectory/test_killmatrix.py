"""The kill matrix: a part of it, and that it finds what it is there to find."""

import os
import subprocess
import sys
from itertools import pairwise

import pytest

from unspool import Fact, ToolExecEnd, ToolExecStart
from unspool.kernel import fold
from unspool.kernel.events import AgentStart, MessageEnd, ToolExecDispatch
from unspool.kernel.messages import Message, Text, ToolCall, assistant_message, tool_message, user_message
from unspool.kernel.texts import DEFAULT_TEXTS
from unspool.trajectory import Head
from unspool.trajectory.killmatrix import all_cases, sampled, table
from unspool.trajectory.killmatrix_checks import (
    Ending,
    check_acknowledged,
    check_doubts,
    check_effects,
    check_ending,
    check_transcript,
)
from unspool.trajectory.killmatrix_points import KINDS, Place, Points
from unspool.trajectory.killmatrix_processes import Case, Course

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def matrix(*arguments: str) -> tuple[int, list[str]]:
    """Exit status and lines of the command; in a process of its own, which has no thread but one."""
    command = [sys.executable, "-P", "-m", "unspool.trajectory.killmatrix", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def test_a_part_of_the_matrix() -> None:
    status, lines = matrix("--sample", "30")
    assert status == 0, "\n".join(lines)
    passed, total = lines[-1].split("/")
    assert passed == total and int(total) >= 30
    assert [line[:32].strip() for line in lines[:-1]] == [*KINDS.values(), "killed again while going on"]


def test_what_fails_is_named_so_that_it_can_be_run_again() -> None:
    status, lines = matrix("--only", "jsonl:torn:100000", "--only", "sqlite:torn:7+written:3")
    assert (status, lines[-1]) == (1, "1/2")
    named = lines.index("--only jsonl:torn:100000")
    assert lines[named + 1] == "  the process was not killed at torn:100000: it ended with 0"


# --- cases -------------------------------------------------------------------------------------

ENDING = Ending(reason="stop", active=False, text="done", users=["go"], rows=[], unknown=[])


def course(**counts: int) -> Course:
    trail = [Place(kind, number) for kind, count in counts.items() for number in range(1, count + 1)]
    return Course(trail, ENDING)


def test_a_case_has_a_name() -> None:
    for name in ("jsonl:torn:137", "sqlite:before:1+effect:20"):
        assert str(Case.of(name)) == name
    for name in ("torn:1", "jsonl:torn", "jsonl:torn:x", "jsonl:gone:1", "jsonl:torn:1+", "memory:torn:1"):
        with pytest.raises(ValueError, match="this is none"):
            Case.of(name)


def test_a_sample_has_something_of_each_kind_and_is_spread_evenly() -> None:
    cases = all_cases("jsonl", course(before=400, tool=10))
    chosen = sampled(cases, 41)
    assert len(cases) == 410 + sum(len(case.kills) == 2 for case in cases)
    numbers = [
        case.kills[0].number for case in chosen if case.kills[0].kind == "before" and len(case.kills) == 1
    ]
    gaps = {later - number for number, later in pairwise(numbers)}
    assert max(gaps) - min(gaps) <= 1
    assert {"before", "tool"} == {case.kills[0].kind for case in chosen}
    assert sampled(cases, 41) == chosen
    assert (
        table(chosen, [["wrong"], *[[] for _ in chosen[1:]]])[0].split()[-1]
        == f"{len(numbers) - 1}/{len(numbers)}"
    )


def test_places_are_counted_by_kind() -> None:
    points = Points(Place("torn", 2))
    assert [points.is_end(kind) for kind in ("torn", "before", "torn", "torn")] == [False, False, True, False]
    assert [str(place) for place in points.trail] == ["torn:1", "before:1", "torn:2", "torn:3"]


# --- checks ------------------------------------------------------------------------------------


def test_lost_and_doubled_facts_are_found() -> None:
    stored = [Head(1, "a"), Head(2, "b")]
    assert list(check_acknowledged([Head(1, "a"), Head(2, "b")], stored)) == []
    assert list(check_acknowledged([Head(3, "c")], stored)) == ["acknowledged fact 3 is gone"]
    assert list(check_acknowledged([Head(2, "x"), Head(2, "b")], stored)) == [
        "acknowledged fact 2 is another",
        "fact 2 was acknowledged 2 times",
    ]
    assert list(check_acknowledged([], [Head(2, "b")])) == ["the facts are not numbered 1, 2, …"]


def failed(call_id: str) -> Message:
    return tool_message(ToolCall(id=call_id, name="pay"), "it failed", is_error=True)


def ran(tool: str, outcome: str, *, runs: tuple[str, ...] = ("r1", "r1"), text: str = "") -> list[Fact]:
    """A call that was dispatched in each of ``runs`` but the last, in which it ended."""
    return [
        ToolExecStart("c1", tool, run_id=runs[0]),
        *[ToolExecDispatch("c1", "s:c1", run_id=run) for run in runs[:-1]],
        ToolExecEnd("c1", tool, outcome, (Text(text),), run_id=runs[-1]),
    ]


def test_effects_that_come_twice_or_unannounced_are_found() -> None:
    pay, note = ("pay", "s:c1"), ("note", "s:c1")
    assert list(check_effects([pay], ran("pay", "ok"))) == []
    assert list(check_effects([note, note], ran("note", "ok"))) == []
    assert list(check_effects([pay, pay], ran("pay", "ok"))) == ["pay ran 2 times as s:c1"]
    assert list(check_effects([pay], [])) == ["pay ran as s:c1, of which the log knows nothing"]
    assert list(check_effects([], ran("pay", "ok"))) == ["call c1 is said to have run, and did not"]
    other = [*ran("note", "ok"), ToolExecDispatch("c1", "other")]
    assert list(check_effects([note], other)) == ["call c1 was dispatched with other keys: ['other', 's:c1']"]


def test_calls_in_doubt_are_told_as_unknown_or_run_again() -> None:
    later, said = ("r1", "r2"), DEFAULT_TEXTS.unknown_outcome
    result = MessageEnd("m1", failed("c1"))
    assert list(check_doubts(ran("pay", "unknown", runs=later, text=said), [result])) == []
    assert list(check_doubts(ran("note", "ok", runs=("r1", "r2", "r2")), [result])) == []
    assert list(check_doubts(ran("pay", "ok", runs=later), [result])) == [
        "call c1 was in doubt, and is told as ok"
    ]
    assert list(check_doubts(ran("note", "unknown", runs=later, text=said), [result])) == [
        "call c1 does no harm when it runs again, and did not"
    ]
    assert list(check_doubts(ran("pay", "unknown", text="?"), [result])) == [
        "call c1 was not in doubt, and is told as unknown",
        "the model is not told that the outcome of call c1 is unknown",
    ]


def test_another_ending_is_found_but_for_results_nobody_knows() -> None:
    row: list[object] = ["tool", "fine", [], "c1", False]
    wanted = Ending("stop", False, "done", ["go"], [row], [])
    unknown = Ending("stop", False, "done", ["go"], [["tool", "unknown", [], "c1", True]], ["c1"])
    assert list(check_ending(unknown, wanted)) == []
    other = Ending("", True, "", ["go", "go"], [["tool", "bad", [], "c1", True], row], [])
    assert list(check_ending(other, wanted)) == [
        "reason is '', not 'stop'",
        "active is True, not False",
        "text is '', not 'done'",
        "users is ['go', 'go'], not ['go']",
        "message 1 is ['tool', 'bad', [], 'c1', True], not ['tool', 'fine', [], 'c1', False]",
    ]


def test_a_transcript_that_no_provider_takes_is_found() -> None:
    facts: list[Fact] = [
        AgentStart(seq=1, run_id="r1"),
        MessageEnd("m1", user_message("go"), seq=2, cause="before_turn"),
        MessageEnd("m2", assistant_message("", ToolCall(id="c1", name="pay")), seq=3, cause="before_turn"),
        MessageEnd("m2", failed("c2"), seq=4),
    ]
    found = list(check_transcript(fold(facts), facts))
    assert [problem.split(":")[0] for problem in found] == [
        "the transcript is not valid",
        "the transcript is not valid",
        "there is a second message of m2",
    ]
