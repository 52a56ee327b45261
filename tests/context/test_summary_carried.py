"""What goes from one summary to the next as it is: files and requests."""

from collections.abc import Sequence

import pytest

from unspool.context.carried import files_of, requests_of
from unspool.context.marks import marked
from unspool.kernel import Image, Message, Text, ToolCall, user_message
from unspool.kernel.messages import assistant_message, tool_message


def calls(*given: str) -> list[Message]:
    """A reply for each call, ``tool path``."""
    made = []
    for number, each in enumerate(given):
        name, path = each.split()
        made.append(assistant_message("", ToolCall(id=f"c{number}", name=name, args={"path": path})))
    return made


def summary(**said: object) -> Message:
    return marked(Message(role="user"), [Text("x")], "summary", **said)


@pytest.mark.parametrize(
    ("given", "read", "modified"),
    [
        (["read a", "read b", "read a", "edit b", "write c"], ["a"], ["b", "c"]),
        (["write_file c", "read_file c"], [], ["c"]),
        (["fs__view z", "mcp.cat y"], ["y", "z"], []),
        (["bash x", "grep y"], [], []),
        (["read https://x.test/a"], [], []),
    ],
)
def test_files(given: Sequence[str], read: list[str], modified: list[str]) -> None:
    assert files_of(calls(*given), limit=1000) == (read, modified, False)


def test_an_editor_that_only_looks_has_read() -> None:
    args = {"command": "view", "path": "a.py"}
    call = ToolCall(id="c", name="str_replace_based_edit_tool", args=args)
    assert files_of([assistant_message("", call)], limit=1000) == (["a.py"], [], False)


def test_a_call_that_failed_has_done_nothing() -> None:
    view = calls("read a", "edit b")
    call = view[1].tool_calls[0]
    assert files_of([*view, tool_message(call, "no such text", is_error=True)], limit=1000) == (
        ["a"],
        [],
        False,
    )


def test_files_accumulate() -> None:
    before = summary(read_files=["a", "b"], modified_files=["c"])
    assert files_of(calls("edit b", "read d"), [before], limit=1000) == (["a", "d"], ["b", "c"], False)


def test_files_are_bounded_and_the_oldest_go_first() -> None:
    before = summary(read_files=[f"old{n}" for n in range(9)], modified_files=[])
    files = files_of(calls("read new1", "read new2"), [before], limit=12)
    assert (files.read, files.omitted) == (["new1", "new2"], True)
    later = summary(read_files=files.read, modified_files=[], files_omitted=True)
    assert files_of([], [later], limit=1000).omitted  # and it stays known


def test_a_mark_that_somebody_else_wrote_is_read_as_far_as_it_makes_sense() -> None:
    before = summary(read_files="a", modified_files=[1, "b"], requests={"a": 1}, requests_omitted="many")
    assert files_of([], [before], limit=1000) == ([], ["b"], False)
    assert requests_of([], [before], limit=1000) == ([], 0)


def test_requests_are_what_users_said() -> None:
    view = [
        user_message("Build it."),
        assistant_message("Well."),
        summary(),
        Message(role="user", content=(Text("See:"), Image(data="aGk=", mime_type="image/png"))),
        user_message("Go on."),
        user_message("Build it."),
        user_message("Go on."),
    ]
    requests = requests_of(view, [summary(requests=["Once.", "Go on."], requests_omitted=2)], limit=1000)
    assert requests == (["Once.", "See:\n[image: image/png, 0 KB]", "Build it.", "Go on."], 2)


def test_a_long_request_is_kept_at_both_ends() -> None:
    [text] = requests_of([user_message("HEAD " + "x" * 9000 + " TAIL")], limit=9000).texts
    assert text.startswith("HEAD")
    assert text.endswith("TAIL")
    assert len(text) < 2100
    assert "characters of the user's message left out" in text


@pytest.mark.parametrize("limit", [0, 100, 500, 2000, 100_000])
def test_requests_are_bounded_the_newest_and_the_first_are_kept(limit: int) -> None:
    view = [user_message(f"Request {number:03}: " + "é" * 200) for number in range(100)]
    texts, omitted = requests_of(view, limit=limit)
    assert len(texts) + omitted == 100
    assert sum([len(text.encode()) for text in texts]) <= limit + 100
    if limit >= 2000:
        assert texts[0].startswith("Request 000")
        assert texts[-1].startswith("Request 099")


def test_what_no_log_can_hold_is_replaced() -> None:
    view = [Message(role="user", content=(Text("half \ud83d of it"),))]
    assert requests_of(view, [summary(requests=["\ud83d"])], limit=1000).texts == [
        "\ufffd",
        "half \ufffd of it",
    ]
