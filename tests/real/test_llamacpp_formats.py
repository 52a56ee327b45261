"""Real answers over each wire format that a llama.cpp server speaks: chat, Responses and Anthropic Messages.

What the very small model says is often wrong; that it streams, calls, counts, stops and refuses as the decoders
expect is what is tested. Where the server itself falls short of a format, the test says so and is expected to
fail: it will tell when the server has learned.
"""

from collections.abc import Sequence
from contextlib import aclosing

import anyio
import pydantic
import pytest

from unspool import Agent, CallOptions, Limits, assistant_message, tool, user_message
from unspool.kernel import (
    AgentContext,
    AgentMessage,
    Compaction,
    ContextCompacted,
    ContextScope,
    Edit,
    LoopConfig,
    ModelResponse,
    PassThrough,
    agent_loop,
)
from unspool.kernel.errors import BadRequestError, ContextOverflowError, ModelError
from unspool.kernel.messages import Message
from unspool.kernel.ports import ModelRequest, StreamEnd, StreamEvent, TextDelta, ToolCallDelta, ToolSpec
from unspool.kernel.reply import ReplyBuilder, generate
from unspool.llm.http_model import HttpModel
from unspool.trajectory.memory import MemoryLog

from .conftest import LlamaServer
from .formats import ask, model_of

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
ONCE = Limits(length_recoveries=0)  # a small model goes on and on
SHORT = CallOptions(temperature=0.0, max_tokens=60)
FORMATS = ("openai-chat", "openai-responses", "anthropic-messages")
NEVER_CUT = (
    "llama.cpp's Responses says completed of an answer that max_output_tokens cut, and gives no reason"
)
NO_SCHEMA = "llama.cpp takes a schema from the response_format of chat: not from text.format or output_config"

WEATHER = ToolSpec(
    name="get_weather",
    description="The weather in a city.",
    schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "capital": {"type": "boolean"}},
    "required": ["city", "capital"],
    "additionalProperties": False,
}


class City(pydantic.BaseModel, extra="forbid", strict=True):
    """What fits the schema ``CITY``."""

    city: str = pydantic.Field(max_length=20)
    capital: bool


def lacking(*formats: str, reason: str) -> pytest.MarkDecorator:
    """Over each format; with these the server falls short of what the test demands."""
    gap = pytest.mark.xfail(reason=reason, raises=(AssertionError, pydantic.ValidationError))
    params = [pytest.param(name, marks=[gap] if name in formats else []) for name in FORMATS]
    return pytest.mark.parametrize("model", params, indirect=True)


@pytest.fixture(params=FORMATS)
def model(llama_server: LlamaServer, request: pytest.FixtureRequest) -> HttpModel:
    return model_of(request.param, "local/smollm2", llama_server.base_url)


@pytest.fixture(params=["streamed", "whole"])
def either(llama_server: LlamaServer, model: HttpModel, request: pytest.FixtureRequest) -> HttpModel:
    """A model of each format, once with streamed answers and once with whole ones."""
    streaming = request.param == "streamed"
    return model_of(model.format, "local/smollm2", llama_server.base_url, streaming=streaming)


def collect(
    model: HttpModel, request: ModelRequest, backend: str = "asyncio"
) -> tuple[list[StreamEvent], Message]:
    """The events of an answer, and the message they fold into."""

    async def main() -> tuple[list[StreamEvent], Message]:
        builder, events = ReplyBuilder(), []
        async with aclosing(model.stream(request)) as stream:
            async for event in stream:
                builder.add(event)
                events.append(event)
        return events, builder.message()

    return anyio.run(main, backend=backend)


def reply(model: HttpModel, request: ModelRequest) -> Message:
    return collect(model, request)[1]


def failure(model: HttpModel, request: ModelRequest) -> ModelError:
    with pytest.raises(ModelError) as caught:
        anyio.run(generate, model, request)
    return caught.value


def about_paris(max_tokens: int) -> ModelRequest:
    return ModelRequest(
        messages=[user_message("What is the weather in Paris?")],
        tools=(WEATHER,),
        options=CallOptions(temperature=0.0, max_tokens=max_tokens),
    )


