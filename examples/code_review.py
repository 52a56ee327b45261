"""A code review by three reviewers, who look at a change each in their own way and then vote.

Run it: ``python examples/code_review.py``. The change is a real file in a temporary folder that the reviewers read; each
is a member of a team, with a session of its own, and votes unseen by the others. One ballot is no ballot at first, and
is asked for again. The models are scripted; ``-m openai/gpt-5`` asks a real one.
"""

import argparse
import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import unspool as un
from unspool import llm
from unspool.llm.scripted import Say, ScriptedModel, call
from unspool.subagent import AgentDefinition
from unspool.team import Team, vote
from unspool.tools import file_tools
from unspool.trajectory import JsonlSessions, verify

CHANGE = """\
def find_user(db, name):
    return db.execute(f"SELECT * FROM users WHERE name = '{name}'").fetchone()
"""
LOOKS_AT = {
    "reader": "You look at how easy the code is to read.",
    "tester": "You look at what is not tested, and what happens at the edges.",
    "guard": "You look at what an attacker could do.",
}
OPTIONS = ["merge", "change first", "reject"]


def said(*parts: Any) -> Say:
    return Say(parts, usage=un.Usage(input_tokens=100, output_tokens=10))


def ballot(choice: str, reason: str) -> Say:
    return said(json.dumps({"choice": choice, "reason": reason}))


LOOK = said(call("c1", "read_file", path="change.py"))
SCRIPTS: dict[str, list[Any]] = {
    "reader": [LOOK, ballot("merge", "It is short and clear.")],
    "tester": [
        LOOK,
        said("I would like a test for a name with a quote."),
        ballot("change first", "It has no test."),
    ],
    "guard": [LOOK, ballot("change first", "A name becomes part of the SQL.")],
}


async def review(folder: Path, logs: Path, model_name: str) -> None:
    def reviewer(name: str) -> AgentDefinition:
        model = llm.model(model_name) if model_name else ScriptedModel(SCRIPTS[name])
        system = f"You review a change. {LOOKS_AT[name]}"
        return AgentDefinition(name=name, system=system, model=model, tools=file_tools(folder))

    with JsonlSessions(logs) as sessions:
        async with Team("review", sessions=sessions) as team:
            voters = [reviewer(name) for name in LOOKS_AT]
            voted = await vote(team, "What becomes of the change in change.py?", voters, OPTIONS)
        for name, said in sorted(voted.ballots.items()):
            print(f"{name}: {said.choice}: {said.reason}")
        print("counted:", dict(voted.counts))
        print("winner:", voted.winner or f"none, tied: {voted.tied}", "· majority:", voted.majority)
        print("tokens:", voted.spent.total.total_tokens)
        print("trajectories sound:", all(verify(info.path).ok for info in sessions.list()))


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "change.py").write_text(CHANGE)
    return folder


async def main(model_name: str) -> None:
    with TemporaryDirectory() as temporary:
        folder = make_repository(Path(temporary, "repository"))
        await review(folder, Path(temporary, "sessions"), model_name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", "--model", default="")
    asyncio.run(main(parser.parse_args().model))
