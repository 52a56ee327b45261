"""Map-reduce over a folder of documents: a reader for each, several at once, and one that puts them together.

Run it: ``python examples/map_reduce.py``. One of the documents cannot be read: the others are summed up all the same, and
the answer says what is missing. The documents are made in a temporary folder; ``--folder PATH`` takes the ``*.txt`` of
another. The models are played; ``-m openai/gpt-5`` asks a real one.
"""

import argparse
import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import unspool as un
from unspool import llm
from unspool.kernel import BadRequestError, ModelRequest, StreamEnd, StreamEvent, TextDelta
from unspool.subagent import AgentDefinition
from unspool.team import Team, map_reduce
from unspool.trajectory import JsonlSessions, verify

DOCUMENTS = {
    "march.txt": "March\nIt rained on twelve days. The river rose.",
    "april.txt": "April\nIt rained on three days. The meadow was mown.",
    "may.txt": "ILLEGIBLE",
    "june.txt": "June\nIt rained on eight days. The hay got wet.",
}
TASK = "Say in one sentence what this document tells of the weather."


class Played:
    """A model that answers by what it is shown, so that it does not matter who asks first."""

    supports_tools = True

    def __init__(self, name: str, answer: Callable[[str], str]) -> None:
        self.name = f"played/{name}"
        self._answer = answer

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        yield TextDelta(self._answer(request.messages[-1].text))
        yield StreamEnd(
            stop_reason="stop", usage=un.Usage(input_tokens=50, output_tokens=10), model=self.name
        )


def read(text: str) -> str:
    """What the played reader says of a document."""
    if "ILLEGIBLE" in text:
        raise BadRequestError("it cannot be read")
    *_, month, story = text.strip().splitlines()
    return f"{month}: {story.split('.')[0].lower()}."


def put_together(text: str) -> str:
    """What the played editor makes of all."""
    told = [line for line in text.splitlines() if "it rained" in line]
    return " ".join(told) + (" One month is missing." if "(failed:" in text else "")


def documents(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.glob("*.txt"))]


def make_documents(folder: Path) -> Path:
    folder.mkdir()
    for name, text in DOCUMENTS.items():
        (folder / name).write_text(text)
    return folder


async def sum_up(folder: Path, logs: Path, model_name: str) -> None:
    def agent(name: str, system: str, answer: Callable[[str], str]) -> AgentDefinition:
        model = llm.model(model_name) if model_name else Played(name, answer)
        return AgentDefinition(name=name, system=system, model=model, tools=[])

    reader = agent("reader", "You read one document.", read)
    editor = agent("editor", "You make one text of several.", put_together)
    items = documents(folder)
    with JsonlSessions(logs) as sessions:
        async with Team("weather", sessions=sessions) as team:
            result = await map_reduce(team, items, worker=reader, reducer=editor, task=TASK, at_once=3)
        for answer in result.answers:
            print(f"{answer.name}: {answer.end_reason}: {answer.text or answer.error}")
        print("all:", result.text)
        print(
            "ended:",
            result.end_reason,
            "· failed:",
            list(result.failed),
            "· tokens:",
            result.spent.total.total_tokens,
        )
        print("trajectories sound:", all(verify(info.path).ok for info in sessions.list()))


async def main(options: argparse.Namespace) -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(options.folder) if options.folder else make_documents(Path(temporary, "documents"))
        await sum_up(folder, Path(temporary, "sessions"), options.model)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", "--model", default="")
    parser.add_argument("--folder", default="")
    asyncio.run(main(parser.parse_args()))
