"""Every example runs, offline, from anywhere, and shows what it is there to show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))

SHOWN = {
    "hello": [
        "event 1: AgentStart",
        "calls: word_count {'text': 'to be or not'}",
        "result: ok (Text(text='4'),)",
        "event 19: AgentEnd",
        "stop: Four words.",
    ],
    "gate": [
        "c1: read_note: ok",
        "c2: rewritten to {'title': 'drafts/plan', 'text': 'milk, then bread'}",
        "c2: write_note: ok",
        "c3: delete_note: ok",
        "c4: delete_note: denied",
        "the model was told: not executed: denied: the archive is kept",
        "notes: ['archive/2024', 'drafts/plan']",
    ],
    "steering": [
        "c1: asking for a flight",
        "c2: skipped",
        "c3: skipped",
        "c1: ok",
        "user: No hotel and no car, I stay with friends.",
        "assistant: Only the flight, then.",
        "user: When does it leave?",
        "assistant: It leaves at nine.",
        "user: Tell me a tale.",
        "assistant: Once upon a time",
        "user: What is 2 + 2?",
        "assistant: Four.",
        "the model was sent: ['Tell me a tale.', 'Once upon a time', 'What is 2 + 2?']",
    ],
    "approval": [
        "first process: paused, 2 calls wait",
        "second process: c1 waits: pay {'to': 'Ann', 'amount': 20}",
        "second process: c2 waits: pay {'to': 'Bob', 'amount': 9000}",
        "  25 paid to Ann",
        "second process: stop: Ann is paid, Bob is not.",
        "the model was told of c2: not executed: denied: ask Bob about it first",
    ],
    "stop_guard": [
        "assistant: All done!",
        "user: Not yet: the list still has bread.",
        "assistant: Now it is all done.",
        "stop",
        "user: Not yet: the list still has milk.",
        "stop_guard never bought: milk",
    ],
    "own_message": [
        "the model read: [sensor] fridge: 11.5 °C",
        "from the log: Reading(sensor='fridge', celsius=11.5)",
        "for a stranger: OpaqueMessage(kind='reading') - [sensor] fridge: 11.5 °C",
    ],
    "budget": [
        "  model: 100 tokens",
        "  budget: run: the budget is used up (tokens=300, tokens_limit=250)",
        "  hook: 0 tokens",
        "  stop: I stop here, after 300 tokens: nothing in the first rooms.",
    ],
    "coding_agent": [
        "tests pass before: False",
        "c3: bash python3 -m unittest -q: rule Bash(python3 -m unittest *): ok, exit code 1",
        "c4: bash git add . ; rm test_stats.py: rule Bash(rm *): denied",
        "c5: edit_file stats.py: mode accept-edits: ok",
        "c6: bash python3 -m unittest -q: rule Bash(python3 -m unittest *): ok, exit code 0",
        "tests pass after: True · trajectory sound: True",
        "killed in the middle of the tests: True",
        "c3: bash python3 -m unittest -q: rule Bash(python3 -m unittest *): unknown",
        "c5: edit_file stats.py: mode accept-edits: ok",
        "the same end: True · tests pass: True",
    ],
    "code_review": [
        "guard: change first: A name becomes part of the SQL.",
        "reader: merge: It is short and clear.",
        "tester: change first: It has no test.",
        "counted: {'merge': 1, 'change first': 2, 'reject': 0}",
        "winner: change first · majority: True",
        "tokens: 770",
        "trajectories sound: True",
    ],
    "map_reduce": [
        "reader: stop: April: it rained on three days.",
        "all: April: it rained on three days. June: it rained on eight days. March: it rained on twelve days. One month is missing.",
        "ended: incomplete · failed: [3] · tokens: 240",
        "trajectories sound: True",
    ],
    "research_team": [
        "In winter, when the pond was frozen for six weeks, and in August, when it was dry for three days.",
        "ended: stop",
        "ann: 660 tokens: Done: winter.txt.",
        "ben: 660 tokens: Done: summer.txt.",
        "trajectories sound: True",
    ],
    "triage": [
        "triage hands over to billing",
        "to triage: Order 7 came broken. I want my money back.",
        "billing: I am sorry. Order 7 is refunded.",
        "later, from the log:",
        "to billing: Thank you! Is anything else of mine refunded?",
        "billing: No, only order 7.",
        "billing: 330 tokens",
        "triage: 220 tokens",
    ],
    "harness_demo": [
        "> Write a program that greets me, and run it.",
        '+print("Hello!")',
        "write_file? [y]es, or why not: y",
        "← ok: wrote hello.py",
        "Please greet me in French.",
        '-print("Hello!")',
        "← ok: exit status 0 Bonjour !",
        "run? [y]es, or why not: not yet, I want to read it first",
        "← denied: not executed: denied: not yet, I want to read it first",
        "Done; nothing was pushed. The history of greetings^C",
        "[interrupted]",
        "You are welcome.",
        "--- --resume ---",
        "A program that greets in French, hello.py.",
    ],
}


def output(tmp_path: Path, name: str, *arguments: str, **environment: str) -> list[str]:
    """The lines an example prints; it must end well and warn of nothing, nor may a process it starts."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "utf-8", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def assert_in_order(expected: list[str], lines: list[str]) -> None:
    left = iter(lines)
    for line in expected:
        assert line in left, f"not shown, or not in this order: {line!r}"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "harness"])
def test_an_example_shows_what_it_is_about(name: str, tmp_path: Path) -> None:
    assert_in_order(SHOWN[name], output(tmp_path, name))


def test_the_harness_shows_its_demo(tmp_path: Path) -> None:
    assert_in_order(SHOWN["harness_demo"], output(tmp_path, "harness", "--demo"))
    assert not list(tmp_path.iterdir())  # it worked elsewhere


def test_the_harness_ends_where_nobody_types(tmp_path: Path) -> None:
    arguments = ("-m", "local/any", "--base-url", "http://127.0.0.1:9/v1")
    assert output(tmp_path, "harness", *arguments) == ["", "> "]
    assert output(tmp_path, "harness", "--resume", *arguments) == ["", "> "]
    assert len(list(tmp_path.glob(".harness/*.jsonl"))) == 1


def test_the_harness_is_short_enough_to_copy() -> None:
    assert len((EXAMPLES / "harness.py").read_text(encoding="utf-8").splitlines()) <= 150
