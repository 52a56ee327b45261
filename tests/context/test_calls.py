"""What calls are about, told from names and arguments of tools of any make; and whose result a result is."""

from typing import Any

import pytest

from unspool.context.calls import Use, answered, call_text, key_of, owners, use_of
from unspool.kernel import AgentMessage, Message, ToolCall, make_call
from unspool.kernel.messages import assistant_message, tool_message

from .working import turn

USES: dict[str, tuple[str, dict[str, Any], Use]] = {
    "our read_file": ("read_file", {"path": "a/b.py"}, Use("read", ("a/b.py",))),
    "a part": ("read_file", {"path": "a.py", "offset": 5}, Use("read", ("a.py",), '{"offset":5}')),
    "null is no part": ("read_file", {"path": "a.py", "offset": None}, Use("read", ("a.py",))),
    "one name for one file": ("Read", {"file_path": "./src/../a.py"}, Use("read", ("a.py",))),
    "behind a server's name": ("fs__view", {"path": "a.py"}, Use("read", ("a.py",))),
    "camel case": ("readTextFile", {"filename": "a.py"}, Use("read", ("a.py",))),
    "an address": ("fetch", {"url": "https://x.org/a/../b"}, Use("read", ("https://x.org/a/../b",))),
    "reads no file": ("get_weather", {"city": "Bonn"}, Use("other")),
    "edit": ("edit_file", {"path": "a.py", "old": "x", "new": "y"}, Use("edit", ("a.py",))),
    "replaces, though it searches": ("search_and_replace", {"path": "a.py"}, Use("edit", ("a.py",))),
    "one tool, many commands": (
        "str_replace_editor",
        {"command": "view", "path": "a.py"},
        Use("read", ("a.py",)),
    ),
    "and another": ("str_replace_editor", {"command": "str_replace", "path": "a.py"}, Use("edit", ("a.py",))),
    "a patch": (
        "apply_patch",
        {"input": "*** Begin Patch\n*** Update File: a.py\n@@\n*** Add File: ./b.py\n"},
        Use("edit", ("a.py", "b.py")),
    ),
    "a unified diff": ("patch", {"diff": "--- a/a.py\n+++ b/a.py\n@@"}, Use("edit", ("a.py",))),
    "edits no file": ("update_ticket", {"id": 7}, Use("other")),
    "search": ("grep", {"pattern": "x"}, Use("search")),
    "search in a folder": ("grep", {"pattern": "x", "path": "src/"}, Use("search", ("src",))),
    "list": ("list_dir", {"path": "."}, Use("list", (".",))),
    "run": ("bash", {"command": "make test"}, Use("run")),
    "a path that is no text": ("read_file", {"path": 3}, Use("other")),
    "nothing known": ("think", {}, Use("other")),
}


@pytest.mark.parametrize(("name", "args", "use"), USES.values(), ids=USES)
def test_uses(name: str, args: dict[str, Any], use: Use) -> None:
    assert use_of(ToolCall(id="c", name=name, args=args)) == use


def test_the_key_of_a_call_does_not_depend_on_the_order() -> None:
    a, b = (
        ToolCall(id=id, name="f", args=args)
        for id, args in (("1", {"x": 1, "y": 2}), ("2", {"y": 2, "x": 1}))
    )
    assert key_of(a) == key_of(b)
    keys = [
        key_of(call)
        for call in (
            a,
            ToolCall(id="1", name="g", args={"x": 1, "y": 2}),
            ToolCall(id="1", name="f", args={"x": 1, "y": 3}),
            make_call("1", "f", "{not json"),
            make_call("1", "f", "{nor this"),
        )
    ]
    assert len(set(keys)) == 5


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({}, "f()"),
        ({"path": "a.py", "offset": 5, "all": True}, 'f(path="a.py", offset=5, all=true)'),
        ({"text": "x" * 100}, f'f(text="{"x" * 58}…)'),
        (
            dict.fromkeys("abcdefghijkl", 1234567),
            f"f({', '.join([f'{n}=1234567' for n in 'abcdefghijkl'])[:119]}…)",
        ),
    ],
)
def test_a_call_on_one_line(args: dict[str, Any], text: str) -> None:
    assert call_text(ToolCall(id="c", name="f", args=args)) == text


def test_whose_result_it_is() -> None:
    """The newest reply with a call of that id that has no result yet; replies that failed have none."""
    a, b = ToolCall(id="a", name="first"), ToolCall(id="b", name="second")
    again = ToolCall(id="a", name="again")
    view: list[AgentMessage] = [
        assistant_message("", a, b),
        tool_message(b, "1"),
        assistant_message("", again),
        tool_message(again, "2"),
        tool_message(a, "late"),
        tool_message(a, "orphan"),
        Message(role="assistant", content=(ToolCall(id="x", name="f"),), stop_reason="error"),
        tool_message(ToolCall(id="x", name="f"), "of a failed reply"),
    ]
    assert owners(view) == {1: (0, b), 3: (2, again), 4: (0, a)}


def test_results_in_order() -> None:
    view = [*turn(1, "f", "one"), *turn(2, "g", "two")]
    assert [(each.at, each.message.text, each.call.name) for each in answered(view)] == [
        (1, "one", "f"),
        (3, "two", "g"),
    ]
