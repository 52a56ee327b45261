"""What messages put before a model, and what replies show to have been needed."""

from collections.abc import Sequence
from typing import Any

import pytest

from unspool.context.demands import Demands
from unspool.context.ids import ids_in
from unspool.context.items import ContextReader, ToolNames, normal_path
from unspool.context.marks import marked
from unspool.kernel import AgentMessage, ContextDemand, ContextItem, Message, ToolCall, user_message
from unspool.kernel.messages import (
    BaseMessage,
    Document,
    Image,
    Text,
    assistant_message,
    tool_message,
)


def call(name: str, id: str = "c1", /, **args: Any) -> ToolCall:
    return ToolCall(id=id, name=name, args=args)


def items_of(messages: Sequence[AgentMessage], names: ToolNames | None = None) -> list[tuple[str, str, str]]:
    reader = ContextReader(names)
    return [
        (item.kind, item.identity, item.representation) for each in messages for item in reader.items(each)
    ]


def used(one: ToolCall, result: str = "as it is", *, is_error: bool = False) -> list[AgentMessage]:
    return [assistant_message("", one), tool_message(one, result, is_error=is_error)]


RESULTS: dict[str, tuple[ToolCall, tuple[str, str]]] = {
    "a file": (call("read_file", path="src/a.py"), ("file", "src/a.py")),
    "a part of it": (call("view", file_path="src/a.py", start=3), ("file", "src/a.py")),
    "a path with detours": (call("read", file="./src//b/../a.py"), ("file", "src/a.py")),
    "a path of another system": (call("cat", filename="src\\a.py"), ("file", "src/a.py")),
    "an editor that reads": (
        call("str_replace_based_edit_tool", command="view", path="a.py"),
        ("file", "a.py"),
    ),
    "an editor that changes": (
        call("str_replace_based_edit_tool", command="insert", path="a.py"),
        ("edit", "a.py"),
    ),
    "a change": (call("edit_file", path="a.py", old="x", new="y"), ("edit", "a.py")),
    "a search": (call("grep", pattern="def x", path="src"), ("search", "def x src")),
    "a listing": (call("list_files", path="src/"), ("listing", "src")),
    "a command": (call("bash", command="pytest  -q\ntests"), ("output", "pytest -q tests")),
    "another tool": (call("weather", city="Ulm"), ("result", 'weather {"city":"Ulm"}')),
    "a read of nothing": (call("read_file"), ("result", "read_file {}")),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_an_item_by_the_call_that_it_is_of(name: str) -> None:
    one, (kind, identity) = RESULTS[name]
    assert items_of(used(one)) == [(kind, identity, "full")]


def test_an_error_shows_no_file() -> None:
    assert items_of(used(call("read_file", path="a.py"), "no such file", is_error=True)) == [
        ("error", "read_file a.py", "full")
    ]


def test_a_file_that_is_written_is_shown_by_the_call() -> None:
    assert items_of(used(call("write_file", path="a.py", content="x = 1"))) == [
        ("file", "a.py", "full"),
        ("edit", "a.py", "full"),
    ]


def test_images_and_documents_are_items() -> None:
    content = (
        Text("see"),
        Image(url="http://x/y.png"),
        Image(data="aGk="),
        Document(name="a.pdf", data="aGk="),
    )
    assert items_of([Message(role="user", content=content)]) == [
        ("image", "http://x/y.png", "full"),
        ("image", "40a030a8a30bae92", "full"),
        ("document", "a.pdf", "full"),
    ]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("cleared", "cleared"),
        ("dropped", "cleared"),
        ("offloaded", "offloaded"),
        ("collapsed", "reference"),
        ("trimmed", "part"),
        ("reduced", "part"),
        ("squeezed", "part"),
    ],
)
def test_what_a_strategy_left_of_a_message_is_read_from_its_mark(kind: str, shown: str) -> None:
    one = call("read_file", path="a.py")
    result = tool_message(one, "x = 1")
    rewritten = marked(result, [Text("gone")], kind)
    assert items_of([assistant_message("", one), rewritten]) == [("file", "a.py", shown)]


def test_a_summary_names_the_files_that_it_covers() -> None:
    summary = marked(user_message(""), [Text("They read a file.")], "summary", read_files=("src/./a.py",))
    assert items_of([summary]) == [
        ("summary", "They read a file.", "summary"),
        ("file", "src/a.py", "summary"),
    ]


def test_tools_of_other_names_are_told_to_the_reader() -> None:
    names = ToolNames(tools={"lies": "read"}, paths=("datei",))
    assert items_of(used(call("lies", datei="a.py")), names) == [("file", "a.py", "full")]