def test_text_with_its_usage(either: HttpModel) -> None:
    found = reply(either, ask("What is the capital of France?"))
    assert "Paris" in found.text
    assert found.stop_reason == "stop"
    assert found.usage is not None
    assert found.usage.context_tokens > 10
    assert 0 < found.usage.output_tokens <= 40


@BACKENDS
def test_text_streams(model: HttpModel, backend: str) -> None:
    events, found = collect(model, ask("Count from one to ten."), backend)
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 5 and "".join(deltas) == found.text
    assert isinstance(events[-1], StreamEnd)


def test_a_call_streams(model: HttpModel) -> None:
    events, found = collect(model, about_paris(max_tokens=60))
    [call] = found.tool_calls
    assert (call.name, call.args, call.completed) == ("get_weather", {"city": "Paris"}, True)
    assert found.stop_reason == "tool_use" and call.id
    assert len([event for event in events if isinstance(event, ToolCallDelta)]) > 2


@BACKENDS
def test_an_agent_with_a_tool_to_its_end(model: HttpModel, backend: str) -> None:
    cities: list[str] = []

    @tool
    async def get_weather(city: str) -> str:
        """The weather in a city."""
        cities.append(city)
        return f"7 C and raining in {city}"

    async def main() -> None:
        agent = Agent(model, tools=[get_weather], options=SHORT, limits=ONCE)
        result = await agent.run("What is the weather in Paris?")
        assert (result.end_reason, cities) == ("stop", ["Paris"])
        assert "7" in result.text
        again = await agent.run("And what is the weather in Oslo?")
        assert (again.end_reason, cities) == ("stop", ["Paris", "Oslo"])

    anyio.run(main, backend=backend)


def test_a_loop_with_a_tool_to_its_end(either: HttpModel) -> None:
    @tool
    async def get_weather(city: str) -> str:
        """The weather in a city."""
        return f"7 C and raining in {city}"

    async def main() -> None:
        config = LoopConfig(model=either, options=SHORT, limits=Limits(turns=4, length_recoveries=0))
        context = AgentContext(tools=[get_weather])
        result = await agent_loop("What is the weather in Paris?", context, config).result()
        assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
        assert result.end_reason == "stop" and "7" in result.text

    anyio.run(main)


@lacking("openai-responses", reason=NEVER_CUT)
def test_the_output_limit_is_the_stop_reason(either: HttpModel) -> None:
    assert reply(either, ask("Write a long story.", max_tokens=5)).stop_reason == "length"


def test_the_output_limit_holds(either: HttpModel) -> None:
    found = reply(either, ask("Write a long story.", max_tokens=5))
    assert found.usage is not None and found.usage.output_tokens == 5
    assert found.text


@lacking("openai-responses", reason=NEVER_CUT)
def test_a_call_cut_by_the_limit_is_not_complete(model: HttpModel) -> None:
    found = reply(model, about_paris(max_tokens=12))
    assert found.stop_reason == "length"
    assert [(call.name, call.completed) for call in found.tool_calls] == [("get_weather", False)]


def test_a_call_cut_by_the_limit_does_not_run(either: HttpModel) -> None:
    cities: list[str] = []

    @tool
    async def get_weather(city: str) -> str:
        """The weather in a city."""
        cities.append(city)
        return "sunny"

    async def main() -> None:
        options = CallOptions(temperature=0.0, max_tokens=12)
        limits = Limits(turns=2, length_recoveries=0)
        agent = Agent(either, tools=[get_weather], options=options, limits=limits)
        result = await agent.run("What is the weather in Paris?")
        assert result.usage.output_tokens >= 12

    anyio.run(main)
    assert cities == []


@lacking("openai-responses", "anthropic-messages", reason=NO_SCHEMA)
def test_json_of_a_schema(either: HttpModel) -> None:
    wanted = {"type": "json_schema", "name": "city", "schema": CITY, "strict": True}
    found = reply(either, ask("Describe Paris as JSON.", response_format=wanted, max_tokens=100))
    City.model_validate_json(found.text)


