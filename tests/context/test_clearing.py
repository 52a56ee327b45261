"""Which old results are cleared, in which order, and what stays of them."""

from collections.abc import Sequence
from typing import Any

import pytest

from unspool.context.clearing import ClearToolResults
from unspool.context.marks import kind_of, mark_of, marked
from unspool.kernel import AgentMessage, Image, Message, Text, ToolCall, ToolReference, ToolSpec, user_message
from unspool.kernel.messages import assistant_message, tool_message

from .scoping import Scope
from .working import count, done, kinds, turn, work_of

pytestmark = pytest.mark.anyio
View = list[AgentMessage]
TEXT = "line of output\n" * 100  # 379 tokens with its message


def calls(*args: Any, name: str = "read") -> View:
    return [m for n, value in enumerate(args) for m in turn(n, name, TEXT, path=value)]


BY_AGE: dict[str, tuple[View, dict[str, Any], Sequence[int]]] = {
    "six times the same": (calls(*"aaaaaa"), {}, [1, 3, 5, 7, 9]),
    "three times the same": (calls(*"aaa"), {}, [1, 3]),
    "six different ones": (calls(*"abcdef"), {}, [1]),
    "as many as stay": (calls(*"abcde"), {}, []),
    "keep fewer": (calls(*"abcdef"), {"keep": 2}, [1, 3, 5, 7]),
    "an older one of what stays": (calls(*"abab"), {"keep": 2}, [1, 3]),
    "zero is zero, but not for the turn under way": (calls(*"abc"), {"keep": 0}, [1, 3]),
    "nor when it is over": ([*calls(*"abc"), user_message("next")], {"keep": 0}, [1, 3, 5]),
    "no errors": ([*turn(9, "read", TEXT, path="z", is_error=True), *calls("a", "b")], {"keep": 0}, [3]),
    "errors too": (
        [*turn(9, "read", TEXT, path="z", is_error=True), *calls("a", "b")],
        {"keep": 0, "keep_errors": False},
        [1, 3],
    ),
    "no small ones": ([*turn(9, "read", "x" * 700, path="z"), *calls("a", "b")], {"keep": 0}, [3]),
    "small ones do not count": ([*calls("a", "b"), *turn(9, "read", "ok", path="z")], {"keep": 1}, [1]),
    "tools by name": ([*calls("a", name="grep"), *calls("b", "c")], {"keep": 0, "tools": {"grep"}}, [1]),
    "tools by a function": (
        calls(*"abc"),
        {"keep": 0, "tools": lambda call: call.args["path"] == "b"},
        [3],
    ),
    "results without a call stay": (
        [tool_message(ToolCall(id="x", name="f"), TEXT), *calls("a", "b")],
        {"keep": 0},
        [2],
    ),
}


@pytest.mark.parametrize(("view", "options", "cleared"), BY_AGE.values(), ids=BY_AGE)
async def test_all_that_are_old(view: View, options: dict[str, Any], cleared: Sequence[int]) -> None:
    after = await done(ClearToolResults(order="age", **options), work_of(view))
    assert list(kinds(after or ())) == list(cleared)
    if after is not None:
        assert await done(ClearToolResults(order="age", **options), work_of(after)) is None


async def test_what_stays_of_a_result() -> None:
    view: View = [
        *turn(1, "read_file", "CORE-17 begins\n" + "x = 1\n" * 999, path="a.py", offset=5),
        *calls("b"),
    ]
    after = await done(ClearToolResults(keep=0), work_of(view))
    assert after is not None and after[1].text == (
        "[read_file a.py: 1,000 lines, 6,009 characters cleared; call it again to see it]\nCORE-17 begins"
    )
    assert mark_of(after[1]) == {
        "kind": "cleared",
        "of": "",
        "tool": "read_file",
        "lines": 1000,
        "characters": 6009,
    }
    bare = await done(ClearToolResults(keep=0, gist_chars=0), work_of(view))
    assert bare is not None and bare[1].text == after[1].text.partition("\n")[0]


