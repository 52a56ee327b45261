"""The conformance kit for chat models: ``await check_model(make)``.

A model of your own passes in your tests with one line, on asyncio and on trio::

    await check_model(lambda: MyModel("acme/large", key=KEY), shapes=["plain", "tools"])

A real model costs time and money: each shape is one request, each of the checks ``early_close``,
``after_close``, ``cancel``, ``leaves_nothing`` and ``concurrent`` makes one to four more, at most two
with one instance. What is not wanted is left out by ``shapes`` and ``skip``.

Read with: ``conformance.py``, ``ports.py`` (``ChatModel``), ``reply.py`` (how a stream is folded).
"""

import base64
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple, get_args

import msgspec
from anyio.lowlevel import checkpoint

from .conformance import MOMENTS, Check, Kit, Ran, Running, attempt, living, must_be_callable, raised, shown
from .errors import BadRequestError, ModelError
from .messages import (
    FAILED_STOP_REASONS,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    Usage,
    assistant_message,
    tool_message,
    user_message,
)
from .ports import (
    BlockEvent,
    CallOptions,
    ChatModel,
    Clock,
    ModelRequest,
    StreamEnd,
    StreamEvent,
    SystemBlock,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolSpec,
)
from .reply import ReplyBuilder
from .transcript import Transcript

SHAPES = ("plain", "system", "options", "conversation", "tools", "tool_results", "thinking", "images")
_STOP_REASONS = ("stop", "length", "tool_use", "error", "safety", "aborted", "interrupted")
_EVENTS = get_args(StreamEvent)
_KINDS: dict[Any, str] = {
    TextDelta: "text",
    ThinkingDelta: "thinking",
    ToolCallDelta: "call",
    BlockEvent: "block",
}
_OVERLAP = 20  # rounds that a stream waits for another to begin


async def check_model(
    make: Callable[[], ChatModel | Awaitable[ChatModel]],
    *,
    shapes: Collection[str] = SHAPES,
    requests: Mapping[str, ModelRequest] | None = None,
    make_failing: Callable[[], ChatModel | Awaitable[ChatModel]] | None = None,
    clock: Clock | None = None,
    timeout_s: float = 120.0,
    grace_s: float = 5.0,
    skip: Collection[str] = (),
) -> None:
    """Check that a model keeps to the protocol ``ChatModel``, on the event loop that this is awaited on.

    ``make`` gives a model, sync or async; it is called for each use, so a scripted model needs two
    answers. ``shapes`` chooses the kit's requests; ``requests`` are more of your own, by name.
    ``make_failing`` gives a model whose calls fail (a wrong key, a dead server): that must be a
    ``ModelError``. ``timeout_s`` bounds one reply, ``grace_s`` the ending of a closed or cancelled
    stream, on ``clock``. ``skip`` names checks to leave out.

    The request ``plain`` must be answered. A feature that the model has not got it refuses with
    ``BadRequestError``.

    Raises:
        ConformanceError: lists each violation.
        TypeError: ``make`` is a model.
        ValueError: there is no such shape, or ``skip`` names no check.
    """
    __tracebackhide__ = True
    must_be_callable(make, ("stream", "supports_tools"), "check_model")
    if unknown := set(shapes) - set(SHAPES):
        raise ValueError(f"no such shape: {', '.join(sorted(unknown))}; there are {', '.join(SHAPES)}")
    kit = _ModelKit(make, clock, timeout_s, grace_s)
    kit.make_failing = make_failing
    kit.requests = {name: request for name, request in model_requests().items() if name in shapes}
    kit.requests.update(requests or {})
    await kit.carry_out(_CHECKS, skip)
    kit.conclude(f"model {kit.model_name!r}" if kit.model_name else "model")


class Played(NamedTuple):
    """A request that was made: its bytes before, the events that came, how it ended."""

    shape: str
    request: ModelRequest
    before: bytes
    events: list[Any]
    ran: Ran

    @property
    def answered(self) -> bool:
        return not self.ran.failure

    @property
    def end(self) -> StreamEnd | None:
        """The one end event; None where there is none."""
        ends = [event for event in self.events if type(event) is StreamEnd]
        return ends[0] if ends else None

    @property
    def reply(self) -> Message:
        builder = ReplyBuilder()
        for event in self.events:
            builder.add(event)
        return builder.message()