@pytest.mark.parametrize("model", ["openai-chat", "openai-responses"], indirect=True)
def test_an_answer_of_a_type(either: HttpModel) -> None:
    """llama.cpp's Responses holds the model to a schema where it is given as chat gives it."""
    wanted = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
    extra = {} if either.format == "openai-chat" else {"response_format": wanted}

    async def main() -> None:
        options = CallOptions(temperature=0.0, max_tokens=100, extra=extra)
        result = await Agent(either, output=City, options=options).run("Describe Paris as JSON.")
        assert (result.end_reason, type(result.output)) == ("stop", City)
        assert [message.role for message in result.messages] == ["user", "assistant"]

    anyio.run(main)


@pytest.mark.parametrize("model", ["openai-responses", "anthropic-messages"], indirect=True)
def test_what_is_not_of_the_type_is_no_success(either: HttpModel) -> None:
    """Where the server does not hold the model to the schema, the agent does: it asks again, then gives up."""

    async def main() -> None:
        agent = Agent(either, output=City, options=SHORT, limits=ONCE)
        result = await agent.run("Say hi.")
        assert result.end_reason == "stop_guard"
        assert not isinstance(result.output, City)
        assert sum(message.role == "assistant" for message in result.messages) == 3

    anyio.run(main)


def test_an_overflow(either: HttpModel, llama_server: LlamaServer) -> None:
    error = failure(either, ask("word " * (llama_server.context_tokens + 500)))
    assert isinstance(error, ContextOverflowError)


@BACKENDS
def test_an_overflow_is_healed(model: HttpModel, llama_server: LlamaServer, backend: str) -> None:
    log = MemoryLog()
    history = [
        user_message("word " * (llama_server.context_tokens + 500)),
        assistant_message("So many words."),
    ]

    async def main() -> None:
        agent = Agent(model, context=Summary(), options=SHORT, limits=ONCE, messages=history, log=log)
        result = await agent.run("What is the capital of France?")
        assert (result.error, "Paris" in result.text) == ("", True)

    anyio.run(main, backend=backend)
    responses = [fact for fact in log.facts if isinstance(fact, ModelResponse)]
    kinds = [response.error_kind for response in responses if response.error_kind != "network"]
    assert kinds == [
        "context_overflow",
        "",
        "",
    ]  # the server drops some connections after a stream, unannounced
    [compacted] = [fact for fact in log.facts if isinstance(fact, ContextCompacted)]
    assert (compacted.committed, compacted.reason, compacted.messages_after) == (True, "overflow", 2)


class Summary(PassThrough):
    """Puts the model's own summary in the place of all that came before the newest question."""

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope, /) -> Compaction:
        first = view[0]
        said = await scope.call_model(
            ask(f"In one sentence, what is this about? {first.text[:50]}"), "compaction"
        )
        edits = [Edit(start=0, stop=len(view) - 1, messages=[user_message(said.text)])]
        return Compaction(changed=True, commit=True, edits=edits)


def test_a_bad_request(either: HttpModel) -> None:
    error = failure(either, ask("hi", extra={"temperature": "warm"}))
    assert isinstance(error, BadRequestError)
    assert "temperature" in str(error)


@BACKENDS
def test_an_abort_in_the_answer_and_what_follows(model: HttpModel, backend: str) -> None:
    async def main() -> None:
        agent = Agent(model, options=CallOptions(max_tokens=400), limits=ONCE)
        async with agent:
            begun = anyio.Event()
            agent.subscribe(lambda event: begun.set() if agent.live.text else None)
            agent.prompt("Count from one to one hundred in words.")
            await begun.wait()
            agent.abort(reason="enough")
            await agent.wait_idle()
        assert agent.state.end_reason == "aborted"
        agent.configure(options=CallOptions(max_tokens=30))
        result = await agent.run("Say hi.")
        assert result.end_reason == "stop" and result.text

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic-messages"])  # Responses has none
def test_a_stop_sequence(llama_server: LlamaServer, format_name: str) -> None:
    model = model_of(format_name, "local/smollm2", llama_server.base_url)
    found = reply(model, ask("What is the capital of France?", stop=("Paris",)))
    assert "Paris" not in found.text
    assert found.stop_reason == "stop"