async def test_metadata_and_what_is_no_text() -> None:
    call = ToolCall(id="c1", name="look")
    blocks = (Text(TEXT), Image(data="aQ==", mime_type="image/png"), ToolReference("zoom"))
    old = Message(
        role="tool", content=blocks, tool_call_id="c1", tool_name="look", id="m1", metadata={"mine": 1}
    )
    view: View = [assistant_message("", call), old, *calls("b")]
    after = await done(ClearToolResults(keep=0), work_of(view))
    assert after is not None and isinstance(new := after[1], Message)
    assert new.content[1:] == (ToolReference("zoom"),) and "characters, image cleared" in new.text
    assert new.metadata["mine"] == 1 and mark_of(new)["of"] == "m1" and old.metadata == {"mine": 1}


async def test_a_stored_result_is_opened_where_it_is_stored() -> None:
    view = calls("a", "b")
    assert isinstance(view[1], Message)
    view[1] = marked(view[1], view[1].content, "offloaded", blob="f" * 64, lines=5000, characters=99_999)
    scope = Scope(tools=[ToolSpec(name="read_file")])
    after = await done(ClearToolResults(keep=0, gist_chars=0), work_of(view, scope=scope))
    cleared, blob = "[read a: 5,000 lines, 99,999 characters cleared", f"blob:{'f' * 64}"
    assert after is not None
    assert after[1].text == f"{cleared}; read_file opens it as {blob}, by offset and limit]"
    bare = await done(ClearToolResults(keep=0, gist_chars=0), work_of(view))
    assert bare is not None and bare[1].text == f"{cleared}; stored as {blob}]"
    assert mark_of(after[1])["blob"] == "f" * 64


@pytest.mark.parametrize(
    ("name", "read_only", "again"),
    [("read_file", False, True), ("bash", False, False), ("weather", False, False), ("weather", True, True)],
)
async def test_what_has_effects_is_not_to_be_called_again(name: str, read_only: bool, again: bool) -> None:
    scope = Scope(tools=[ToolSpec(name=name, description="", read_only=read_only)])
    after = await done(ClearToolResults(keep=0), work_of([*calls("a", name=name), *calls("b")], scope=scope))
    assert after is not None and ("call it again" in after[1].text) is again


async def test_no_more_than_needed_the_least_useful_first() -> None:
    """A listing goes before a file, a file that was read again before both."""
    view: View = [
        *turn(1, "read_file", TEXT, path="a"),
        *turn(2, "read_file", TEXT, path="b"),
        *turn(3, "list_dir", TEXT, path="src"),
        *turn(4, "read_file", TEXT + "more", path="b"),
        user_message("go on"),
    ]
    total = sum(map(count, view))
    for excess, cleared in ((1, [3]), (400, [3, 5]), (800, [1, 3, 5]), (99_999, [1, 3, 5, 7])):
        after = await done(ClearToolResults(keep=0), work_of(view, target=max(0, total - excess)))
        assert after is not None and list(kinds(after)) == cleared
    assert await done(ClearToolResults(keep=0), work_of(view, target=total)) is None


async def test_a_person_gets_what_can_be_cleared() -> None:
    view = [*calls("a", "b"), user_message("tidy up")]
    after = await done(ClearToolResults(keep=0), work_of(view, target=99_999, reason="manual"))
    assert after is not None and list(kinds(after)) == [1, 3]


async def test_ten_turns_with_large_results_in_a_large_window() -> None:
    view: View = [user_message("go")]
    for n in range(10):
        view += turn(n, "read", f"{n} " + "word " * 8000, path=str(n))
    work = work_of(view, trigger=184_000, target=50_000)
    after = await done(ClearToolResults(keep=3), work)
    assert after is not None
    assert sum(map(count, after)) <= 50_000 and kind_of(after[-1]) == ""


@pytest.mark.parametrize("wrong", [{"keep": -1}, {"min_tokens": -1}, {"gist_chars": -1}])
def test_wrong_settings(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="context: "):
        ClearToolResults(**wrong)  # type: ignore[arg-type]  # one at a time
