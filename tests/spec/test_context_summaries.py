"""Checks about summaries: what is cut, what the model is asked, what goes from one summary into the next.

Read with: ``tests/context/test_summary.py``, ``docs/deviations.md`` (which check is shown where).
"""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.context.scoping import Conversation, Scope
from tests.context.test_summary import LONG, loop, roles, summed, talk
from tests.context.working import turn

from unspool.context import (
    ClearToolResults,
    Engine,
    ExtractiveSummary,
    SessionMemory,
    SummaryCheckpoint,
    default,
)
from unspool.context.checkpoint import SummaryInfo
from unspool.context.cuts import find_cut
from unspool.context.marks import is_summary, mark_of
from unspool.kernel import AgentMessage, Message, Usage, user_message
from unspool.kernel.errors import OverloadedError
from unspool.kernel.messages import assistant_message
from unspool.kernel.sequence import to_messages, validate_message_sequence

pytestmark = pytest.mark.anyio
WINDOW = 8_000


def talking(manager: Engine, *answers: Any, said: Sequence[AgentMessage] = ()) -> Conversation:
    it = Conversation(manager, Scope(*answers, window=WINDOW))
    it.say(*said)
    return it


def summing(**settings: Any) -> Engine:
    return Engine([SummaryCheckpoint(**settings)], window=WINDOW, counter="estimate")


def asked(it: Conversation, number: int = -1) -> str:
    """What the model that sums up was given."""
    return it.scope.asked[number][0].messages[0].text


def check(it: Conversation, view: Sequence[AgentMessage]) -> None:
    """What every view keeps."""
    assert validate_message_sequence(to_messages(view)) == []
    newest = max(at for at, message in enumerate(it.written) if message.role == "user")
    assert it.written[newest] in view


def words(*view: AgentMessage) -> set[str]:
    return {word for message in view for word in message.text.split()}


# --- what it looks like


async def test_a_reminder_goes_directly_after_the_summary() -> None:  # T65, D.5.4
    def remind(info: SummaryInfo, room: int) -> list[AgentMessage]:
        return [user_message("hook reminder")]

    answer = "<analysis>Let me see.</analysis><summary>They talked.</summary>"
    it = talking(summing(keep=1, after=[remind]), answer, said=talk(3))
    made = await it.compact("manual")
    assert made.changed and len(it.transcript) == 3
    assert is_summary(it.transcript[0])
    assert [message.text for message in list(it.transcript)[1:]] == ["hook reminder", "And now?"]
    assert mark_of(it.transcript[0])["summary"] == "They talked."


async def test_a_summary_is_said_by_the_user_between_tags_and_the_others_stay() -> None:  # T73, T86, D.5.11
    view = [
        user_message("a" * 80),
        *turn(1, "read_file", "x " * 2_000, path="old.go"),
        *turn(2, "edit_file", "changed", path="new.go"),
        assistant_message("Done."),
        user_message("keep"),
    ]
    it = talking(summing(keep=1), "<summary>They edited.</summary>", said=view)
    await it.compact("manual")
    assert [message.role for message in it.transcript] == ["user", "user"]
    lines = it.transcript[0].text.splitlines()
    assert (lines[0], lines[-1]) == ("<context-summary>", "</context-summary>")
    assert "They edited." in lines
    assert "<read-files>\nold.go\n</read-files>" in it.transcript[0].text
    assert "<modified-files>\nnew.go\n</modified-files>" in it.transcript[0].text
    assert it.transcript[1].text == "keep"
    [sent, _] = to_messages(it.transcript)
    assert (sent.role, sent.text) == ("user", it.transcript[0].text)


