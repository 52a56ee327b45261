"""Pairs of calls and results: checked, repaired, dropped with a failed reply."""

import pytest
from play import Player

from unspool.kernel import (
    Message,
    MessageSequenceError,
    ToolCall,
    assert_message_sequence,
    assistant_message,
    make_call,
    repair_message_sequence,
    to_messages,
    tool_message,
    user_message,
    validate_message_sequence,
)

A, B = make_call("a", "f"), make_call("b", "f")


def asks(*calls: ToolCall) -> Message:
    return assistant_message("", *calls)


def result(call: ToolCall, text: str = "real") -> Message:
    return tool_message(call, text)


GO, NEXT = user_message("go"), user_message("next")

# T453, I-17: a broken list, and the ids and texts of its results once repaired, in order
BROKEN = {
    "missing result after the real ones": ([GO, asks(A, B), result(A), NEXT], ["a real", "b ?"]),
    "all missing": ([GO, asks(A, B), NEXT], ["a ?", "b ?"]),
    "wrong order": ([GO, asks(A, B), result(B), result(A)], ["a real", "b real"]),
    "orphan": ([GO, result(A), NEXT], []),
    "duplicate": ([GO, asks(A), result(A), result(A, "again"), NEXT], ["a real"]),
    "after a user message": ([GO, asks(A), NEXT, result(A)], ["a real"]),
    "id used again": ([GO, asks(A), result(A, "1"), NEXT, asks(A), result(A, "2")], ["a 1", "a 2"]),
    "id used again, first unanswered": ([GO, asks(A), NEXT, asks(A), result(A, "2")], ["a ?", "a 2"]),
    "result without an id": ([GO, Message(role="tool"), NEXT], []),
    "fine": ([GO, asks(A), result(A), NEXT], ["a real"]),
}


@pytest.mark.parametrize(("broken", "expected"), BROKEN.values(), ids=BROKEN)
def test_repair(broken: list[Message], expected: list[str]) -> None:  # T453
    before = list(broken)
    repaired = repair_message_sequence(broken)
    assert validate_message_sequence(repaired) == []
    told = [m for m in repaired if m.role == "tool"]
    assert [f"{m.tool_call_id} {'?' if m.is_error else m.text}" for m in told] == expected
    assert [m for m in repaired if m.role != "tool"] == [m for m in broken if m.role != "tool"]
    assert repair_message_sequence(repaired) == repaired
    assert broken == before


@pytest.mark.parametrize("broken", [row for row, _ in BROKEN.values()], ids=BROKEN)
def test_every_request_is_repaired(play: Player, broken: list[Message]) -> None:
    run = play("fine", messages=broken)
    sent = list(run.requests[0].messages)
    assert validate_message_sequence(sent) == []
    assert [m.text for m in sent if m.role == "user"] == [m.text for m in broken if m.role == "user"] + ["go"]


def test_issues_are_named() -> None:
    issues = validate_message_sequence([asks(A, B), result(A), result(A), GO, result(B)])
    assert [(issue.kind, issue.index, issue.call_id) for issue in issues] == [
        ("duplicate_tool_result", 2, "a"),
        ("missing_tool_result", 0, "b"),
        ("orphan_tool_result", 4, "b"),
    ]
    with pytest.raises(MessageSequenceError, match="message 2: duplicate_tool_result 'a'"):
        assert_message_sequence([asks(A, B), result(A), result(A), GO, result(B)])


@pytest.mark.parametrize("reason", ["error", "aborted", "safety"])
def test_failed_reply_goes_with_its_results(play: Player, reason: str) -> None:  # T454
    failed = assistant_message("half", A, stop_reason=reason)
    run = play("fine", messages=[GO, failed, result(A)])
    assert run.sent() == ["user: go", "user: go"]


def test_interrupted_reply_is_replayed() -> None:
    kept = assistant_message("as far as", stop_reason="interrupted")
    assert to_messages([GO, kept]) == [GO, kept]


def test_blank_messages_are_left_out(play: Player) -> None:  # B010, B011
    blanks = [assistant_message(""), assistant_message("\n\n"), Message(role="assistant")]
    history = [user_message("a"), blanks[0], user_message("b"), blanks[1], blanks[2]]
    run = play("fine", prompt="c", messages=history)
    assert run.sent() == ["user: a", "user: b", "user: c"]


def test_arguments_that_did_not_parse_are_replayed_as_an_empty_object() -> None:  # B.10
    call = make_call("c1", "f", '{"a": ')
    assert call.args == {} and call.args_invalid and call.args_text == '{"a": '
    assert call.arguments_text == "{}"


def test_arguments_are_replayed_as_they_were_sent() -> None:  # I-28
    assert make_call("c1", "f", '{"b": 1, "a": 2}').arguments_text == '{"b": 1, "a": 2}'
    assert make_call("c1", "f", "").args == {}
    assert not make_call("c1", "f", "  ").args_invalid
