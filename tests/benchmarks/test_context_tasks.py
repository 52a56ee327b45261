"""The transcripts of the context benchmark, and how a run is judged: demands, recall, cached prefixes, cost."""

import importlib
import re
import sys
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unspool.kernel import (
    Message,
    ToolCall,
    assistant_message,
    tool_message,
    user_message,
    validate_message_sequence,
)

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
demands: Any = importlib.import_module("context_demands")
price: Any = importlib.import_module("context_price")
summary: Any = importlib.import_module("context_summary")
tasks: Any = importlib.import_module("context_tasks")

KINDS = len(tasks.KINDS)
CALLS = 14  # of a real transcript the first few are enough here


@pytest.fixture(scope="module", params=range(KINDS), ids=[kind.name for kind in tasks.KINDS])
def task(request: pytest.FixtureRequest) -> Any:
    try:
        return tasks.make(request.param, calls=CALLS)
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_the_same_seed_gives_the_same_bytes(task: Any) -> None:
    again = tasks.make(task.seed, calls=CALLS)
    assert msgspec.json.encode(again) == msgspec.json.encode(task)


def test_a_transcript_is_one_that_a_model_could_have_made(task: Any) -> None:
    assert not validate_message_sequence(task.messages)
    assert [message.id for message in task.messages] == [f"m{n + 1}" for n in range(len(task.messages))]
    assert task.messages[0].role == "user" and task.messages[-1].role == "assistant"
    points = tasks.call_points(task)
    assert len(points) >= CALLS
    assert all(task.messages[at - 1].role in {"user", "tool"} for at in points)
    known = {tool.name for tool in task.tools}
    assert {call.name for message in task.messages for call in message.tool_calls} <= known


def test_nothing_in_it_tells_where_or_when_it_was_made(task: Any) -> None:
    for message in task.messages:
        assert not re.search(r"/tmp/\w|trajectory-\w{8}/|site-packages| at 0x(?!7f0{10})", message.text)


def test_transcripts_are_kept_in_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tasks.make
    monkeypatch.setattr(tasks, "make", lambda number: whole(number, calls=5))
    made = tasks.tasks(1, tmp_path)
    monkeypatch.setattr(tasks, "make", None)
    assert tasks.tasks(1, tmp_path) == made


# --- demands ---------------------------------------------------------------------------------------


def call(number: int, name: str, **args: Any) -> ToolCall:
    return ToolCall(id=f"c{number}", name=name, args=args)


LINES = "\n".join(f"{number:6}\tline {number}" for number in range(1, 11))
READ = call(1, "read_file", path="a.py")
LOG = call(2, "bash", command="git log --oneline")
EDIT = call(3, "edit_file", path="a.py", old="line 3", new="line three")
SHORT = "a.py is edited, it now reads\n     3\tline three\n     4\tline 4"
HISTORY = [
    user_message("mend a.py for CORE-1234"),
    assistant_message("I look at it.", READ),
    tool_message(READ, LINES),
    assistant_message("", LOG),
    tool_message(LOG, "3f2a91c CORE-1234: add a"),
    assistant_message("3f2a91c brought it in.", EDIT),
    tool_message(EDIT, SHORT),
    assistant_message("Looking again.", call(4, "grep", pattern="line", path="a.py")),
    tool_message(call(4, "grep", pattern="line", path="a.py"), "a.py:4:line 4"),
    assistant_message("CORE-1234 is done, see 3f2a91c and RFC-2822."),
]


def views(messages: list[Message], drop: AbstractSet[int] = frozenset()) -> list[list[Message]]:
    """What each call is sent when the messages ``drop`` are left out of all requests."""
    points = [number for number, message in enumerate(messages) if message.role == "assistant"]
    return [[messages[at] for at in range(point) if at not in drop] for point in points]


def test_demands_are_paths_shown_before_and_ids_that_results_told() -> None:
    found = demands.Demands(HISTORY).by_reply
    assert [[(demand.identity, demand.shown, demand.age) for demand in reply] for reply in found] == [
        [],
        [],
        [("a.py", 2, 1), ("3f2a91c", 4, 0)],
        [("a.py", 6, 0)],
        [("CORE-1234", 4, 2), ("3f2a91c", 4, 2)],
    ]


@pytest.mark.parametrize(
    ("dropped", "met"),
    [
        (set(), {"path": (2, 2), "id": (3, 3)}),
        ({2}, {"path": (1, 2), "id": (3, 3)}),
        (
            {6},
            {"path": (1, 2), "id": (3, 3)},
        ),  # the newest is the edit's: the file as it was read is not that
        ({4}, {"path": (2, 2), "id": (2, 3)}),  # at the end a message of the user has one, a reply the other
    ],
)
def test_a_demand_is_met_when_the_request_shows_it(
    dropped: set[int], met: dict[str, tuple[int, int]]
) -> None:
    score = demands.Demands(HISTORY).score(views(HISTORY, dropped))
    assert score.kinds == met
    assert (score.met, score.asked) == (sum(n for n, _ in met.values()), 5)


@pytest.mark.parametrize(("kept", "met"), [(10, 2), (8, 2), (7, 1)])
def test_four_fifths_of_the_lines_are_enough(kept: int, met: int) -> None:
    trimmed = tool_message(READ, "\n".join(LINES.splitlines()[:kept]))
    runs = [[trimmed if message is HISTORY[2] else message for message in view] for view in views(HISTORY)]
    assert demands.Demands(HISTORY).score(runs).kinds["path"] == (met, 2)


def test_a_run_that_ended_early_met_nothing_more() -> None:
    score = demands.Demands(HISTORY).score(views(HISTORY)[:3])
    assert (score.met, score.asked) == (2, 5)


def test_younger_demands_can_be_left_out() -> None:
    assert demands.Demands(HISTORY).score(views(HISTORY), min_age=2).asked == 2


# --- price -----------------------------------------------------------------------------------------


def test_a_bill_tells_cached_from_new_tokens() -> None:
    a, b, c, d = (user_message(text) for text in "abcd")
    sizes = {id(a): 100, id(b): 200, id(c): 400, id(d): 800}
    bill = price.price(
        [[a], [a, b], [c, d]],
        [a, a, a],
        fixed=1000,
        window=2000,
        count=lambda message: sizes[id(message)],
        side_calls=[price.SideCall(input=500, output=50)],
        prices=price.Prices(input=1, cache_read=10, cache_write=100, output=1000),
    )
    assert (bill.tokens, bill.cached, bill.peak) == (1100 + 1300 + 2200, 1100 + 1000, 2200)
    assert (bill.requests, bill.rewrites, bill.overflows, bill.side_calls) == (3, 1, 1, 1)
    assert bill.cached_ratio == 2100 / 3500
    assert bill.cost == pytest.approx((2100 * 10 + 2500 * 100 + 500 * 1 + (300 + 50) * 1000) / 1e6)


def test_a_summary_is_short_and_carries_on_what_the_last_one_said() -> None:
    texts = [f"message {number}\n\nsecond line\nthird line" for number in range(500)]
    first = summary.extract(texts)
    assert summary.tokens(first) <= summary.LIMIT
    assert first.splitlines()[:2] == [summary.MARK, "message 0 / second line"]
    again = summary.extract([f"Summary of the run.\n{first}", "one more"])
    assert again.splitlines()[1] == "message 0 / second line"
    assert again.splitlines()[-1] == "one more"
    assert summary.tokens(summary.extract(["x" * 100_000] * 3)) < summary.LIMIT
