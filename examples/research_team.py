"""A research team over real files: a lead that gives out questions, and two readers that look and report.

Run it: ``python examples/research_team.py``. Each member is an agent with a session of its own; they send each other
letters, rest when they have nothing to do, and the lead answers when all have reported. The files are made in a
temporary folder; ``--folder PATH`` takes others. The models are scripted; ``-m openai/gpt-5`` asks a real one.
"""

import argparse
import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import unspool as un
from unspool import llm
from unspool.llm.scripted import Say, ScriptedModel, call
from unspool.subagent import AgentDefinition
from unspool.team import Team, TeamLimits
from unspool.tools import file_tools
from unspool.trajectory import JsonlSessions, verify

FILES = {
    "winter.txt": "January: 31 frosts. February: 20 frosts. The pond was frozen for six weeks.\n",
    "summer.txt": "July: two weeks without rain. August: the pond dried up for three days.\n",
}
QUESTION = "When could the frogs in the pond have been in danger? Use the notes in the files."
LEAD = "You lead a research team. Give each member one question with send_message; when they have reported, answer."
READER = "You answer a question from files, with the names of those you rely on. Send what you find to whoever asked."


def said(*parts: Any) -> Say:
    return Say(parts, usage=un.Usage(input_tokens=200, output_tokens=20))


def ask(id: str, to: str, text: str) -> un.ToolCall:
    return call(id, "send_message", to=to, text=text)


def scripts() -> dict[str, list[Any]]:
    return {
        "lead": [
            said(
                ask("a1", "ann", "Was the pond frozen in winter?"),
                ask("b1", "ben", "Did it dry up in summer?"),
            ),
            said("I have asked Ann and Ben."),
            said("Ann has reported, Ben has not yet."),
            said(
                "In winter, when the pond was frozen for six weeks, and in August, when it was dry for three days."
            ),
        ],
        "ann": [
            said(call("g1", "grep", pattern="frozen")),
            said(ask("r1", "lead", "Frozen for six weeks (winter.txt).")),
            said("Done: winter.txt."),
        ],
        "ben": [
            said(call("g1", "grep", pattern="dried")),
            said(ask("r1", "lead", "Dry for three days in August (summer.txt).")),
            said("Done: summer.txt."),
        ],
    }


async def research(folder: Path, logs: Path, model_name: str) -> None:
    script = scripts()

    def model_of(name: str) -> un.ChatModel:
        return llm.model(model_name) if model_name else ScriptedModel(script[name])

    # one at a time, so that the script fits: a real model takes reports as they come
    limits = TeamLimits(members=3, messages=100, tokens=200_000, concurrency=8 if model_name else 1)
    with JsonlSessions(logs) as sessions:
        async with Team("frogs", sessions=sessions, limits=limits, notices="queue") as team:
            await team.add(AgentDefinition(name="lead", system=LEAD, model=model_of("lead"), tools=[]))
            for name in ("ann", "ben"):
                reader = AgentDefinition(
                    name=name, system=READER, model=model_of(name), tools=file_tools(folder)
                )
                await team.add(reader)
            result = await team.run(QUESTION)
        print(result.text)
        print("ended:", result.end_reason)
        for name, member in result.members.items():
            print(f"{name}: {member.usage.total_tokens} tokens: {member.text}")
        print("trajectories sound:", all(verify(info.path).ok for info in sessions.list()))


async def main(options: argparse.Namespace) -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(options.folder or temporary)
        if not options.folder:
            for name, text in FILES.items():
                (folder / name).write_text(text)
        await research(folder, Path(temporary, "sessions"), options.model)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", "--model", default="")
    parser.add_argument("--folder", default="")
    asyncio.run(main(parser.parse_args()))