class _ModelKit(Kit):
    requests: dict[str, ModelRequest]
    make_failing: Callable[[], Any] | None = None
    model_name = ""
    _made: list[Played] | None = None

    async def play(self, model: ChatModel, shape: str, request: ModelRequest) -> Played:
        """Make one request and take all that comes."""
        events: list[Any] = []
        before = _bytes(request)
        ran = await self.run(_pull, model, request, events)
        return Played(shape, request, before, events, ran)

    async def plays(self) -> list[Played]:
        """Each request, made once, each of a fresh model."""
        if self._made is None:
            self._made = [
                await self.play(await self.fresh(), name, request) for name, request in self.requests.items()
            ]
        return self._made

    async def answers(self) -> list[Played]:
        return [played for played in await self.plays() if played.answered]

    # --- what it says of itself

    async def name(self) -> None:
        model = await self.fresh()
        ran = attempt(lambda: (model.name, model.name))
        names = ran.value or ("", "")
        self.model_name = str(names[0])
        parts = names[0].partition("/") if isinstance(names[0], str) else ("", "", "")
        if ran.failure or not (parts[0] and parts[2]) or names[0] != names[1]:
            got = ran.failure or shown(names[0])
            self.found("a name `provider/model`, always the same", got, "put the provider before a slash")

    async def supports_tools(self) -> None:
        model = await self.fresh()
        ran = attempt(lambda: model.supports_tools)
        if ran.failure or not isinstance(ran.value, bool):
            self.found("a bool as `supports_tools`", ran.failure or shown(ran.value), "make it a property")

    async def stream(self) -> None:
        model = await self.fresh()
        ran = attempt(lambda: model.stream(_plain("Say hello.")))
        stream = ran.value
        if not isinstance(stream, AsyncGenerator):
            if hasattr(stream, "close"):
                stream.close()  # a coroutine that nobody will await
            expected = "`stream(request)` gives an async generator at once"
            advice = "write `async def stream(self, request)` with `yield` in it; don't return an iterator"
            self.found(expected, ran.failure or shown(type(stream).__name__), advice)
            return
        closed = await self.run(stream.aclose)
        if closed.failure:
            self.found(
                "a stream that was not begun can be closed", closed.failure, "do nothing before `yield`"
            )

    # --- how its calls end

    async def answered(self) -> None:
        for played in await self.plays():
            if played.shape == "plain" and (played.ran.late or isinstance(played.ran.error, ModelError)):
                advice = "give check_model a model that can answer, or a longer `timeout_s`"
                self.found("the request `plain` is answered", played.ran.failure, advice)

    async def errors(self) -> None:
        plays = list(await self.plays())
        if self.make_failing is not None:
            failing = await self.fresh(self.make_failing)
            plays.append(await self.play(failing, "failing", _plain("Say hello.")))
            if plays[-1].answered:
                advice = "let `make_failing` give a model that cannot answer"
                self.found("the failing model raises a ModelError", shown(plays[-1].reply.text), advice)
        for played in plays:
            error = played.ran.error
            if error is not None and not isinstance(error, ModelError):
                expected = f"the request `{played.shape}` is answered, or a ModelError is raised"
                advice = "catch it in the adapter and raise the subclass of ModelError that fits"
                self.found(expected, raised(error), advice)

    async def refusal(self) -> None:
        for played in await self.plays():
            error = played.ran.error
            broke = isinstance(error, ModelError) and not isinstance(error, BadRequestError)
            if played.shape != "plain" and (broke or played.ran.late):
                expected = f"the request `{played.shape}` is answered, or refused with BadRequestError"
                advice = "raise BadRequestError for what the model can't do"
                self.found(expected, played.ran.failure, advice)

    async def request_unchanged(self) -> None:
        for played in await self.plays():
            if _bytes(played.request) != played.before:
                expected = f"the request `{played.shape}` stays as it was"
                got = shown(msgspec.json.decode(_bytes(played.request)))
                self.found(expected, got, "copy what you change: requests share their messages")

    # --- what its streams hold

    async def events(self) -> None:
        for played in await self.answers():
            for event in played.events:
                if wrong := _wrong_event(event):
                    expected = f"`{played.shape}`: stream events with fields of their types"
                    self.found_once(expected, wrong, "yield the structs of unspool.kernel.ports")

    async def end(self) -> None:
        for played in await self.answers():
            kinds = [type(event).__name__ for event in played.events]
            if kinds.count("StreamEnd") != 1 or kinds[-1] != "StreamEnd":
                expected = f"`{played.shape}`: exactly one StreamEnd, and nothing after it"
                got = f"the last events were {', '.join(kinds[-4:]) or 'none'}"
                advice = "yield StreamEnd last; raise PartialStreamError where the answer broke off"
                self.found(expected, f"{got}; {kinds.count('StreamEnd')} StreamEnd in all", advice)

    async def indexes(self) -> None:
        for played in await self.answers():
            kinds: dict[int, str] = {}
            for event in played.events:
                kind = _KINDS.get(type(event))
                if kind and kinds.setdefault(event.index, kind) != kind:
                    expected = f"`{played.shape}`: a block index is used for one kind of block"
                    got = f"index {event.index} for {kinds[event.index]}, then for {kind}"
                    self.found_once(expected, got, "count up the index with each block")
            if any(index < 0 for index in kinds):
                self.found(f"`{played.shape}`: indexes from 0", shown(min(kinds)), "count from 0")

    async def calls(self) -> None:
        for played in await self.answers():
            for got, advice in _wrong_calls(played):
                self.found(f"`{played.shape}`: tool calls that begin, end once and can be run", got, advice)

    async def stop_reason(self) -> None:
        for played in await self.answers():
            reason = played.end.stop_reason if played.end else ""
            if reason not in _STOP_REASONS:
                expected = f"`{played.shape}`: one of {', '.join(_STOP_REASONS)}"
                self.found(expected, shown(reason), "translate the provider's stop reason")

    async def usage(self) -> None:
        for played in await self.answers():
            usage = played.end.usage if played.end else Usage()
            numbers = {name: getattr(usage, name) for name in usage.__struct_fields__ if name != "cost"}
            wrong = [f"{name}={number}" for name, number in numbers.items() if number < 0]
            if usage.reasoning_tokens > usage.output_tokens:
                wrong.append(f"reasoning_tokens={usage.reasoning_tokens} of {usage.output_tokens}")
            if usage.cost is not None and min(msgspec.structs.astuple(usage.cost)) < 0:
                wrong.append(f"cost={usage.cost}")
            if wrong:
                expected = f"`{played.shape}`: no negative usage; output tokens contain the reasoning ones"
                self.found(expected, ", ".join(wrong), "leave what the provider does not tell at 0")

    async def reply(self) -> None:
        for played in await self.answers():
            reply = played.reply
            said = bool(reply.text.strip()) or any(
                not isinstance(block, Text | Thinking) for block in reply.content
            )
            if not said and reply.stop_reason not in (*FAILED_STOP_REASONS, "length"):
                expected = f"`{played.shape}`: a reply with text or calls"
                self.found(
                    expected, shown(reply.content), "yield what the provider sent, or raise a ModelError"
                )

    # --- how its streams are left

    async def early_close(self) -> None:
        await self._close_early(await self.fresh())

    async def _close_early(self, model: ChatModel) -> bool:
        """Close a stream after its first event; whether that went well."""
        closing = closed = False

        async def pull_one() -> None:
            nonlocal closing, closed
            stream = model.stream(_plain("Count to twenty."))
            await anext(stream, None)
            closing = True
            running.poke()
            await stream.aclose()
            closed = True

        running = self.start(pull_one)
        began = await running.wait(self.timeout_s, until=lambda: closing)
        ran = await self.result(running, self.grace_s) if began else Ran(late=True)
        if not closing or closed:
            return closed  # what went wrong before is told by other checks
        expected = f"`aclose()` after the first event returns within {self.grace_s:g} s"
        advice = "let GeneratorExit through, and don't read the answer to its end"
        self.found(expected, ran.failure, advice)
        return False

    async def after_close(self) -> None:
        model = await self.fresh()
        await self._close_early(model)
        played = await self.play(model, "plain", _plain("Say hello."))
        if played.end is None:
            expected = "a model answers after one of its streams was closed early"
            got = played.ran.failure or "a stream without StreamEnd"
            self.found(expected, got, "release what the stream holds in a `finally`")

    async def cancel(self) -> None:
        for moment in MOMENTS:
            model = await self.fresh()
            ran = await self.run_cancelled(partial(_pull, model, _plain("Count to twenty."), []), moment)
            if ran is not None and ran.late:
                expected = f"a stream that is cancelled ends within {self.grace_s:g} s"
                self.found_once(expected, "it goes on", "let the cancellation through")

    async def leaves_nothing(self) -> None:
        model = await self.fresh()
        await self.play(model, "plain", _plain("Say hello."))  # what is shared between calls exists now
        before = living()
        await self._close_early(model)
        if left := await self.left_since(before):
            expected = "no task is left when a stream is closed"
            advice = "end the tasks of a stream in its `finally`, and await them there"
            self.found(expected, f"still running: {', '.join(left)}", advice)

    async def concurrent(self) -> None:
        apart = await self._apart()
        beside = await self._beside()
        advice = "keep the state of a stream in the generator, not on the model"
        for played in beside:
            if played.ran.failure or played.end is None:
                got = played.ran.failure or "a stream without StreamEnd"
                self.found_once("two streams of one model at the same time both end", got, advice)
                return
        if _said(beside) != _said(apart) and _said(apart) == _said(await self._apart()):
            expected = f"two streams at the same time say what they say one after the other: {_said(apart)}"
            self.found(expected, shown(_said(beside)), advice)

    async def _apart(self) -> list[Played]:
        model = await self.fresh()
        return [await self.play(model, name, _plain(f"Say {name}.")) for name in ("apple", "pear")]

    async def _beside(self) -> list[Played]:
        """Two streams at the same time; the second begins with the first event of the first."""
        model = await self.fresh()
        requests = [_plain("Say apple."), _plain("Say pear.")]
        events: list[list[Any]] = [[], []]
        second: list[Running] = []

        async def first_stream() -> None:
            async for event in _stepwise(model, requests[0], events[0]):
                if not second and event is not None:
                    second.append(self.start(second_stream))
                    for _ in range(_OVERLAP):
                        if events[1] or second[0].ran is not None:
                            break
                        await checkpoint()

        async def second_stream() -> None:
            async for _ in _stepwise(model, requests[1], events[1]):
                pass

        befores = [_bytes(request) for request in requests]
        ran = [await self.run(first_stream)]
        ran.append(await self.result(second[0]) if second else Ran())
        return [Played("concurrent", *whole) for whole in zip(requests, befores, events, ran, strict=True)]


