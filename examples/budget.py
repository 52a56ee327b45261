"""Two ways to bound what a run may use up: a limit that ends it, a hook that answers for the model.

Run it: ``python examples/budget.py``.
"""

import asyncio

from unspool import (
    Agent,
    Event,
    Hooks,
    Limits,
    Message,
    ModelResponse,
    RunResult,
    Usage,
    assistant_message,
    tool,
)
from unspool.kernel import ModelCallInfo
from unspool.llm.scripted import Say, ScriptedModel, call

BUDGET = 250  # tokens


@tool(read_only=True)
def look(place: str) -> str:
    """Look somewhere."""
    return "nothing here"


def model() -> ScriptedModel:
    """Wants to look around for ever; each call uses a hundred tokens."""
    usage = Usage(input_tokens=90, output_tokens=10)
    return ScriptedModel([Say([call(f"c{n}", "look", place=f"room {n}")], usage=usage) for n in range(1, 99)])


def over_budget(info: ModelCallInfo) -> Message | None:
    """The answer instead of the next call, once the budget is used up; until then the model's."""
    used = info.state.run_usage.total_tokens
    if used < BUDGET:
        return None
    return assistant_message(f"I stop here, after {used} tokens: nothing in the first rooms.")


def show(event: Event) -> None:
    """Who answered, at which price."""
    if isinstance(event, ModelResponse):
        print(f"  {event.source}: {event.usage.total_tokens} tokens")


def tell(result: RunResult[str]) -> None:
    """How it ended."""
    print(f"  {result.end_reason}: {result.error or result.text}")


async def main() -> None:
    """The same model and tool, bounded in both ways."""
    print("a limit ends the run:")
    agent = Agent(model(), tools=[look], limits=Limits(tokens=BUDGET))
    agent.subscribe(show)
    tell(await agent.run("Where is my key?"))

    print("a hook has the last word:")
    agent = Agent(model(), tools=[look], hooks=Hooks(before_model_call=over_budget))
    agent.subscribe(show)
    tell(await agent.run("Where is my key?"))


if __name__ == "__main__":
    asyncio.run(main())
