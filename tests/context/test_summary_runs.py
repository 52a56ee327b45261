"""Summaries in real runs: committed, carried on, and rebuilt from the log."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from unspool.context.engine import Engine
from unspool.context.marks import is_summary, mark_of
from unspool.context.summary import SummaryCheckpoint
from unspool.kernel import (
    Agent,
    ContextCompacted,
    Image,
    Limits,
    Message,
    ModelRequest,
    StreamEvent,
    Text,
    tool,
    user_message,
)
from unspool.llm.scripted import Entry, ScriptedModel, call
from unspool.trajectory import MemoryLog, requests

pytestmark = pytest.mark.anyio

PAGE = "def function(argument: int) -> int: return argument + 1  # and so on\n" * 12


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}\n{PAGE}"


@tool
def edit_file(path: str) -> str:
    """Change a file."""
    return "changed"


def steps(count: int, start: int = 0) -> list[Entry]:
    """Replies with a call each."""
    tools = ["edit_file" if number % 5 == 0 else "read_file" for number in range(start, start + count)]
    return [[call(f"c{start + at}", name, path=f"src/f{start + at}.py")] for at, name in enumerate(tools)]


class Answers(ScriptedModel):
    """Plays its script for the run, and its summaries, numbered, for strategies."""

    def __init__(self, script: list[Entry]) -> None:
        super().__init__(script)
        self.summaries = 0

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        if request.options.max_tokens is None:
            return super().stream(request)
        self.summaries += 1
        return ScriptedModel([f"<summary>Record {self.summaries}.</summary>"]).stream(request)


def agent_of(script: list[Entry], log: MemoryLog, **settings: Any) -> Agent[str]:
    return Agent(
        model=Answers(script),
        tools=[read_file, edit_file],
        system="You build parsers.",
        log=log,
        limits=Limits(turns=100),
        context=Engine([SummaryCheckpoint(**settings)], window=8000, counter="estimate"),
    )


@pytest.mark.parametrize("settings", [{}, {"share_prefix": True}])
async def test_a_long_loop_of_calls_is_summed_up_again_and_again(settings: dict[str, Any]) -> None:
    log = MemoryLog()
    agent = agent_of([*steps(60), "The parser is built."], log, **settings)
    result = await agent.run("Build the parser.")
    assert not result.error
    assert result.text == "The parser is built."
    rewrites = [fact for fact in log.facts if isinstance(fact, ContextCompacted)]
    assert len(rewrites) >= 2
    assert all(fact.committed for fact in rewrites)
    messages = list(agent.state.messages)
    assert [is_summary(message) for message in messages[:3]] == [True, False, False]
    assert messages[1].text == "Build the parser."
    mark = mark_of(messages[0])
    assert mark["summary"] == f"Record {len(rewrites)}."
    assert mark["covered"] + len(messages) - 1 == 2 + 2 * 60
    assert mark["modified_files"][:2] == ["src/f0.py", "src/f10.py"]
    assert sum([message.text.count("Build the parser.") for message in messages]) == 1
    made = list(requests(log.facts))
    assert all(each.exact for each in made)
    assert [each.purpose for each in made].count("compaction") == len(rewrites)
    for each in made:
        if each.purpose == "reply":
            assert each.request.system[0].text == "You build parsers."
            assert each.request.messages[-1].role in ("user", "tool")
            assert [m.text for m in each.request.messages].count("Build the parser.") == 1


async def test_the_system_prompt_and_the_task_survive_two_compactions_by_hand() -> None:
    log = MemoryLog()
    agent = agent_of(["a1 " + PAGE, "a2 " + PAGE, "a3 " + PAGE, "a4"], log)
    for request in ("u1: never push to main.", "u2", "u3"):
        await agent.run(request)
    assert await agent.compact("the branches")
    assert await agent.run("u4")
    first = mark_of(agent.state.messages[0])
    assert first["requests"][0] == "u1: never push to main."
    await agent.compact()
    made = list(requests(log.facts))
    assert all(each.exact for each in made)
    last = made[-1].request if made[-1].purpose == "reply" else made[-2].request
    assert last.system[0].text == "You build parsers."
    asked = next(each for each in made if each.purpose == "compaction")
    assert "special attention to this: the branches" in asked.request.messages[-1].text


async def test_a_summary_is_stored_as_a_plain_message() -> None:
    log = MemoryLog()
    agent = agent_of([*steps(40), "Done."], log)
    await agent.run(
        [
            user_message("Build it."),
            Message(role="user", content=(Text("See:"), Image(data="aGk=", mime_type="image/png"))),
        ]
    )
    [summary] = [message for message in agent.state.messages if is_summary(message)]
    assert type(summary) is Message
    assert summary.id
    assert mark_of(summary)["requests"] == ["Build it."]