_CHECKS: tuple[Check[_ModelKit], ...] = (
    Check("name", _ModelKit.name),
    Check("supports_tools", _ModelKit.supports_tools),
    Check("stream", _ModelKit.stream),
    Check("answered", _ModelKit.answered, ("stream",)),
    Check("errors", _ModelKit.errors, ("stream",)),
    Check("refusal", _ModelKit.refusal, ("stream", "answered")),
    Check("request_unchanged", _ModelKit.request_unchanged, ("stream",)),
    Check("events", _ModelKit.events, ("stream",)),
    Check("end", _ModelKit.end, ("events",)),
    Check("indexes", _ModelKit.indexes, ("events",)),
    Check("calls", _ModelKit.calls, ("events", "end", "indexes")),
    Check("stop_reason", _ModelKit.stop_reason, ("end",)),
    Check("usage", _ModelKit.usage, ("end",)),
    Check("reply", _ModelKit.reply, ("end", "indexes")),
    Check("early_close", _ModelKit.early_close, ("answered", "errors")),
    Check("after_close", _ModelKit.after_close, ("early_close", "end")),
    Check("cancel", _ModelKit.cancel, ("answered", "errors")),
    Check("leaves_nothing", _ModelKit.leaves_nothing, ("early_close", "cancel")),
    Check("concurrent", _ModelKit.concurrent, ("answered", "errors", "end", "indexes", "calls")),
)


