"""A first run, offline: a function as a tool, a scripted model, everything that happens printed.

Run it: ``python examples/hello.py``.
"""

import asyncio

from unspool import AgentContext, LoopConfig, MessageUpdate, ToolExecEnd, ToolExecStart, agent_loop, tool
from unspool.llm.scripted import ScriptedModel, call


@tool(read_only=True)
def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


async def main() -> None:
    """Ask, watch, and print what came of it."""
    model = ScriptedModel([["Let me count. ", call("c1", "word_count", text="to be or not")], "Four words."])
    async with agent_loop(
        "How many words are in 'to be or not'?", AgentContext(tools=[word_count]), LoopConfig(model=model)
    ) as run:
        async for event in run:
            match event:
                case MessageUpdate(delta, "text"):
                    print("model:", delta)
                case ToolExecStart(tool=name, args=args):
                    print("calls:", name, args)
                case ToolExecEnd(outcome=outcome, content=content):
                    print("result:", outcome, content)
                case _:
                    print(f"event {event.seq}:", type(event).__name__)
        result = await run.result()
    print(f"{result.end_reason}: {result.text}")


if __name__ == "__main__":
    asyncio.run(main())