async def test_where_clearing_does_nobody_is_asked() -> None:  # T81
    manager = Engine(
        [ClearToolResults(keep=3), SummaryCheckpoint()], window=200_000, reserve=16_000, counter="estimate"
    )
    it = Conversation(manager)
    it.say(user_message("go"))
    for number in range(30):
        call, result = turn(number, "read_file", "word " * 10_000, path=f"{number}.txt")
        made = await it.project()
        it.say(
            assistant_message("", *call.tool_calls, usage=Usage(input_tokens=made.tokens or 0)),  # type: ignore[attr-defined]  # a message
            result,
        )
    made = await it.project()
    assert it.scope.asked == []
    assert it.rewrites
    assert (made.tokens or 0) < 184_000
    assert [message.role for message in it.transcript] == [message.role for message in it.written]


# --- cuts


@pytest.mark.parametrize(("keep", "stops"), [(1, "a"), (2, "u"), (3, "a"), (40, "")])
def test_a_cut_is_at_what_somebody_said(keep: int, stops: str) -> None:  # T355–T358, D.5.7
    view: list[AgentMessage] = []
    for number in range(5):
        view += [user_message(f"Question {number}?"), assistant_message(f"Answer {number}.")]
    cut = find_cut(view, keep, lambda message: 1)
    assert (view[cut.stop].role[0] if cut else "") == stops
    if cut is not None and stops == "a":
        assert cut.split and view[cut.turn_start].role == "user"
        assert cut.turn_start == cut.stop - 1


def test_no_cut_at_results() -> None:  # T356, D.5.6
    view = [*loop(1)]
    assert find_cut(view, 1, lambda message: 1) is None