async def _pull(model: ChatModel, request: ModelRequest, events: list[Any]) -> None:
    async with aclosing(model.stream(request)) as stream:
        async for event in stream:
            events.append(event)


async def _stepwise(model: ChatModel, request: ModelRequest, events: list[Any]) -> AsyncGenerator[Any, None]:
    """The events, each followed by a step of whatever else there is."""
    async with aclosing(model.stream(request)) as stream:
        async for event in stream:
            events.append(event)
            yield event
            await checkpoint()


def _wrong_event(event: object) -> str:
    """What is wrong with an event; empty when nothing is."""
    if type(event) not in _EVENTS:
        return shown(event)
    checked = msgspec.structs.replace(event, metadata={}) if isinstance(event, StreamEnd) else event
    ran = attempt(lambda: msgspec.convert(msgspec.to_builtins(checked), type(event)))
    return "" if ran.error is None else f"{shown(event)} ({raised(ran.error)})"


def _wrong_calls(played: Played) -> Iterator[tuple[str, str]]:
    """What is wrong with the calls of a stream, and what to do about it."""
    begun: set[int] = set()
    ended: set[int] = set()
    for event in played.events:
        if type(event) is ToolCallDelta:
            if event.index in ended:
                yield f"more of call {event.index} after its end", "yield ToolCallEnd when a call is whole"
            begun.add(event.index)
        elif type(event) is ToolCallEnd:
            if event.index not in begun or event.index in ended:
                what = "again" if event.index in ended else "of a call that did not begin"
                yield f"ToolCallEnd({event.index}) {what}", "yield ToolCallEnd once for each call"
            ended.add(event.index)
    calls = [call for call in played.reply.tool_calls if call.completed]
    for call in calls:
        if not (call.id and call.name):
            yield f"a call without an id or a name: {shown(call)}", "make up an id where none came"
    if len({call.id for call in calls}) < len(calls):
        yield f"ids used twice: {[call.id for call in calls]}", "make up ids that differ"
    if played.end and played.end.stop_reason == "tool_use" and not calls:
        yield "stop reason tool_use without a completed call", "yield ToolCallEnd when a call is whole"


