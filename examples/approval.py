"""An approval that outlives the process: one process asks and ends, another decides and goes on.

Run it: ``python examples/approval.py``. All that passes between the two is a log of JSON lines.
"""

import asyncio
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from unspool import Agent, Verdict, fold, tool
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory import JsonlLog, load


@tool(needs_approval=True)
def pay(to: str, amount: int) -> str:
    """Pay an amount to somebody."""
    print(f"  {amount} paid to {to}")
    return "paid"


async def ask(path: str) -> None:
    """The first process: run until a person has to decide."""
    calls = [call("c1", "pay", to="Ann", amount=20), call("c2", "pay", to="Bob", amount=9000)]
    with JsonlLog(path) as log:
        agent = Agent(ScriptedModel([["I pay both bills.", *calls]]), tools=[pay], log=log)
        result = await agent.run("Pay my bills.")
    print(f"first process: {result.end_reason}, {len(result.pending)} calls wait")


async def decide(path: str) -> None:
    """The second process, hours later: look at what waits, decide, go on."""
    decisions = {
        "c1": Verdict.allow({"to": "Ann", "amount": 25}, by="eve"),  # with a tip
        "c2": Verdict.deny("ask Bob about it first", by="eve"),
    }
    with JsonlLog(path) as log:
        agent = Agent(ScriptedModel(["Ann is paid, Bob is not."]), tools=[pay], log=log)
        for waiting in agent.state.waiting_calls:
            print(f"second process: {waiting.call.id} waits: {waiting.call.name} {waiting.call.args}")
        result = await agent.resume(decisions)
    print(f"second process: {result.end_reason}: {result.text}")
    print("the model was told of c2:", agent.state.messages[-2].text)
    assert fold(load(path)) == agent.state


def main() -> None:
    """Start both processes, one after the other."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "session.jsonl"))
        for step in ("ask", "decide"):
            subprocess.run([sys.executable, __file__, step, path], check=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ask", path]:
            asyncio.run(ask(path))
        case ["decide", path]:
            asyncio.run(decide(path))
        case _:
            main()
