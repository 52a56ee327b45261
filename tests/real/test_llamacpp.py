"""The model layer against a real llama.cpp server with a real, very small model.

What it says is often wrong; that it streams, calls, counts, stops and refuses as the decoder
expects is what is tested.
"""

import json
from contextlib import aclosing
from typing import Any

import anyio
import pytest

from unspool.kernel.errors import (
    BadRequestError,
    ContextOverflowError,
    ModelError,
    NetworkError,
    PartialStreamError,
)
from unspool.kernel.messages import Message, assistant_message, tool_message, user_message
from unspool.kernel.ports import CallOptions, ModelRequest, StreamEvent, TextDelta, ToolCallDelta, ToolSpec
from unspool.kernel.reply import ReplyBuilder, generate
from unspool.llm import OpenAIChatModel, resolve_model

from .conftest import LlamaServer

WEATHER = ToolSpec(
    name="get_weather",
    description="The weather in a city.",
    schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def ask(text: str, **options: Any) -> ModelRequest:
    return ModelRequest(
        messages=[user_message(text)],
        options=CallOptions(**{"temperature": 0.0, "max_tokens": 40, **options}),
    )


def model(server: LlamaServer) -> OpenAIChatModel:
    return OpenAIChatModel("local/smollm2", base_url=server.base_url)


def reply(server: LlamaServer, request: ModelRequest, backend: str = "asyncio") -> Message:
    return anyio.run(generate, model(server), request, backend=backend)


def failure(server: LlamaServer, request: ModelRequest) -> ModelError:
    with pytest.raises(ModelError) as caught:
        reply(server, request)
    return caught.value


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_text_and_usage(llama_server: LlamaServer, backend: str) -> None:
    found = reply(llama_server, ask("What is the capital of France?"), backend)
    assert "Paris" in found.text
    assert found.stop_reason == "stop"
    assert found.usage is not None
    assert found.usage.context_tokens > 10
    assert 0 < found.usage.output_tokens <= 40


def test_text_streams(llama_server: LlamaServer) -> None:
    async def main() -> list[StreamEvent]:
        return [event async for event in model(llama_server).stream(ask("Count from one to ten."))]

    events = anyio.run(main)
    assert len([event for event in events if isinstance(event, TextDelta)]) > 5


def test_the_output_limit(llama_server: LlamaServer) -> None:
    found = reply(llama_server, ask("Write a long story.", max_tokens=5))
    assert found.stop_reason == "length"
    assert found.usage is not None and found.usage.output_tokens == 5


def test_a_stop_sequence(llama_server: LlamaServer) -> None:
    found = reply(llama_server, ask("What is the capital of France?", stop=("Paris",)))
    assert "Paris" not in found.text
    assert found.stop_reason == "stop"


def test_a_tool_call_and_its_result(llama_server: LlamaServer) -> None:
    question = user_message("What is the weather in Paris?")
    options = CallOptions(temperature=0.0, max_tokens=60)

    async def main() -> tuple[list[StreamEvent], Message]:
        request = ModelRequest(messages=[question], tools=(WEATHER,), options=options)
        return await collect(model(llama_server), request)

    events, found = anyio.run(main)
    [call] = found.tool_calls
    assert (call.name, call.args, call.completed) == ("get_weather", {"city": "Paris"}, True)
    assert call.id
    assert found.stop_reason == "tool_use"
    assert len([event for event in events if isinstance(event, ToolCallDelta)]) > 2
    transcript = [question, assistant_message("", call), tool_message(call, "7 C, rain")]
    answer = reply(llama_server, ModelRequest(messages=transcript, tools=(WEATHER,), options=options))
    assert "7" in answer.text
    assert not answer.has_tool_calls


def test_a_call_cut_by_the_limit_is_not_complete(llama_server: LlamaServer) -> None:
    request = ModelRequest(
        messages=[user_message("What is the weather in Paris?")],
        tools=(WEATHER,),
        options=CallOptions(temperature=0.0, max_tokens=12),
    )
    found = reply(llama_server, request)
    assert found.stop_reason == "length"
    assert [(call.name, call.completed) for call in found.tool_calls] == [("get_weather", False)]


def test_json_of_a_schema(llama_server: LlamaServer) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "capital": {"type": "boolean"}},
        "required": ["city", "capital"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "name": "city", "schema": schema, "strict": True}
    found = reply(llama_server, ask("Describe Paris as JSON.", response_format=wanted, max_tokens=100))
    assert json.loads(found.text).keys() == {"city", "capital"}


def test_an_overflow(llama_server: LlamaServer) -> None:
    error = failure(llama_server, ask("word " * (llama_server.context_tokens + 500)))
    assert isinstance(error, ContextOverflowError)


def test_a_bad_request(llama_server: LlamaServer) -> None:
    error = failure(llama_server, ask("hi", extra={"messages": "none"}))
    assert isinstance(error, BadRequestError)
    assert "messages" in str(error)


def test_leaving_early_frees_the_server(llama_server: LlamaServer) -> None:
    async def main() -> None:
        for _ in range(4):  # more than it has slots
            async with aclosing(
                model(llama_server).stream(ask("Write a long story.", max_tokens=2000))
            ) as stream:
                await anext(stream)
        assert (await generate(model(llama_server), ask("Say hi."))).text

    anyio.run(main)


def test_two_at_once(llama_server: LlamaServer) -> None:
    found: list[str] = []

    async def one() -> None:
        found.append((await generate(model(llama_server), ask("What is the capital of France?"))).text)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            tasks.start_soon(one)

    anyio.run(main)
    assert len(found) == 2 and all(found)


def test_a_server_that_dies_in_the_middle(own_llama_server: LlamaServer) -> None:
    async def main() -> None:
        seen = ""
        with pytest.raises(PartialStreamError) as caught:
            async with aclosing(
                model(own_llama_server).stream(ask("Tell a story.", max_tokens=500))
            ) as stream:
                async for event in stream:
                    seen += event.text if isinstance(event, TextDelta) else ""
                    if len(seen) > 20:
                        own_llama_server.kill()
        assert caught.value.text.startswith(seen[:20])
        with pytest.raises(NetworkError):
            await generate(model(own_llama_server), ask("Are you there?"))

    anyio.run(main)


def test_a_server_that_never_answers_can_be_left(silent_server: str) -> None:
    async def main() -> bool:
        with anyio.move_on_after(0.2) as scope:
            await generate(resolve_model("local/m", base_url=silent_server), ask("hi"))
        return scope.cancelled_caught

    assert anyio.run(main)


async def collect(chat: OpenAIChatModel, request: ModelRequest) -> tuple[list[StreamEvent], Message]:
    builder, events = ReplyBuilder(), []
    async for event in chat.stream(request):
        builder.add(event)
        events.append(event)
    return events, builder.message()