def _said(plays: Sequence[Played]) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Text and calls of replies, without what differs from call to call."""
    replies = [played.reply for played in plays]
    return [(reply.text, [(call.name, call.args) for call in reply.tool_calls]) for reply in replies]


def _bytes(request: ModelRequest) -> bytes:
    """What a request holds, for comparing."""
    return msgspec.json.encode((list(request.messages), request.system, request.tools, request.options))


# --- requests ------------------------------------------------------------------------------------


def _request(*messages: Message, **fields: Any) -> ModelRequest:
    """A request whose messages are what the kernel gives: immutable, and no list."""
    numbered = [msgspec.structs.replace(m, id=f"m{n}", timestamp=float(n)) for n, m in enumerate(messages, 1)]
    return ModelRequest(messages=Transcript(numbered), **fields)


def _plain(text: str) -> ModelRequest:
    return _request(user_message(text))


def _tools() -> tuple[ToolSpec, ...]:
    """Tools, made anew: a model that changes them shall not spoil them for the next kit."""
    weather = {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "name of the city"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    return (
        ToolSpec(name="get_weather", description="The weather in a city.", schema=weather),
        ToolSpec(name="ping", description="Says pong.", schema={"type": "object", "properties": {}}),
    )


def model_requests() -> dict[str, ModelRequest]:
    """The kit's requests by shape, the least first."""
    paris = ToolCall(id="call_1", name="get_weather", args={"city": "Paris"})
    rome = ToolCall(id="call_2", name="get_weather", args={"city": "Rome"})
    hello = user_message("Say hello.")
    picture = Image(data=base64.b64encode(_png()).decode(), mime_type="image/png")
    return {
        "plain": _request(hello),
        "system": _request(hello, system=(SystemBlock(text="Be brief."), SystemBlock(text="Be kind."))),
        "options": _request(hello, options=CallOptions(max_tokens=256, temperature=0.0, stop=("###",))),
        "conversation": _request(hello, assistant_message("Hello!"), user_message("Say goodbye.")),
        "tools": _request(user_message("What is the weather in Paris?"), tools=_tools()),
        "tool_results": _request(
            user_message("What is the weather in Paris and Rome?"),
            assistant_message("I look.", paris, rome),
            tool_message(paris, "sunny, 20 °C"),
            tool_message(rome, "no such city", is_error=True),
            tools=_tools(),
        ),
        "thinking": _request(
            hello,
            Message(
                role="assistant",
                content=(Thinking(text="A greeting is asked for."), Text("Hello!")),
                stop_reason="stop",
            ),
            user_message("Say goodbye."),
        ),
        "images": _request(
            Message(role="user", content=(Text("What colour is this?"), picture)),
        ),
    }


def _png() -> bytes:
    """A red square of 32 pixels: some models refuse smaller images."""
    side = 32

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return len(data).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    size = side.to_bytes(4, "big")
    rows = (b"\0" + b"\xff\0\0" * side) * side
    header = size + size + b"\x08\x02\0\0\0"  # 8 bits, RGB
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
