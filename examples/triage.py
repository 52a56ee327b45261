"""A help desk: triage hands the conversation to who can help, who keeps it until it is handed on.

Run it: ``python examples/triage.py``. One session, three agents; the second question goes straight to the one that
has the conversation, although the session was taken up anew from its log. The model is scripted; ``-m openai/gpt-5`` asks a real one.
"""

import argparse
import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import unspool as un
from unspool import llm
from unspool.llm.scripted import Say, ScriptedModel, call
from unspool.subagent import AgentDefinition, HandoffAgent, usage_by_agent, without_tools
from unspool.trajectory import JsonlLog, load

ORDERS = {7: "delivered", 8: "on its way"}


@un.tool(read_only=True)
async def find_order(order: int) -> str:
    """Say where an order is."""
    return ORDERS.get(order, "there is no such order")


@un.tool
async def refund(order: int) -> str:
    """Refund an order."""
    ORDERS[order] = "refunded"
    return f"order {order} is refunded"


DESK = [
    AgentDefinition(
        name="triage",
        system="You greet customers, find out what they need and hand them to who can help. You settle nothing yourself.",
        tools=[find_order],
        handoffs=("billing", "shipping"),
    ),
    AgentDefinition(
        name="billing",
        description="Invoices and refunds.",
        system="You settle money matters.",
        tools=[find_order, refund],
    ),
    AgentDefinition(
        name="shipping", description="Where parcels are.", system="You find parcels.", tools=[find_order]
    ),
]
QUESTIONS = ["Order 7 came broken. I want my money back.", "Thank you! Is anything else of mine refunded?"]


def said(*parts: Any) -> Say:
    return Say(parts, usage=un.Usage(input_tokens=100, output_tokens=10))


SCRIPT = [
    said(call("c1", "find_order", order=7)),
    said("One moment.", call("c2", "transfer_to_agent", agent="billing", reason="order 7 came broken")),
    said(call("c3", "refund", order=7)),
    said("I am sorry. Order 7 is refunded."),
    said("No, only order 7."),
]


async def talk(path: Path, questions: list[str], model: un.ChatModel) -> None:
    """Go on with the conversation in ``path``: whoever has it answers."""
    with JsonlLog(path) as log:
        desk = HandoffAgent(
            DESK,
            root="triage",
            model=model,
            log=log,
            input_filter=without_tools,  # what the others looked up is not shown to who takes over
            on_handoff=lambda handoff: print(f"{handoff.source} hands over to {handoff.target}"),
        )
        for question in questions:
            asked = desk.definition.name
            result = await desk.run(question)
            print(f"to {asked}: {question}\n{desk.definition.name}: {result.text}")


async def main(model_name: str) -> None:
    model = llm.model(model_name) if model_name else ScriptedModel(SCRIPT)
    with TemporaryDirectory() as folder:
        path = Path(folder, "desk.jsonl")
        await talk(path, QUESTIONS[:1], model)
        print("later, from the log:")
        await talk(path, QUESTIONS[1:], model)
        for name, usage in usage_by_agent(load(path)).items():
            print(f"{name}: {usage.total_tokens} tokens")
    print("orders:", ORDERS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", "--model", default="")
    asyncio.run(main(parser.parse_args().model))
