"""``todo``: what is written, refused, shown, and read back from the facts."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from unspool.kernel import Agent, ToolContext, ToolError, ToolResult
from unspool.kernel.codec import Codec
from unspool.kernel.conformance_tool import check_tool
from unspool.llm.scripted import Entry, ScriptedModel, call
from unspool.tools.todo import MAX_ITEMS, TodoItem, current, todo_tool
from unspool.trajectory import MemoryLog

CTX = cast(ToolContext, SimpleNamespace())


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def items(*pairs: str) -> list[dict[str, str]]:
    """``x done`` is completed, ``> now`` in progress, ``- later`` pending."""
    status = {"x": "completed", ">": "in_progress", "-": "pending"}
    return [{"content": pair[2:], "status": status[pair[0]]} for pair in pairs]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("written", "text"),
    [
        ([], "the list is empty"),
        (["- a"], "0 of 1 completed\n[ ] a"),
        (["x a", "> b", "- c"], "1 of 3 completed\n[x] a\n[>] b\n[ ] c"),
        (["x two\nlines"], '1 of 1 completed\n[x] "two\\nlines"'),
    ],
)
async def test_the_list_is_shown(written: list[str], text: str) -> None:
    result = await todo_tool().execute({"items": items(*written)}, CTX)
    assert isinstance(result, ToolResult)
    assert (result.content, result.details) == (text, {"todo": items(*written)})


@pytest.mark.anyio
async def test_one_item_at_most_is_in_progress() -> None:
    with pytest.raises(ToolError) as caught:
        await todo_tool().execute({"items": items("> a", "- b", "> c")}, CTX)
    assert str(caught.value) == (
        "only one item may be in_progress, these are: a, c; the list was not changed, write it again with the "
        "others pending"
    )


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({}, "$"),
        ({"items": "a"}, "$.items"),
        ({"items": [{"content": "a"}]}, "$.items[0]"),
        ({"items": [{"content": "", "status": "pending"}]}, "$.items[0].content"),
        ({"items": [{"content": "x" * 301, "status": "pending"}]}, "$.items[0].content"),
        ({"items": [{"content": "a", "status": "done"}]}, "$.items[0].status"),
        ({"items": items(*["- a"] * (MAX_ITEMS + 1))}, "$.items"),
    ],
)
def test_what_does_not_fit(args: dict[str, Any], path: str) -> None:
    (issue, *_) = todo_tool().check_arguments(args)
    assert issue.path.startswith(path)


@pytest.mark.parametrize(
    ("args", "activity"),
    [
        ({"items": items("x a", "> b", "- c")}, "b"),
        ({"items": items("- a")}, "writing the todo list"),
        ({"items": [3, None]}, "writing the todo list"),
        ({}, "writing the todo list"),
    ],
)
def test_activity(args: dict[str, Any], activity: str) -> None:
    assert todo_tool().spec_for(args).activity == activity


@pytest.mark.anyio
async def test_the_list_of_a_session_comes_back_from_its_facts() -> None:
    log = MemoryLog()
    script: list[Entry] = [
        [call("1", "todo", items=items("> a", "- b"))],
        [call("2", "todo", items=items("x a", "> b"))],
        [call("3", "todo", items=items("> a", "> b"))],  # refused: the list stays
        "done",
    ]
    await Agent(ScriptedModel(script), tools=[todo_tool()], log=log).run("go")
    codec = Codec()
    stored = [codec.decode(codec.encode(fact)) for fact in log.facts]
    expected = (TodoItem("a", "completed"), TodoItem("b", "in_progress"))
    assert current(log.facts) == expected
    assert current(fact for fact in stored) == expected
    assert current([]) == ()


@pytest.mark.anyio
async def test_it_keeps_to_the_protocol() -> None:
    two = {"items": items("> a", "> b")}
    await check_tool(todo_tool, args=[{"items": items("x a", "> b")}], bad_args=[{}], failing_args=[two])
