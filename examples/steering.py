"""Talking to an agent while it works: steer it, ask for more, interrupt it and keep what was said.

Run it: ``python examples/steering.py``.
"""

import asyncio

from unspool import Agent, Event, MessageUpdate, ToolContext, ToolExecEnd, ToolExecUpdate, tool
from unspool.llm.scripted import ScriptedModel, Wait, call


@tool
async def book(what: str, ctx: ToolContext) -> str:
    """Book something."""
    ctx.progress(f"asking for a {what}")
    await ctx.clock.sleep(0.01)
    return f"booked: {what}"


async def steer() -> None:
    """A message that comes while a tool runs: that tool ends, the calls not yet begun are skipped."""
    calls = [
        call("c1", "book", what="flight"),
        call("c2", "book", what="hotel"),
        call("c3", "book", what="car"),
    ]
    agent = Agent(ScriptedModel([calls, "Only the flight, then.", "It leaves at nine."]), tools=[book])
    async with agent.stream("Book a trip to Rome.") as run:
        async for event in run:
            match event:
                case ToolExecUpdate(call_id=id, summary=summary):
                    print(f"{id}: {summary}")
                    agent.steer("No hotel and no car, I stay with friends.")
                    agent.follow_up("When does it leave?")
                case ToolExecEnd(call_id=id, outcome=outcome):
                    print(f"{id}: {outcome}")
    tell(agent)


async def interrupt() -> None:
    """A new prompt ends an answer that is under way; what was said of it stays in the conversation."""
    model = ScriptedModel([["Once upon a time", Wait(float("inf")), " there was a king."], "Four."])
    agent = Agent(model)
    said = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, MessageUpdate):
            said.set()

    agent.subscribe(listen)
    async with agent:  # owns the run that goes on in the background
        agent.prompt("Tell me a tale.")
        await said.wait()
        await agent.run("What is 2 + 2?", busy="interrupt", keep=True)
    tell(agent)
    print("the model was sent:", [message.text for message in model.requests[1].messages])


def tell(agent: Agent[str]) -> None:
    """The conversation, without the tools' results."""
    for message in agent.state.messages:
        if message.role != "tool" and message.text:
            print(f"{message.role}: {message.text}")


async def main() -> None:
    """Both, one after the other."""
    await steer()
    print()
    await interrupt()


if __name__ == "__main__":
    asyncio.run(main())
