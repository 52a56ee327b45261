"""A stop guard keeps the agent at work until a condition holds, and gives up when it never does.

Run it: ``python examples/stop_guard.py``.
"""

import asyncio

from unspool import Agent, Hooks, StopVerdict, tool
from unspool.kernel import StopInfo
from unspool.llm.scripted import ScriptedModel, call

MOST_TURNS = 3


class Shop:
    """A list of things to buy, a tool that buys one, and a guard that looks at the list."""

    def __init__(self, *things: str) -> None:
        self.missing = set(things)

    @tool
    def buy(self, thing: str) -> str:
        """Buy one thing of the list."""
        self.missing.discard(thing)
        return f"bought: {thing}"

    def guard(self, info: StopInfo) -> StopVerdict:
        """Whether the agent may stop; it is asked whenever it would."""
        if not self.missing:
            return StopVerdict("stop")
        left = ", ".join(sorted(self.missing))
        if info.turns >= MOST_TURNS:
            return StopVerdict("fail", f"never bought: {left}")
        return StopVerdict("go_on", f"Not yet: the list still has {left}.")


async def run(model: ScriptedModel, shop: Shop) -> None:
    """One run, and what was said in it."""
    agent = Agent(model, tools=[shop.buy], hooks=Hooks(stop_guard=shop.guard))
    result = await agent.run("Buy all that is on the list.")
    for message in result.messages:
        if message.role != "tool" and message.text:
            print(f"{message.role}: {message.text}")
    print(f"{result.end_reason} {result.error}".rstrip())


async def main() -> None:
    """A model that forgets something, and one that never does anything."""
    milk, bread = call("c1", "buy", thing="milk"), call("c2", "buy", thing="bread")
    forgetful = ScriptedModel([[milk], "All done!", [bread], "Now it is all done."])
    await run(forgetful, Shop("milk", "bread"))
    print()
    await run(ScriptedModel(["Later."] * MOST_TURNS), Shop("milk"))


if __name__ == "__main__":
    asyncio.run(main())
