"""Whole runs as text: a script in, the facts out, on both backends."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from play import lines

from unspool.kernel import (
    AgentContext,
    AuthError,
    FakeClock,
    Hooks,
    Limits,
    LoopConfig,
    RateLimitError,
    Retry,
    StopInfo,
    StopVerdict,
    ToolCall,
    ToolSpec,
    agent_loop,
    fold,
    make_call,
    tool,
)
from unspool.kernel.trace import trace
from unspool.llm.scripted import Cut, Say, ScriptedModel, Unfinished, call
from unspool.trajectory.memory import MemoryLog


@tool(read_only=True)
async def echo(x: int) -> str:
    return f"echo {x}"


class Raw:
    spec = ToolSpec(name="raw", schema={"type": "object", "properties": {"x": {"type": "integer"}}})

    async def execute(self, args: Any, ctx: Any, /) -> object:
        raise ValueError("it broke")


async def run_facts(script: Sequence[Any], **config: Any) -> str:
    log, clock = MemoryLog(), FakeClock()
    loop_config = LoopConfig(
        model=ScriptedModel(script, clock=clock), log=log, clock=clock, rand=lambda: 1.0, **config
    )
    async with agent_loop("go", AgentContext(tools=[echo, Raw()]), loop_config) as run:
        await run.result()
        assert fold(log.facts) == run.state
    return trace(log.facts)


BEGIN = """
    agent_start prompt
    queue_changed [prompt] queued 'go'
    turn_start 1
    queue_changed [prompt] taken
    message_end user 'go'
    context_projected 1 message
"""

TRACES: dict[str, tuple[list[Any], str]] = {
    "plain answer": (
        ["hello"],
        """
    message_end assistant 'hello'
    model_response stop, attempt 1
    turn_end 1
    agent_end stop
""",
    ),
    "one call": (
        [[call("c1", "echo", x=3)], "ok"],
        """
    message_end assistant '' echo#c1
    model_response tool_use, attempt 1
    tool_exec_start c1 echo({"x":3})
    tool_exec_dispatch c1
    tool_exec_end c1 ok: echo 3
    message_end tool c1
    turn_end 1
    turn_start 2
    context_projected 3 messages
    message_end assistant 'ok'
    model_response stop, attempt 1
    turn_end 2
    agent_end stop
""",
    ),
    "bad arguments, unknown tool, a tool that breaks": (
        [
            [
                call("c1", "echo", x="3"),
                make_call("c2", "echo", '{"x": '),
                call("c3", "nowhere"),
                call("c4", "raw", x=1),
            ],
            "ok",
        ],
        """
    message_end assistant '' echo#c1 echo#c2 nowhere#c3 raw#c4
    model_response tool_use, attempt 1
    tool_exec_start c1 echo({"x":"3"})
    tool_exec_end c1 invalid: arguments do not match the schema: $.x: expected integer, got string
    tool_exec_start c2 echo({})
    tool_exec_end c2 invalid: arguments are not a JSON object: Expecting value: line 1 column 7 (char 6); received: {"x": 
    tool_exec_start c3 nowhere({})
    tool_exec_end c3 unknown_tool: tool 'nowhere' not found; available tools: echo, raw
    tool_exec_start c4 raw({"x":1})
    tool_exec_dispatch c4
    message_end tool c1
    message_end tool c2
    message_end tool c3
    tool_exec_end c4 error: ValueError: it broke
    message_end tool c4
    turn_end 1
    turn_start 2
    context_projected 6 messages
    message_end assistant 'ok'
    model_response stop, attempt 1
    turn_end 2
    agent_end stop
""",
    ),
    "ids that are used twice": (
        [[call("c1", "echo", x=1), call("c1", "echo", x=2), call("c1", "echo", x=1)], "ok"],
        """
    message_end assistant '' echo#c1 echo#c1~2
    error warning duplicate_call: call 'c1' of tool 'echo' came twice; it runs once
    model_response tool_use, attempt 1
    tool_exec_start c1 echo({"x":1})
    tool_exec_dispatch c1
    tool_exec_start c1~2 echo({"x":2})
    tool_exec_dispatch c1~2
    tool_exec_end c1 ok: echo 1
    tool_exec_end c1~2 ok: echo 2
    message_end tool c1
    message_end tool c1~2
    turn_end 1
    turn_start 2
    context_projected 4 messages
    message_end assistant 'ok'
    model_response stop, attempt 1
    turn_end 2
    agent_end stop
""",
    ),
    "a broken stream, a rate limit, then an answer": (
        [["half a", Cut()], RateLimitError("slow down", retry_after_s=7), "ok"],
        """
    model_response stream_partial, attempt 1
    retry 1/3 in 1 s: stream_partial
    context_projected 1 message
    model_response rate_limit, attempt 2
    retry 2/3 in 7 s: rate_limit
    context_projected 1 message
    message_end assistant 'ok'
    model_response stop, attempt 3
    turn_end 1
    agent_end stop
""",
    ),
    "an error that retrying does not mend": (
        [AuthError("bad key")],
        """
    model_response auth, attempt 1
    error auth: bad key
    turn_end 1
    agent_end error
""",
    ),
    "cut by the output limit, also inside a call": (
        [Say([Unfinished("c1", "echo", '{"x"')], stop_reason="length"), "ok"],
        """
    message_end assistant ''
    model_response length, attempt 1
    turn_end 1
    message_end user '…' (length_recovery)
    turn_start 2
    context_projected 2 messages
    message_end assistant 'ok'
    model_response stop, attempt 1
    turn_end 2
    agent_end stop
""",
    ),
}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", TRACES)
def test_trace(name: str, backend: str) -> None:
    script, expected = TRACES[name]

    async def play() -> str:
        return await run_facts(script)

    told = anyio.run(play, backend=backend)
    told = told.replace(repr(LoopConfig(model=ScriptedModel()).texts.go_on), "'…'")
    assert told == lines(BEGIN + expected)


def test_the_guard_may_ask_for_more() -> None:
    verdicts = [StopVerdict("go_on", "really?"), StopVerdict("go_on", ""), StopVerdict()]

    async def guard(info: StopInfo) -> StopVerdict:
        return verdicts.pop(0)

    async def play() -> str:
        return await run_facts(["one", "two"], hooks=Hooks(stop_guard=guard))

    assert "message_end user 'really?' (stop_guard)" in anyio.run(play)
    assert len(verdicts) == 1


def test_a_limit_on_calls_ends_the_run_with_every_call_answered() -> None:
    calls = [ToolCall(id=f"c{n}", name="echo", args={"x": n}) for n in range(3)]

    async def play() -> str:
        return await run_facts([calls], limits=Limits(tool_calls=2), retry=Retry(attempts=0))

    told = anyio.run(play)
    assert "tool_exec_end c2 skipped: not executed: the run may make no more tool calls" in told
    assert told.endswith("agent_end max_tool_calls")
