"""A gate that decides only on tools which change something: it allows, rewrites and denies.

Run it: ``python examples/gate.py``.
"""

import asyncio

from unspool import Agent, Event, Hooks, ToolExecEnd, Verdict, tool
from unspool.kernel import ToolExecDispatch, ToolUse
from unspool.llm.scripted import ScriptedModel, call

NOTES = {"todo": "buy milk", "archive/2024": "old"}


@tool(read_only=True)
def read_note(title: str) -> str:
    """Read a note."""
    return NOTES[title]


@tool(destructive=False)
def write_note(title: str, text: str) -> str:
    """Write a new note."""
    NOTES[title] = text
    return f"written: {title}"


@tool
def delete_note(title: str) -> str:
    """Delete a note."""
    return f"deleted: {NOTES.pop(title)}"


def gate(use: ToolUse) -> Verdict:
    """Reading needs nobody's leave; new notes are drafts; archived notes stay."""
    title = use.args["title"]
    if use.spec.read_only:
        return Verdict.allow()
    if use.spec.destructive is False:
        return Verdict.allow({**use.args, "title": f"drafts/{title}"})
    return Verdict.deny("the archive is kept") if title.startswith("archive/") else Verdict.allow()


def show(event: Event) -> None:
    """What was asked of the tools, where it was changed, and what came of it."""
    match event:
        case ToolExecDispatch(call_id=id, args=args) if args is not None:
            print(f"{id}: rewritten to {args}")
        case ToolExecEnd(call_id=id, tool=name, outcome=outcome):
            print(f"{id}: {name}: {outcome}")


async def main() -> None:
    """Let the model ask for all of it at once."""
    calls = [
        call("c1", "read_note", title="todo"),
        call("c2", "write_note", title="plan", text="milk, then bread"),
        call("c3", "delete_note", title="todo"),
        call("c4", "delete_note", title="archive/2024"),
    ]
    agent = Agent(
        ScriptedModel([calls, "Done, but for the archive."]),
        tools=[read_note, write_note, delete_note],
        hooks=Hooks(gate=gate),
    )
    agent.subscribe(show)
    result = await agent.run("Tidy up my notes.")
    print("the model was told:", result.messages[-2].text)
    print("notes:", sorted(NOTES))
    print(f"{result.end_reason}: {result.text}")


if __name__ == "__main__":
    asyncio.run(main())
