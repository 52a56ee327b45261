"""The agent on a real model on a real server: pauses, interruptions, steering, a log on a disk."""

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from unspool import Agent, CallOptions, Limits, Verdict, fold, tool, user_message
from unspool.llm import OpenAIChatModel
from unspool.trajectory import JsonlLog, load

from .conftest import LlamaServer

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
SHORT = CallOptions(temperature=0, max_tokens=40)
ONCE = Limits(length_recoveries=0)  # a small model goes on and on


def model_of(server: LlamaServer) -> OpenAIChatModel:
    return OpenAIChatModel("local/smollm2", base_url=server.base_url)


async def said(agent: Agent[str], characters: int) -> None:
    """Return when the model has said that much of its answer."""
    enough = anyio.Event()
    ends = agent.subscribe(lambda event: enough.set() if len(agent.live.text) >= characters else None)
    await enough.wait()
    ends()


@tool(needs_approval=True)
async def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"7 C and raining in {city}"


@BACKENDS
def test_two_turns_of_a_conversation(llama_server: LlamaServer, backend: str) -> None:  # T281, T285
    async def main() -> None:
        agent = Agent(model_of(llama_server), options=SHORT, limits=ONCE)
        await agent.run("My name is Ada. Say hello.")
        assert len(agent.state.messages) == 2
        result = await agent.run("What is my name?")
        assert len(agent.state.messages) == 4
        assert result.usage.context_tokens > 30 and agent.usage.output_tokens > 0
        assert agent.usage.context_tokens > result.usage.context_tokens

    anyio.run(main, backend=backend)


@BACKENDS
def test_an_abort_in_the_answer(llama_server: LlamaServer, backend: str) -> None:  # T283
    async def main() -> None:
        agent = Agent(model_of(llama_server), options=CallOptions(max_tokens=400), limits=ONCE)
        async with agent:
            agent.prompt("Count from one to one hundred in words.")
            await said(agent, 1)
            agent.abort(reason="enough")
            await agent.wait_idle()
        last = agent.state.messages[-1]
        assert (last.text, agent.state.end_reason, agent.live.text) == ("enough", "aborted", "")
        assert (await agent.run("Say hi.", busy="error")).end_reason == "stop"

    anyio.run(main, backend=backend)


@BACKENDS
def test_an_interruption_that_keeps_what_was_said(llama_server: LlamaServer, backend: str) -> None:
    async def main() -> None:
        agent = Agent(model_of(llama_server), options=CallOptions(max_tokens=60), limits=ONCE)
        async with agent:
            agent.prompt("Tell me a long story about a dragon.")
            await said(agent, 20)
            result = await agent.run("Stop. Just say: done.", busy="interrupt")
        told, asked = agent.state.messages[1], agent.state.messages[2]
        assert len(told.text) >= 20 and asked.text == "Stop. Just say: done."
        assert getattr(told, "stop_reason", "") == "interrupted"
        assert result.end_reason == "stop"

    anyio.run(main, backend=backend)


@BACKENDS
def test_a_pause_on_disk_and_its_decision(llama_server: LlamaServer, backend: str, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"

    async def before() -> str:
        with JsonlLog(path) as log:
            agent = Agent(model_of(llama_server), tools=[get_weather], options=SHORT, limits=ONCE, log=log)
            return (await agent.run("What is the weather in Oslo? Use the tool.")).end_reason

    async def after() -> str:
        state = fold(load(path))
        assert [waiting.call.name for waiting in state.waiting_calls] == ["get_weather"]
        with JsonlLog(path) as log:
            agent = Agent(
                model_of(llama_server), tools=[get_weather], options=SHORT, limits=ONCE, log=log, state=state
            )
            result = await agent.resume(Verdict.allow(by="a person"))
        assert fold(load(path)) == agent.state
        return result.text

    assert anyio.run(before, backend=backend) == "paused"
    text = anyio.run(after, backend=backend)
    assert "7" in text or "rain" in text


@BACKENDS
def test_going_on_from_a_question(llama_server: LlamaServer, backend: str) -> None:  # T286
    async def main() -> None:
        agent = Agent(
            model_of(llama_server), options=SHORT, limits=ONCE, messages=[user_message("Say hello.")]
        )
        result = await agent.continue_()
        assert result.text and len(agent.state.messages) == 2

    anyio.run(main, backend=backend)


def test_the_terminal_assistant(llama_server: LlamaServer, tmp_path: Path) -> None:
    """The example that people copy, with a real model: it reads a file, ends, and is taken up again."""
    (tmp_path / "notes.txt").write_text("buy seven lemons\n")
    harness = Path(__file__).parents[2] / "examples" / "harness.py"
    command = [sys.executable, str(harness), "-m", "local/smollm2", "--base-url", llama_server.base_url]

    def talk(text: str, *more: str) -> str:
        done = subprocess.run(
            [*command, *more],
            cwd=tmp_path,
            input=text,
            capture_output=True,
            text=True,
            timeout=200,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout

    assert "← ok: 1 buy seven lemons" in talk("What does notes.txt say?\n")
    assert "lemons" in talk("What does notes.txt say?\n", "--resume")
    (session,) = (tmp_path / ".harness").glob("*.jsonl")
    state = fold(load(session))
    asked = [message.text for message in state.messages if message.role == "user"]
    assert asked == ["What does notes.txt say?"] * 2
