"""Tools that a model is told about only once a result has referred to them; cache marks."""

from typing import Any

import pytest
from play import EncodedLog, Played, Player, echo, gives

from unspool.kernel import (
    AgentStart,
    AgentState,
    CallOptions,
    ConfigChanged,
    ContextProjected,
    Message,
    SystemBlock,
    Text,
    ToolCall,
    ToolError,
    ToolReference,
    ToolResult,
    TurnStart,
    fold,
)
from unspool.kernel.function_tool import raw_tool
from unspool.kernel.lowering import hash_of
from unspool.kernel.trace import line
from unspool.llm.scripted import call


def offered(run: Played) -> list[list[str]]:
    """The names of the tools that each request offers."""
    return [[spec.name for spec in request.tools] for request in run.requests]


def tools(result: object = None) -> list[Any]:
    """A search that finds the deferred tool ``grep``, that tool, and one more."""
    found = [ToolReference("grep"), Text("grep searches files")]
    return [gives(found if result is None else result, "search"), echo("grep", deferred=True), echo()]


FIND = [call("s1", "search")]
USE = [call("g1", "grep", value="x")]
WITHOUT, WITH = ["search", "echo"], ["search", "grep", "echo"]


def test_deferred_tool_is_not_offered(play: Player) -> None:  # T455, A.15.1
    run = play("hello", tools=tools())
    assert offered(run) == [WITHOUT]


def test_deferred_tool_runs_all_the_same(play: Player) -> None:  # A.15.1
    run = play(USE, "done", tools=tools())
    assert run.results() == {"g1": "x"}
    assert offered(run) == [WITHOUT, WITHOUT]


def test_deferred_tool_is_offered_after_a_result_that_refers_to_it(play: Player) -> None:  # T455
    run = play(FIND, USE, "done", tools=tools())
    assert offered(run) == [WITHOUT, WITH, WITH]  # in the order of the tools
    assert run.requests[1].tools[1].deferred  # so that an adapter can say so
    (changed,) = run.all_of(ConfigChanged)
    assert (changed.active_tools, changed.tools) == (("grep",), hash_of(run.requests[1].tools))
    start = run.all_of(AgentStart)[0]
    assert start.toolbox == changed.tools  # all are offered now, and what that is was stored at the start
    assert start.blobs.keys() >= {start.tools, start.toolbox} and not changed.blobs
    assert [fact.tools for fact in run.all_of(ContextProjected)][1:] == [changed.tools] * 2
    (second,) = [fact for fact in run.all_of(TurnStart) if fact.index == 2]
    assert changed.seq == second.seq - 1


def test_reference_again_changes_nothing(play: Player) -> None:
    run = play(FIND, [call("s2", "search")], "done", tools=tools())
    assert len(run.all_of(ConfigChanged)) == 1
    assert offered(run) == [WITHOUT, WITH, WITH]


@pytest.mark.parametrize(
    "result",
    [
        [ToolReference("nope")],
        ToolResult(content=[ToolReference("grep")], is_error=True),
        ToolError("grep"),
    ],
    ids=["unknown", "error result", "error"],
)
def test_result_that_makes_nothing_available(play: Player, result: object) -> None:
    run = play(FIND, "done", tools=tools(result))
    assert offered(run) == [WITHOUT, WITHOUT]


def history() -> list[Message]:
    return [
        Message(role="user", content=(Text("find"),)),
        Message(role="assistant", content=(ToolCall(id="s1", name="search"),)),
        Message(role="tool", tool_call_id="s1", content=(ToolReference("grep"),)),
        Message(role="assistant", content=(Text("found it"),)),
    ]


def test_history_makes_tools_available(play: Player) -> None:  # T455
    run = play("done", messages=history(), tools=tools())
    assert offered(run) == [WITH]
    assert run.state.active_tools == ("grep",)


def test_log_makes_tools_available(play: Player) -> None:  # T455
    log = EncodedLog()
    first = play(FIND, "done", tools=tools(), log=log)
    state = fold([log.codec.decode(log.codec.encode(fact)) for fact in first.facts])
    run = play("fine", prompt="again", state=state, tools=tools())
    assert offered(run) == [WITH]
    assert run.all_of(ConfigChanged) == []  # the run began like that


@pytest.mark.parametrize("fact", ["tool_exec_end", "message_end tool", "turn_end"])
def test_crash_after_the_result(play: Player, fact: str) -> None:
    first = play(FIND, "done", tools=tools())
    cut = next(i for i, known in enumerate(first.facts) if line(known).startswith(fact))
    state: AgentState = fold(first.facts[: cut + 1])
    run = play("done", prompt=None, state=state, tools=tools())
    assert offered(run) == [WITH]


def test_result_without_references_costs_no_change(play: Player) -> None:
    run = play([call("c1", "echo", value="x")], "done", tools=tools())
    assert run.all_of(ConfigChanged) == []


# --- cache marks -------------------------------------------------------------------------------


def test_plain_system_prompt_gets_the_mark(play: Player) -> None:  # T456
    run = play("fine", system="Be kind.", options=CallOptions(cache_last="5m"))
    assert run.requests[0].system == (SystemBlock(text="Be kind.", cache="5m"),)
    assert run.requests[0].options.cache_last == "5m"  # the adapter marks the last message


def test_plain_system_prompt_without_a_mark(play: Player) -> None:
    assert play("fine", system="Be kind.").requests[0].system == (SystemBlock(text="Be kind."),)


def test_blocks_keep_their_own_marks(play: Player) -> None:  # T456
    blocks: Any = [SystemBlock(text="Long.", cache="1h"), SystemBlock(text="Short.")]
    run = play("fine", system=blocks, options=CallOptions(cache_last="5m"))
    assert run.requests[0].system == tuple(blocks)


def test_strict_is_forwarded_as_declared(play: Player) -> None:  # A.15.2
    async def work(args: Any, ctx: Any) -> object:
        return "x"

    declared: list[bool | None] = [None, True, False]
    run = play("fine", tools=[raw_tool(f"t{i}", "", {}, work, strict=s) for i, s in enumerate(declared)])
    assert [spec.strict for spec in run.requests[0].tools] == declared