def test_a_result_whose_call_nobody_saw_goes_by_its_tool() -> None:
    assert items_of([tool_message(call("read_file", path="a.py"), "x")]) == [("result", "read_file", "full")]


class Ticket(BaseMessage):
    """An application's message that speaks for itself."""

    def context_items(self) -> Sequence[ContextItem]:
        return [ContextItem(kind="ticket", identity="T-1", representation="full")]

    def context_demands(self) -> Sequence[ContextDemand]:
        return [ContextDemand(kind="file", identity="a.py", signal="ticket")]

    def to_message(self) -> Message:
        return user_message("T-1 is open")


def test_application_messages_speak_for_themselves() -> None:
    reader = ContextReader()
    assert items_of([Ticket()]) == [("ticket", "T-1", "full")]
    assert Demands(reader).see(Ticket()) == (ContextDemand(kind="file", identity="a.py", signal="ticket"),)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", ()),
        ("fixed in 3f2a9c1b77d0, see 3f2a9c1", ("3f2a9c1",)),
        ("123e4567-e89b-12d3-a456-426614174000.", ("123e4567-e89b-12d3-a456-426614174000",)),
        ("CORE-12: done, AB1-3", ("CORE-12", "AB1-3")),
        ("tests/test_a.py::TestB::test_c failed", ("tests/test_a.py::TestB::test_c",)),
        ("run tests.unit.test_a.B.test_c.", ("tests.unit.test_a.B.test_c",)),
        ("UTF-8, SHA-256, ISO-8601, x-1, A-1, ABCDEFGHIJK-1, CORE-12x", ()),
        ("1234567 deadbeef DEADBEE1 3f2a9c1_x " + "0a" * 30, ()),
        ("facade defaced 2026-11-30 12:00", ()),
    ],
)
def test_ids_in_texts(text: str, ids: tuple[str, ...]) -> None:
    assert ids_in(text) == ids


@pytest.mark.parametrize(
    ("path", "normal"),
    [("a.py", "a.py"), (" ./a//b/ ", "a/b"), ("/a/../b", "/b"), ("..\\a", "../a"), (".", ".")],
)
def test_paths_have_one_form(path: str, normal: str) -> None:
    assert normal_path(path) == normal


# --- what was needed -------------------------------------------------------------------------------

READ = used(call("read_file", path="a.py"), "changed in 3f2a9c1b77 for CORE-1")

DEMANDS: dict[str, tuple[list[AgentMessage], AgentMessage, list[tuple[str, str, str]]]] = {
    "read again": (READ, assistant_message("", call("read", path="./a.py")), [("file", "a.py", "read")]),
    "searched": (
        READ,
        assistant_message("", call("grep", path="a.py", pattern="x")),
        [("file", "a.py", "grep")],
    ),
    "changed": (READ, assistant_message("", call("edit", path="a.py")), [("file", "a.py", "edit")]),
    "each call once": (
        READ,
        assistant_message("", call("edit", path="a.py"), call("edit", "c2", path="a.py")),
        [("file", "a.py", "edit")],
    ),
    "written anew, which needs nothing": (READ, assistant_message("", call("write", path="a.py")), []),
    "another file": (READ, assistant_message("", call("read", path="b.py")), []),
    "for the first time": ([], assistant_message("", call("read", path="a.py")), []),
    "after it was written": (
        used(call("write_file", path="b.py", content="x")),
        assistant_message("", call("edit", path="b.py")),
        [("file", "b.py", "edit")],
    ),
    "a folder": (used(call("list_files", path="src")), assistant_message("", call("grep", path="src")), []),
    "ids of a result": (
        READ,
        assistant_message("In 3f2a9c1 of CORE-1."),
        [("id", "3f2a9c1", "quoted"), ("id", "CORE-1", "quoted")],
    ),
    "an id in an argument": (
        READ,
        assistant_message("", call("bash", command="git show 3f2a9c1b77")),
        [("id", "3f2a9c1", "quoted")],
    ),
    "an id that the user gave": ([user_message("do CORE-1"), *READ], assistant_message("CORE-1 is done"), []),
    "an id of its own": ([assistant_message("CORE-1?"), *READ], assistant_message("CORE-1 is done"), []),
    "what a strategy wrote": (READ, marked(user_message(""), [Text("CORE-1")], "summary"), []),
    "what the user says": (READ, user_message("CORE-1?"), []),
}


@pytest.mark.parametrize("name", DEMANDS)
def test_what_is_asked_for_again_is_a_demand(name: str) -> None:
    before, message, expected = DEMANDS[name]
    demands = Demands(ContextReader())
    assert [found for each in before for found in demands.see(each)] == []
    assert [(each.kind, each.identity, each.signal) for each in demands.see(message)] == expected
