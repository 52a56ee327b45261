"""The tool loop over loopback HTTP: the kernel with a real model, beside a client written by hand."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
from fakes import noop, noop_body
from laps import Job, best, scaled
from llm_formats import Chunk

from unspool.kernel import AgentContext, Limits, LoopConfig, agent_loop
from unspool.llm import OpenAIChatModel

_decode = msgspec.json.Decoder(Chunk).decode
_encode = msgspec.json.Encoder().encode
_HEADERS = {"content-type": "application/json", "authorization": "Bearer k"}


async def ours(url: str, turns: int) -> None:
    """One run of ``turns`` tool calls, drained."""
    model = OpenAIChatModel("p/m", base_url=url, api_key="k")
    config = LoopConfig(model=model, limits=Limits(turns=turns + 10))
    async for _ in agent_loop("go", AgentContext(tools=[noop]), config):
        pass


async def bare(url: str, turns: int) -> None:
    """The same requests and answers with nothing but httpx, msgspec and a list."""
    function = {"name": "noop", "parameters": noop.spec.schema}
    tools = [{"type": "function", "function": function}]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    fixed = {"stream": True, "stream_options": {"include_usage": True}, "tools": tools}
    async with httpx.AsyncClient(verify=False, trust_env=False) as client:
        while True:
            body = _encode({"model": "m", "messages": messages, **fixed})
            text, calls = await _ask(client, f"{url}/chat/completions", body)
            reply: dict[str, Any] = {"role": "assistant", "content": text or None}
            messages.append(reply)
            if not calls:
                return
            reply["tool_calls"] = calls
            for call in calls:
                said = await noop_body(**msgspec.json.decode(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})


async def _ask(client: httpx.AsyncClient, url: str, body: bytes) -> tuple[str, list[dict[str, Any]]]:
    """The text of an answer, and its calls as they go back."""
    text: list[str] = []
    calls: list[dict[str, Any]] = []
    rest = b""
    async with client.stream("POST", url, content=body, headers=_HEADERS) as response:
        async for piece in response.aiter_raw():
            *events, rest = (rest + piece).split(b"\n\n")
            for event in events:
                if event[6:] == b"[DONE]":
                    continue
                for choice in _decode(event[6:]).choices:
                    text.append(choice.delta.content or "")
                    for part in choice.delta.tool_calls or ():
                        if part.id:
                            function = {"name": part.function.name, "arguments": ""}  # type: ignore[union-attr]
                            calls.append({"id": part.id, "type": "function", "function": function})
                        calls[part.index]["function"]["arguments"] += part.function.arguments  # type: ignore[union-attr]
    return "".join(text), calls


@contextmanager
def server(turns: int) -> Iterator[str]:
    """The URL of a server in another process."""
    command = [sys.executable, "-P", str(Path(__file__).parent / "llm_server.py"), str(turns)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        yield f"http://127.0.0.1:{child.stdout.readline().strip()}"
    finally:
        child.communicate()


def looping(laps: int, turns: int) -> dict[str, float]:
    """ms of CPU for a run of ``turns`` turns."""
    with server(turns) as url:
        jobs: dict[str, Job] = {"ours": lambda: ours(url, turns), "bare": lambda: bare(url, turns)}
        sent = {name: _sent(job, url) for name, job in jobs.items()}  # also warms up
        if sent["ours"] != sent["bare"]:
            raise SystemExit("the requests of the kernel and of the bare client differ")
        return scaled(best(jobs, laps), 1e3)


def _sent(job: Job, url: str) -> str:
    asyncio.run(job())
    return httpx.get(url, trust_env=False).text
