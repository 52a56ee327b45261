"""``unspool show`` and the two views: a log reads as its run did, damage is named."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from unspool import (
    AgentEnd,
    AgentStart,
    ErrorEvent,
    Event,
    Message,
    MessageDiscarded,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelResponse,
    RetryEvent,
    Text,
    ToolExecEnd,
    ToolExecStart,
    TurnEnd,
    TurnStart,
    Usage,
    assistant_message,
    user_message,
)
from unspool.cli.app import app
from unspool.cli.view import TextView, printable
from unspool.kernel.events import ApprovalDecided, ApprovalRequested
from unspool.kernel.messages import Cost, Image
from unspool.trajectory import JsonlLog
from unspool.trajectory.record import body_of, hash_of_record, seal

from .driving import COMMAND, WAIT_S, running, unspool  # tests/cli/, not cli/

EVENTS: list[Event] = [
    AgentStart(agent="helper", model="local/x", time=100.0),
    TurnStart(1),
    MessageStart("user", "m1"),
    MessageEnd("m1", user_message("look\x1b[2J here")),
    MessageStart("assistant", "m2"),
    MessageUpdate("let me ", "thinking"),
    MessageDiscarded("m2", "network"),
    RetryEvent(1, 3, 1.5, "network"),
    MessageStart("assistant", "m2"),
    MessageUpdate("I lo"),
    MessageUpdate("ok.", index=0),
    MessageUpdate('{"pa', "tool_call", 1),
    MessageEnd("m2", assistant_message("I look.")),
    ModelResponse(usage=Usage(input_tokens=1000, cache_read_tokens=200, output_tokens=9, cost=Cost(input=0.01)), total_s=1.26),
    ModelResponse(error_kind="network"),
    ToolExecStart("c1", "grep", args={"pattern": "é\n", "limit": 5}),
    ToolExecEnd("c1", "grep", content=(Text("\n".join(map(str, range(10)))), Image(url="x")), duration_s=0.0123),
    ToolExecStart("c2", "read", args={"path": "x" * 200}),
    ApprovalRequested(("c2", "c3"), "not at night"),
    ApprovalDecided("c2", True, by="ann"),
    ApprovalDecided("c3", False),
    ToolExecEnd("c2", "read", "error", (Text("no such file"),), duration_s=2.0),
    MessageEnd("m3", Message(role="tool", tool_call_id="c1")),
    ErrorEvent("duplicate_call", "came twice", fatal=False),
    ErrorEvent("max_turns", "no turns left"),
    AgentEnd("max_turns", turns=1, tool_calls=2, tool_errors=1, usage=Usage(input_tokens=5, output_tokens=1), time=161.0),
]  # fmt: skip

SHOWN = f"""\
helper · local/x
turn 1
> look␛[2J here
let me 
· discarded: network
· network: retry 1 of 3 in 1.5 s
I look.
· 1,200 tokens in (200 cached), 9 out, $0.0100 · 1.3 s
→ grep(pattern="é\\n", limit=5)
← grep ok, 12 ms
  | 0
  | 1
  | 2
  | 3
  | 4
  | 5
  | 6
  | 7
  | … 3 more lines
→ read(path="{"x" * 154}…)
? waits for approval: c2, c3 (not at night)
· c2 approved by ann
· c3 declined
← read error, 2.0 s
  | no such file
! duplicate_call: came twice
! max_turns: no turns left
max_turns · 1 turn, 2 calls, 1 error · 5 tokens in, 1 out · 61.0 s
"""


def shown(events: Sequence[Event], *, live: bool) -> str:
    out = io.StringIO()
    view = TextView(Console(file=out, highlight=False, width=40), live=live)
    for event in events:
        view.show(event)
    return out.getvalue()


def test_a_run_as_people_see_it() -> None:
    assert shown(EVENTS, live=False) == SHOWN
    assert shown(EVENTS, live=True) == SHOWN.replace("! max_turns: no turns left\n", "")


def test_facts_alone_show_what_was_committed() -> None:
    facts = [event for event in EVENTS if not hasattr(event, "sub")]
    expected = SHOWN.replace("let me \n· discarded: network\n", "")
    assert shown(facts, live=False) == expected


def test_what_would_command_a_terminal_is_made_visible() -> None:
    assert printable("a\tb\r\nc\x00\x1b]0;x\x07\x9b1m\x7f") == "a\tb\nc␀␛]0;x␇\ufffd1m␡"


def test_shown_log_reads_as_its_run(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("some words\n")
    live = unspool("demo", "--log", "log.jsonl", cwd=tmp_path).stdout.splitlines()
    log = unspool("show", "log.jsonl", cwd=tmp_path)
    assert (log.returncode, log.stderr) == (0, "")
    assert log.stdout.splitlines() == live[1:-1]


def make_log(path: Path) -> bytes:
    with JsonlLog(path) as log:
        log.append(AgentStart(model="m", seq=1))
        log.append(TurnStart(1, seq=2))
        log.append(TurnEnd(1, seq=3))
        log.append(AgentEnd("stop", seq=4))
    return path.read_bytes()


def test_json_gives_the_records_as_stored(tmp_path: Path) -> None:
    whole = make_log(tmp_path / "log")
    *_, last = whole.splitlines()
    odd = b'{"type":"from_the_future","seq":5, "x":1.50}'
    line, _ = seal(odd, hash_of_record(last) or b"")
    (tmp_path / "log").write_bytes(whole + line + b"\n")
    done = CliRunner().invoke(app, ["show", "--json", str(tmp_path / "log")])
    bodies = [*[body_of(line) for line in whole.splitlines()[1:]], odd]
    assert (done.exit_code, done.stdout_bytes.splitlines()) == (0, bodies)


@pytest.mark.parametrize(
    ("change", "reason", "line"),
    [
        (lambda whole: b"".join([*whole.splitlines(True)[:3], *whole.splitlines(True)[4:]]), "missing or doubled", 4),
        (lambda whole: whole.replace(b'"seq":3', b'"seq":4'), "damaged record", 4),
        (lambda whole: whole.replace(b'{"type":"agent_end"', b'{"type":agent_end"'), "damaged record", 5),
        (lambda whole: whole[:-1], "the last line is torn, it is left out", 5),
    ],
)  # fmt: skip
def test_damaged_log_is_shown_up_to_the_damage(
    tmp_path: Path, change: Callable[[bytes], bytes], reason: str, line: int
) -> None:
    path = tmp_path / "log"
    path.write_bytes(change(make_log(path)))
    for args in (["show", str(path)], ["show", "--json", str(path)]):
        done = CliRunner().invoke(app, args)
        assert done.exit_code == 1
        assert "turn" in done.stdout and "stop" not in done.stdout
        assert reason in done.stderr and f"line={line}" in done.stderr and done.stderr.count("\n") == 1


def test_newer_format_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b'{"unspool":1,"format":2,"writer":"unspool 7"}\n')
    done = CliRunner().invoke(app, ["show", str(tmp_path / "log")])
    assert done.exit_code == 1 and "newer" in done.stderr


def test_run_without_an_end_is_told(tmp_path: Path) -> None:
    with JsonlLog(tmp_path / "log") as log:
        log.append(AgentStart(model="m", seq=1))
        done = CliRunner().invoke(app, ["show", str(tmp_path / "log")])
    assert done.exit_code == 0 and "the end is missing" in done.stdout


@pytest.mark.parametrize("args", [[], ["--json"]])
def test_closed_pipe_ends_quietly(tmp_path: Path, args: list[str]) -> None:
    with JsonlLog(tmp_path / "log") as log:
        for seq in range(1, 5000):
            log.append(TurnStart(seq, seq=seq))
    with running([*COMMAND, "show", *args, "log"], tmp_path) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(WAIT_S) == 141