@pytest.mark.parametrize("reason", ["threshold", "overflow", "manual"])
async def test_one_turn_of_200_calls_can_be_compacted(reason: str) -> None:  # T459, I-7
    it = talking(summing(), said=[user_message("Read them all."), *loop(200, said="x " * 30)])
    if reason == "threshold":
        view = list((await it.project()).messages)
    else:
        assert (await it.compact(reason)).changed
        view = list(it.transcript)
    assert len(view) < 100
    assert roles(view).startswith("Suat")
    assert roles(view)[2:] == "at" * ((len(view) - 2) // 2)
    check(it, view)


# --- from one to the next


class Reads(Scope):
    """Its model's summaries hold the earlier one, if it was given that, and what was new."""

    async def call_model(self, request: Any, purpose: str, /, *, model: Any = None) -> Message:
        self.asked.append((request, purpose))
        text = request.messages[0].text
        facts = [word for word in text.replace("\n", " ").split(" ") if word.startswith("FACT-")]
        return assistant_message(f"<summary>Known: {' '.join(dict.fromkeys(facts))}</summary>")


@pytest.mark.parametrize("split", [False, True])
async def test_a_second_summary_knows_what_the_first_did(split: bool) -> None:  # T460, I-8, I-12, I-P2, D.7.8
    it = Conversation(summing(keep=900), Reads(window=WINDOW))
    it.say(user_message("Find the facts."))
    for number in range(12):
        it.say(*turn(number, "read_file", f"FACT-{number} {LONG}", path=f"{number}.py"))
        if number % 4 == 3:
            it.say(*turn(f"e{number}", "edit_file", "changed", path=f"changed{number}.py"))
            if not split:
                it.say(assistant_message("Found."), user_message(f"Go on with {number}."))
            assert (await it.compact("manual")).changed
    it.say(*turn(99, "read_file", "nothing", path="99.py"))
    assert len(it.rewrites) == 3
    view = list(it.transcript)
    summary = summed(view)
    assert {f"FACT-{number}" for number in range(12)} <= words(*view)
    mark = mark_of(summary)
    known = words(user_message(mark["summary"]))
    assert {f"{number}.py" for number in range(12) if f"FACT-{number}" in known} <= {*mark["read_files"]}
    assert "changed3.py" in mark["modified_files"]
    assert mark["covered"] + len(view) - 1 == len(it.written)
    check(it, view)


async def test_without_a_model_too_the_first_summary_is_carried_on() -> None:  # T460, I-8, I-30
    manager = Engine([SummaryCheckpoint(), ExtractiveSummary()], window=WINDOW, counter="estimate")
    it = talking(manager, "<summary>FACT-1 holds.</summary>", *[OverloadedError("502")] * 9, said=talk(20))
    await it.compact("manual")
    assert mark_of(it.transcript[0])["by"] == "model"
    it.say(assistant_message("Well."), *talk(12))
    await it.compact("manual")
    assert mark_of(it.transcript[0])["by"] == "extract"
    assert "FACT-1 holds." in it.transcript[0].text
    assert it.transcript[0].text.count("<context-summary>") == 1


async def test_an_earlier_summary_is_in_the_question_once() -> None:  # T91, T93, D.5.8
    it = talking(summing(keep=500), "<summary>S1 is the record.</summary>", said=[*talk(4), *loop(2)])
    await it.compact("manual")
    it.say(*loop(12, start=2, said="word " * 300))  # an oversized turn
    made = await it.project()
    assert [each.steps[0].note.endswith("within a turn") for each in it.rewrites] == [True, True]
    assert asked(it).count("S1 is the record.") == 1
    between = asked(it).split("<previous-summary>")[1].split("</previous-summary>")[0]
    assert between == "\nS1 is the record.\n"
    assert is_summary(made.messages[0])


async def test_only_a_summary_before_the_cut_is_left_alone() -> None:  # T92, D.5.8
    it = talking(summing(keep=500), "<summary>S1.</summary>", said=talk(9))
    await it.compact("manual")
    held = list(it.transcript)
    made = await it.compact("manual")
    assert (made.changed, list(it.transcript), len(it.scope.asked)) == (False, held, 1)


async def test_what_was_summed_up_stays_so() -> None:  # T472, I-9b
    """Views never alternate, and nothing is summed up twice."""
    it = talking(default(window=WINDOW, counter="estimate"), said=talk(40))
    first = await it.project()
    calls = len(it.scope.asked)
    assert 1 <= calls <= 2  # in pieces, because the window is small
    usage = Usage(input_tokens=first.tokens or 0)
    for _ in range(4):
        held = list((await it.project()).messages)
        it.say(assistant_message("Yes.", usage=usage), user_message("And?"))
        made = await it.project()
        assert list(made.messages)[:-2] == held
        assert (made.tokens or 0) < (first.tokens or 0) + 100
    assert len(it.scope.asked) == calls


async def test_usage_from_before_a_rewrite_that_stays_in_the_view_says_nothing() -> (
    None
):  # T461, T372, T375, I-9, D.7.3
    large = Usage(input_tokens=7_900)
    view: list[AgentMessage] = []
    for number in range(20):
        view += [user_message(f"Request {number}."), assistant_message(LONG, usage=large)]
    it = talking(summing(keep=1_500), said=[*view, user_message("And now?")])
    await it.project()
    assert len(it.rewrites) == 1
    kept = [message for message in it.transcript if getattr(message, "usage", None) == large]
    assert kept
    for number in range(3):
        await it.project()
        it.say(assistant_message("Yes."), user_message(f"And {number}?"))
        await it.project()
    assert len(it.rewrites) == 1
    taken_up = Conversation(summing(keep=1_500))  # by another process
    taken_up.say(*it.transcript)
    await taken_up.project()
    assert taken_up.rewrites == []


async def test_a_session_memory_that_takes_nothing_in_is_not_incremental() -> None:  # T97, D.5.5
    it = talking(
        Engine([SessionMemory(lambda: "Notes.", keep=10)], window=WINDOW, counter="estimate"), said=talk(30)
    )
    await it.project()
    assert [step.strategy for step in it.rewrites[0].steps] == ["session_memory"]
    assert "Notes." in it.transcript[0].text
    await it.project()
    assert len(it.rewrites) == 1
    assert it.scope.asked == []
