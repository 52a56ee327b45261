"""unspool's adapter for the peers' harness (see README.md beside this folder)."""

import asyncio

from common import noop_body, sleep_body, sleep_body_sync

NAME, VENV, IMPORT = "unspool", "unspool", ["unspool"]
DISTS = ["unspool", "msgspec", "anyio", "pydantic"]


def _model(script):
    from unspool.kernel import StreamEnd, TextDelta, ToolCallDelta, ToolCallEnd

    class Fake:
        name = "fake/model"
        supports_tools = True

        async def stream(self, request):
            if script.delay:
                await asyncio.sleep(script.delay)
            turn = script.next(len(request.messages))
            for index, (id, name, args) in enumerate(turn.calls):
                yield ToolCallDelta(index, id, name, args)
                yield ToolCallEnd(index)
            for text in turn.deltas:
                yield TextDelta(text, len(turn.calls))
            yield StreamEnd(stop_reason="tool_use" if turn.calls else "stop")

    return Fake()


_tools = {}  # made once and shared by all agents, as tools are meant to be


def build(script, tool="noop", sync_tool=False, **kw):
    from unspool.kernel import tool as make_tool

    if tool == "noop":
        body = noop_body
    elif sync_tool:
        body = sleep_body_sync
    else:
        body = sleep_body
    if body not in _tools:
        _tools[body] = make_tool(body, name=tool, concurrency_safe=True)
    return _model(script), _tools[body], script


def _stream(agent, prompt, max_turns):
    from unspool import AgentContext, Limits, LoopConfig, agent_loop

    model, tool, script = agent
    script.reset()
    config = LoopConfig(model=model, limits=Limits(turns=max_turns + 10, concurrency=100))
    return agent_loop(prompt, AgentContext(tools=[tool]), config)


async def run(agent, prompt, max_turns):
    from unspool import MessageUpdate

    n = deltas = 0
    stream = _stream(agent, prompt, max_turns)
    async for event in stream:
        n += 1
        if type(event) is MessageUpdate and event.kind == "text":
            deltas += 1
    return stream.transcript()[-1].text, n, deltas


async def run_plain(agent, prompt, max_turns):
    return (await _stream(agent, prompt, max_turns).result()).text, 0, 0


def history_len(agent):
    return agent[2].seen


def http_text(base_url, loop=False, max_turns=10):
    from unspool import AgentContext, Limits, LoopConfig, MessageUpdate, agent_loop, llm
    from unspool import tool as make_tool

    model = llm.model("bench/gpt-4o-mini", base_url=base_url, api_key="x")
    tools = [make_tool(noop_body, name="noop")] if loop else []

    async def go():
        deltas = 0
        config = LoopConfig(model=model, limits=Limits(turns=max_turns))
        stream = agent_loop("go", AgentContext(tools=tools), config)
        async for event in stream:
            if type(event) is MessageUpdate and event.kind == "text":
                deltas += 1
        return stream.transcript()[-1].text, deltas

    return go
