"""What a real llama.cpp server with a real, very small model does whatever the wire format: it is left, it is
shared, it dies, it never answers.

Read with: ``test_llamacpp_formats.py`` (the answers, over each format that the server speaks).
"""

from contextlib import aclosing

import anyio
import pytest

from unspool import llm
from unspool.kernel.errors import NetworkError, PartialStreamError
from unspool.kernel.ports import TextDelta
from unspool.kernel.reply import generate
from unspool.llm import OpenAIChatModel

from .conftest import LlamaServer
from .formats import ask


def chat(server: LlamaServer) -> OpenAIChatModel:
    return OpenAIChatModel("local/smollm2", base_url=server.base_url)


def test_leaving_early_frees_the_server(llama_server: LlamaServer) -> None:
    async def main() -> None:
        for _ in range(4):  # more than it has slots
            request = ask("Write a long story.", max_tokens=2000)
            async with aclosing(chat(llama_server).stream(request)) as stream:
                await anext(stream)
        assert (await generate(chat(llama_server), ask("Say hi."))).text

    anyio.run(main)


def test_two_at_once(llama_server: LlamaServer) -> None:
    found: list[str] = []

    async def one() -> None:
        found.append((await generate(chat(llama_server), ask("What is the capital of France?"))).text)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            tasks.start_soon(one)

    anyio.run(main)
    assert len(found) == 2 and all(found)


def test_a_server_that_dies_in_the_middle(own_llama_server: LlamaServer) -> None:
    async def main() -> None:
        seen = ""
        request = ask("Tell a story.", max_tokens=500)
        with pytest.raises(PartialStreamError) as caught:
            async with aclosing(chat(own_llama_server).stream(request)) as stream:
                async for event in stream:
                    seen += event.text if isinstance(event, TextDelta) else ""
                    if len(seen) > 20:
                        own_llama_server.kill()
        assert caught.value.text.startswith(seen[:20])
        with pytest.raises(NetworkError):
            await generate(chat(own_llama_server), ask("Are you there?"))

    anyio.run(main)


def test_a_server_that_never_answers_can_be_left(silent_server: str) -> None:
    async def main() -> bool:
        with anyio.move_on_after(0.2) as scope:
            await generate(llm.model("local/m", base_url=silent_server), ask("hi"))
        return scope.cancelled_caught

    assert anyio.run(main)
