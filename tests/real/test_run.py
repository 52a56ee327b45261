"""Whole runs, by the command and by the library, against a real model on a real server.

The server is llama.cpp; it is also killed while it answers, and one that never answers is asked.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from unspool.kernel import (
    AgentContext,
    CallOptions,
    Event,
    Limits,
    LoopConfig,
    MessageDiscarded,
    MessageUpdate,
    ModelResponse,
    Retry,
    RetryEvent,
    RunResult,
    ToolExecEnd,
    agent_loop,
    fold,
    tool,
)
from unspool.llm import OpenAIChatModel
from unspool.trajectory import load
from unspool.trajectory.memory import MemoryLog

from .conftest import LlamaServer


@tool(read_only=True)
async def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"7 C and raining in {city}"


def run_command(base_url: str, root: Path, prompt: str, *more: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "unspool.cli", "run", "-m", "local/smollm2", "--base-url", base_url]
    return subprocess.run(
        [*command, "--root", str(root), *more, prompt],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=root,
        check=False,
    )


def test_the_command_streams_calls_a_file_tool_and_answers(llama_server: LlamaServer, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy seven lemons\n")
    log = tmp_path / "run.jsonl"
    done = run_command(
        llama_server.base_url, tmp_path, "What does notes.txt say?", "--json", "--log", str(log)
    )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    ends = [event for event in events if event["type"] == "tool_exec_end"]
    assert [(end["tool"], end.get("outcome", "ok")) for end in ends] == [("read_file", "ok")]
    assert "seven lemons" in ends[0]["content"][0]["text"]
    updates = [event for event in events if event["type"] == "message_update" and "delta" in event]
    assert len(updates) > 5
    state = fold(load(log))
    assert "seven lemons" in state.messages[-1].text
    assert state.end_reason == "stop"
    assert state.usage.output_tokens > 5 and state.usage.context_tokens > 100


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_library_does_the_same(llama_server: LlamaServer, backend: str) -> None:
    async def play() -> tuple[list[Event], RunResult[str]]:
        config = LoopConfig(
            model=OpenAIChatModel("local/smollm2", base_url=llama_server.base_url),
            options=CallOptions(temperature=0.0, max_tokens=60),
            limits=Limits(turns=4),
        )
        events = []
        async with agent_loop(
            "What is the weather in Paris?", AgentContext(tools=[get_weather]), config
        ) as run:
            async for event in run:
                events.append(event)
            return events, await run.result()

    events, result = anyio.run(play, backend=backend)
    ends = [event for event in events if isinstance(event, ToolExecEnd)]
    assert ends and ends[0].outcome == "ok"
    assert "7" in result.text and result.end_reason == "stop"
    assert result.usage.output_tokens > 0


def test_a_server_killed_in_mid_stream_is_retried_then_an_error(own_llama_server: LlamaServer) -> None:
    async def play() -> tuple[list[Event], RunResult[str]]:
        config = LoopConfig(
            model=OpenAIChatModel("local/smollm2", base_url=own_llama_server.base_url),
            options=CallOptions(max_tokens=400),
            retry=Retry(attempts=2, base_s=0.01),
        )
        events: list[Event] = []
        async with agent_loop("Tell me a long story about a ship.", AgentContext(), config) as run:
            async for event in run:
                events.append(event)
                if isinstance(event, MessageUpdate) and own_llama_server.process.returncode is None:
                    own_llama_server.kill()
            return events, await run.result()

    events, result = anyio.run(play)
    kinds = [event.error_kind for event in events if isinstance(event, ModelResponse)]
    assert kinds == ["stream_partial", "network", "network"]
    assert [event.attempt for event in events if isinstance(event, RetryEvent)] == [1, 2]
    assert any(isinstance(event, MessageDiscarded) for event in events)
    assert (result.end_reason, result.error_kind) == ("error", "network")
    assert "127.0.0.1" in result.error


def test_a_server_that_goes_silent_is_given_up(own_llama_server: LlamaServer) -> None:
    log = MemoryLog()

    async def play() -> RunResult[str]:
        config = LoopConfig(
            model=OpenAIChatModel("local/smollm2", base_url=own_llama_server.base_url),
            options=CallOptions(max_tokens=400),
            retry=Retry(attempts=1, base_s=0.01, idle_s=1.0),
            log=log,
        )
        async with agent_loop("Tell me a long story about a ship.", AgentContext(), config) as run:
            async for event in run:
                if isinstance(event, MessageUpdate):
                    own_llama_server.pause()
            return await run.result()

    try:
        result = anyio.run(play)
    finally:
        own_llama_server.resume()
    assert (result.end_reason, result.error_kind) == ("error", "stream_idle")
    assert [fact.error_kind for fact in log.facts if isinstance(fact, ModelResponse)] == ["stream_idle"] * 2


def test_a_server_that_never_answers_is_given_up(silent_server: str) -> None:
    async def play() -> RunResult[str]:
        config = LoopConfig(
            model=OpenAIChatModel("local/model", base_url=silent_server),
            retry=Retry(attempts=0, idle_s=0.5),
        )
        return await agent_loop("hello?", AgentContext(), config).result()

    started = time.monotonic()
    result = anyio.run(play)
    assert result.error_kind == "stream_idle"
    assert time.monotonic() - started < 10


def test_the_command_says_what_went_wrong(tmp_path: Path) -> None:
    done: Any = run_command("http://127.0.0.1:9/v1", tmp_path, "hello", "--log", str(tmp_path / "run.jsonl"))
    assert done.returncode == 1
    assert "127.0.0.1:9" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
