"""What requests say of a context manager: cached prefixes, breaks, recall, precision, what was dropped."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from unspool.context.items import ContextReader
from unspool.context.marks import marked
from unspool.context.meter import RunMeter, measure
from unspool.context.metrics import Call, RunMetrics
from unspool.kernel import AgentMessage, ContextDemand, ContextItem, Message, ToolCall, user_message
from unspool.kernel.events import CompactionStep
from unspool.kernel.messages import BaseMessage, Text, assistant_message, tool_message
from unspool.kernel.transcript import Transcript


class Note(BaseMessage):
    def context_items(self) -> Sequence[ContextItem]:
        return [ContextItem(kind="note", identity="n")]

    def to_message(self) -> Message:
        return user_message("n")


def tokens(message: AgentMessage) -> int:
    """A token for each character, and one for the message."""
    return 1 + len(message.text)


def numbered(*messages: Message) -> list[Message]:
    return [replace(message, id=f"m{number}") for number, message in enumerate(messages, 1)]


def read(path: str, number: int = 0, text: str = "0123456789") -> tuple[Message, Message]:
    """A call that reads a file, and its result: 1 and 11 tokens."""
    one = ToolCall(id=f"{path}{number}", name="read_file", args={"path": path})
    return assistant_message("", one), tool_message(one, text)


def measured(*views: Sequence[Message], reply: Message | None = None) -> RunMetrics:
    calls = [Call(messages=view) for view in views]
    if reply is not None:
        calls[-1] = replace(calls[-1], reply=reply)
    return measure(calls, tokens)


# --- prefixes --------------------------------------------------------------------------------------

A, B, C = numbered(user_message("aaaa"), assistant_message("bb"), user_message("cccccc"))  # 5, 3 and 7 tokens
CLEARED = marked(B, [Text("-")], "cleared")  # 2 tokens
STEP = CompactionStep(strategy="clear_tool_results")

BREAKS: dict[str, tuple[Call, Call, tuple[int, str | None, int, int]]] = {
    # before, after: cached tokens of the second, the cause, the messages kept, the tokens lost
    "it goes on": (Call(messages=[A, B]), Call(messages=[A, B, C]), (8, None, 0, 0)),
    "the same again": (Call(messages=[A]), Call(messages=[A]), (5, None, 0, 0)),
    "made anew, and the same": (
        Call(messages=[A, B]),
        Call(messages=[replace(A, id="other"), replace(B, timestamp=3.0), C]),
        (8, None, 0, 0),
    ),
    "the overhead is cached too": (
        Call(messages=[A], overhead=100),
        Call(messages=[A, B], overhead=100),
        (105, None, 0, 0),
    ),
    "a step that is known": (
        Call(messages=[A, B]),
        Call(messages=[A, CLEARED, C], steps=[STEP]),
        (5, "rewrite by clear_tool_results", 1, 3),
    ),
    "a mark, where no step is known": (
        Call(messages=[A, B]),
        Call(messages=[A, CLEARED, C]),
        (5, "rewrite by cleared", 1, 3),
    ),
    "nobody knows why": (Call(messages=[A, B]), Call(messages=[A, C]), (5, "messages changed", 1, 3)),
    "less than before": (Call(messages=[A, B]), Call(messages=[A]), (5, "messages changed", 1, 3)),
    "another system prompt": (
        Call(messages=[A], system="x", overhead=9),
        Call(messages=[A, B], system="y", overhead=9),
        (0, "system changed", 0, 14),
    ),
    "other tools": (
        Call(messages=[A], tools="x"),
        Call(messages=[A, B], tools="y"),
        (0, "tools changed", 0, 5),
    ),
    "other options": (
        Call(messages=[A], options="x"),
        Call(messages=[A, B], options="y"),
        (0, "options changed", 0, 5),
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_a_request_shares_with_the_one_before_is_cached(name: str) -> None:
    before, after, (cached, cause, kept, lost) = BREAKS[name]
    run = measure([before, after], tokens)
    first, second = run.calls
    assert (first.cached, first.broken, second.cached) == (0, None, cached)
    assert second.tokens == after.overhead + sum(map(tokens, after.messages))
    found = [(each.call, each.cause, each.kept, each.lost) for each in run.breaks]
    assert found == ([] if cause is None else [(2, cause, kept, lost)])


def test_numbers_of_a_run() -> None:
    run = measured([A], [A, B, C], [C])
    assert [call.tokens for call in run.calls] == [5, 15, 7]
    assert (run.peak, run.total, run.cached) == (15, 27, 5)
    assert run.cached_ratio == 5 / 27
    assert [call.cached_ratio for call in run.calls] == [0, 1 / 3, 0]
    empty = measured()
    assert (empty.peak, empty.total, empty.cached_ratio, empty.recall.recall, empty.precision) == (
        0, 0, 0, None, None,
    )  # fmt: skip


def test_a_run_that_only_grows_has_no_breaks_and_costs_what_is_new() -> None:
    meter = RunMeter(tokens)
    view: Transcript[Message] = Transcript([user_message("go")])
    costs: list[int] = []
    for number in range(1_000):
        before = meter.visited
        meter.see(Call(messages=view))
        costs.append(meter.visited - before)
        view = view.extend(read(f"{number}.py"))
    run = meter.result()
    assert run.breaks == [] and run.dropped == []
    assert run.cached == run.total - run.calls[-1].tokens
    assert costs == [1] + [2] * 999


# --- what is shown and needed ----------------------------------------------------------------------


def test_recall_is_of_what_the_request_showed_that_was_answered() -> None:
    a, b = read("a.py"), read("b.py")
    gone = marked(a[1], [Text("-")], "cleared")
    again, more = assistant_message("", ToolCall(id="x", name="edit", args={"path": "a.py"})), read("b.py", 1)
    run = measured([A], [A, *a], [A, *a, *b], [A, a[0], gone, *b, again, *more], reply=again)
    # the edit of a.py was answered to the third request, which shows it; b.py was read for the second time there,
    # too; at the end a.py is asked for when it is cleared
    assert run.by_kind == {"file": run.recall}
    assert (run.recall.demanded, run.recall.shown) == (3, 2)
    assert run.recall.recall == 2 / 3


def test_recall_by_label() -> None:
    a = read("a.py")
    again = read("a.py", 1)[0]
    calls = [
        Call(messages=[A, *a], reply=again, label="shown"),
        Call(messages=[A], reply=again, label="hidden"),
        Call(messages=[A], reply=B, label="nothing needed"),
    ]
    run = measure(calls, tokens)
    assert {label: tally.recall for label, tally in run.by_label.items()} == {"shown": 1, "hidden": 0}


def test_an_id_is_shown_by_whatever_holds_it() -> None:
    one, result = read("a.py", text="made in 3f2a9c1b77")
    quoting = assistant_message("It is 3f2a9c1.")
    summary = marked(user_message(""), [Text("Something was made in 3f2a9c1b.")], "summary")
    calls = [
        Call(messages=[A, one, result], reply=quoting),
        Call(messages=[A, summary], reply=quoting),
        Call(messages=[A], reply=quoting),
    ]
    run = measure(calls, tokens)
    assert (run.by_kind["id"].demanded, run.by_kind["id"].shown) == (3, 2)


def test_demands_may_be_given() -> None:
    needed = ContextDemand(kind="file", identity="a.py", signal="read")
    a = read("a.py")
    calls = [
        Call(messages=[A, *a], demands=[needed]),
        Call(messages=[A], demands=[needed]),
        Call(messages=[A], demands=[]),
    ]
    run = measure(calls, tokens)
    assert (run.recall.demanded, run.recall.shown) == (2, 1)


def test_precision_is_of_tokens_that_were_needed_then_or_later() -> None:
    a, b = read("a.py"), read("b.py")
    again = assistant_message("", ToolCall(id="x", name="edit", args={"path": "a.py"}))
    run = measured([A, *a, *b], [A, *a, *b, again], [A, *a, *b, again, C])
    # a.py is needed by the first reply only, b.py never; both are shown three times, with 11 tokens
    assert (run.item_tokens, run.needed_tokens) == (66, 11)
    assert run.precision == 1 / 6


def test_a_message_may_be_shown_twice() -> None:
    a = read("a.py")
    run = measured([*a, *a], [A])
    assert run.inventory(1) == run.inventory(1)[:1] * 2
    assert run.calls[1].inventory == {}


def test_what_was_dropped_when_and_by_what() -> None:
    a, b = numbered(*read("a.py")), read("b.py")
    gone = marked(a[1], [Text("-")], "cleared")
    calls = [
        Call(messages=[A, *a]),
        Call(messages=[A, a[0], gone, *b], steps=[STEP, CompactionStep(strategy="trim")]),
        Call(messages=[A, *b], steps=[CompactionStep(strategy="keep_turns")]),
    ]
    run = measure(calls, tokens)
    assert [(each.call, each.id, each.role, each.by) for each in run.dropped] == [
        (2, "m2", "tool", "cleared"),
        (3, "m1", "assistant", "keep_turns"),
        (3, "", "tool", "keep_turns"),
    ]
    assert [[item.identity for item in each.items] for each in run.dropped] == [["a.py"], [], ["a.py"]]
    assert [call.inventory for call in run.calls] == [{"full": 1}, {"cleared": 1, "full": 1}, {"full": 1}]


def test_the_inventory_of_a_request_that_is_not_there() -> None:
    with pytest.raises(IndexError, match="there is no request 2, there are 1"):
        measured([A]).inventory(2)


def test_application_messages_are_read_from_the_view() -> None:
    note: AgentMessage = Note()
    run = measure([Call(messages=[user_message("n")], view=[note])], tokens)
    assert [item.identity for item in run.inventory(1)] == ["n"]


# --- laws ------------------------------------------------------------------------------------------

PATHS = st.sampled_from(["a.py", "b.py", "c.py"])


@st.composite
def histories(draw: st.DrawFn) -> list[list[Message]]:
    """Views of a conversation in which files are read, and which is rewritten now and then."""
    view: list[Message] = [user_message("go")]
    views = [list(view)]
    for number in range(draw(st.integers(0, 12))):
        view += numbered(*read(draw(PATHS), number))
        what = draw(st.integers(0, 5))
        at = draw(st.integers(0, len(view) - 1))
        if what == 0 and view[at].role == "tool":
            view[at] = marked(view[at], [Text("-")], "cleared")
        elif what == 1 and at % 2:
            del view[1:at]
        elif what == 2:
            view = [replace(message, timestamp=1.0) for message in view]  # made anew
        views.append(list(view))
    return views


def same(left: Message, right: Message) -> bool:
    return (left.role, left.content, left.tool_call_id) == (right.role, right.content, right.tool_call_id)


def common(before: Sequence[Message], after: Sequence[Message]) -> int:
    count = 0
    while count < min(len(before), len(after)) and same(before[count], after[count]):
        count += 1
    return count


@given(histories())
def test_metrics_are_those_that_are_found_by_comparing_all_messages(views: list[list[Message]]) -> None:
    run = measured(*views)
    shared = [0, *[common(a, b) for a, b in pairwise(views)]]
    assert [call.cached for call in run.calls] == [
        sum(map(tokens, view[:kept])) for view, kept in zip(views, shared, strict=True)
    ]
    broken = [n for n in range(1, len(views)) if shared[n] < len(views[n - 1])]
    assert [each.call for each in run.breaks] == [n + 1 for n in broken]
    assert [call.tokens for call in run.calls] == [sum(map(tokens, view)) for view in views]
    reader = ContextReader()
    for view in views:
        for message in view:
            reader.items(message)
    for n, view in enumerate(views, 1):
        items = Counter([item for message in view for item in reader.items(message)])
        assert Counter(run.inventory(n)) == items
        assert run.calls[n - 1].inventory == dict(Counter([item.representation for item in items.elements()]))


@given(histories())
def test_a_view_that_is_shared_gives_the_same_as_one_that_is_copied(views: list[list[Message]]) -> None:
    growing: list[Transcript[Message]] = []
    for view in views:
        last = growing[-1] if growing else Transcript[Message]()
        kept = 0
        while kept < min(len(last), len(view)) and last[kept] is view[kept]:
            kept += 1
        growing.append(last.prefix(kept).extend(view[kept:]))
    assert measured(*growing) == measured(*views)
