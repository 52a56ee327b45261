"""The conformance kit for context managers: ``await check_context(make)``.

A context manager of your own passes in your tests with one line, on asyncio and on trio::

    await check_context(lambda: Newest(window=2_000))

The kit's views: one message, a chat, calls and results, failed replies, an application's messages,
thousands of messages, thousands of them in one turn. Give the manager a window that the long ones
exceed, or its strategies have nothing to do.

Read with: ``conformance.py``, ``ports.py`` (``ContextManager``), ``sequence.py`` (the pairing rules).
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .conformance import Check, Kit, Ran, attempt, must_be_callable, shown
from .edits import edited
from .errors import OverloadedError
from .messages import (
    AgentMessage,
    Message,
    Reduced,
    Text,
    ToolCall,
    Usage,
    assistant_message,
    tool_message,
    user_message,
)
from .ports import (
    CallOptions,
    ChatModel,
    Clock,
    Compaction,
    ContextManager,
    ContextSnapshot,
    ContextUsage,
    Edit,
    ModelRequest,
    Projection,
    StreamEvent,
    SystemBlock,
    ToolSpec,
)
from .sequence import to_messages, validate_message_sequence
from .transcript import Transcript

View = Sequence[AgentMessage]
_EXTENSIONS = 8
_MAX_COMMITS = 4
_SUMMARY = "The user asked for things and the assistant did them."
_OTHER = "something else altogether"


async def check_context(
    make: Callable[[], ContextManager | Awaitable[ContextManager]],
    *,
    views: Mapping[str, View] | None = None,
    long: int = 2000,
    summary: str = _SUMMARY,
    clock: Clock | None = None,
    timeout_s: float = 60.0,
    grace_s: float = 5.0,
    skip: Collection[str] = (),
) -> None:
    """Check that a context manager keeps to the protocol, on the event loop that this is awaited on.

    ``make`` gives a context manager, sync or async, once for each use. ``views`` are more views of
    your own, by name, each ending with a user message or a tool result. ``long`` is how many messages
    the long ones hold. ``summary`` is what the model answers that its strategies call. ``timeout_s``
    bounds one projection or compaction, on ``clock``. ``skip`` names checks to leave out.

    Raises:
        ConformanceError: lists each violation.
        TypeError: ``make`` is a context manager.
        ValueError: ``skip`` names no check.
    """
    __tracebackhide__ = True
    must_be_callable(make, ("project", "compact", "sync"), "check_context")
    kit = _ContextKit(make, clock, timeout_s, grace_s)
    kit.views = {**context_views(long), **(views or {})}
    kit.scope = _Scope(summary)
    await kit.carry_out(_CHECKS, skip)
    kit.conclude("context manager")


class _Model:
    """The model of the kit, which is asked through the scope only."""

    name = "test/model"
    supports_tools = True

    def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        raise NotImplementedError("call_model is how a context manager asks a model")


class _Scope:
    """The scope of the kit; remembers what the model was asked."""

    model = _Model()
    window = 0
    system = (SystemBlock(text="You are helpful."),)
    tools: tuple[ToolSpec, ...] = ()
    options = CallOptions()
    sent_as_shown = True
    instructions = ""

    def __init__(self, summary: str) -> None:
        self._summary = summary
        self.asked: list[tuple[Any, Any]] = []

    async def call_model(
        self, request: ModelRequest, purpose: str, /, *, model: ChatModel | None = None
    ) -> Message:
        self.asked.append((request, purpose))
        return assistant_message(self._summary, usage=Usage(input_tokens=100, output_tokens=10))

    def announce(self, reason: str, plan: str = "", /) -> None:
        """Nobody listens."""

    def warn(self, message: str, /, **details: Any) -> None:
        """Nobody listens."""


class _Unavailable(_Scope):
    """One whose model is down."""

    async def call_model(
        self, request: ModelRequest, purpose: str, /, *, model: ChatModel | None = None
    ) -> Message:
        raise OverloadedError("provider: no capacity")


class _Projected(NamedTuple):
    """A projection that was made of the view ``name``."""

    name: str
    view: View
    before: bytes
    ran: Ran
    transcript: View  # after what was committed

    @property
    def lowered(self) -> list[Message]:
        return to_messages(self.ran.value.messages)


class _ContextKit(Kit):
    views: Mapping[str, View]
    scope: _Scope
    _made: list[_Projected] | None = None

    async def project(
        self, manager: ContextManager, name: str, view: View, scope: _Scope | None = None
    ) -> _Projected:
        """A projection; what it commits is committed, and it is asked again, as the kernel does."""
        before, shown = _bytes(view), view
        for _ in range(_MAX_COMMITS):
            ran = await self.run(manager.project, shown, scope or self.scope)
            rewrite = None if ran.failure else getattr(ran.value, "compaction", None)
            if not isinstance(rewrite, Compaction) or not (rewrite.changed and rewrite.commit):
                return _Projected(name, view, before, ran, shown)
            if wrong := _wrong_compaction(rewrite, shown):
                return _Projected(name, view, before, Ran(error=ValueError(wrong)), shown)
            shown = _committed(shown, rewrite)
        endless = ValueError("it commits one rewrite after the other")
        return _Projected(name, view, before, Ran(error=endless), shown)

    async def projections(self) -> list[_Projected]:
        """A projection of each view, made once, each by a fresh manager."""
        if self._made is None:
            self._made = [
                await self.project(await self.fresh(), name, view) for name, view in self.views.items()
            ]
        return self._made

    # --- each projection by itself

    async def projection(self) -> None:
        for made in await self.projections():
            if wrong := made.ran.failure or _wrong_projection(made.ran.value):
                self.found(f"`{made.name}`: a Projection", wrong, "return Projection(messages=…, tokens=…)")

    async def not_empty(self) -> None:
        for made in await self.projections():
            if not made.lowered:
                expected = f"`{made.name}`: something for the model to see"
                self.found(expected, "no message is left when lowered", "keep the newest messages always")

    async def pairs(self) -> None:
        for made in await self.projections():
            self._pairs(f"`{made.name}`", made.lowered)

    def _pairs(self, what: str, lowered: Sequence[Message]) -> None:
        if issues := validate_message_sequence(lowered):
            expected = f"{what}: each call with its results, and each result with its call"
            listed = "; ".join(f"message {i.index}: {i.kind} {i.call_id!r}" for i in issues[:5])
            self.found(expected, listed, "keep or drop a call and its results together")

    async def newest_user(self) -> None:
        for made in await self.projections():
            self._newest_user(f"`{made.name}`", made.view, made.lowered)

    def _newest_user(self, what: str, view: View, lowered: Sequence[Message]) -> None:
        newest = next((m.text for m in reversed(to_messages(view)) if m.role == "user"), "")
        if not any(m.role == "user" and newest in m.text for m in lowered):
            expected = f"{what}: the newest user message is there: {newest!r}"
            texts = [message.text for message in lowered if message.role == "user"]
            self.found(expected, f"user messages {shown(texts)}", "never drop the newest user message")

    async def ending(self) -> None:
        for made in await self.projections():
            lowered, wanted = made.lowered, to_messages(made.view)[-1]
            kept = any((m.role, m.tool_call_id) == (wanted.role, wanted.tool_call_id) for m in lowered)
            if not kept or lowered[-1].role not in ("user", "tool"):
                expected = f"`{made.name}`: {_name(wanted)} is there, and what a model can answer ends it"
                self.found(
                    expected, f"it ends with {_name(lowered[-1])}", "keep the end of the turn under way"
                )

    async def view_unchanged(self) -> None:
        for made in await self.projections():
            self._unchanged(f"`{made.name}`", made.view, made.before)
        given = list(self.views["tools"])  # a list can be changed in place
        before = _bytes(given)
        await self.project(await self.fresh(), "tools", given)
        self._unchanged("a list of messages", given, before)

    def _unchanged(self, what: str, view: View, before: bytes) -> None:
        if _bytes(view) != before:
            expected = f"{what}: the view and its messages stay as they were"
            self.found_once(expected, "they were changed", "make new lists, and new messages with replace()")

    # --- several projections of one manager

    async def stable(self) -> None:
        for name, view in self.views.items():
            manager = await self.fresh()
            first = await self.project(manager, name, view)
            second = await self.project(manager, name, first.transcript)
            if second.ran.failure or _plain(first) != _plain(second):
                expected = f"`{name}`: the same projection of the same view"
                got = second.ran.failure or _difference(first.lowered, second.lowered)
                self.found(expected, got, "remember what was decided, and decide by the view alone")

    async def prefix(self) -> None:
        manager = await self.fresh()
        view: list[AgentMessage] = list(self.views["chat"])
        first = await self.project(manager, "chat", _frozen(view))
        last, view = first.lowered, list(first.transcript)
        held, difference = 0, ""
        for number in range(_EXTENSIONS):
            if number % 2:
                view.append(_numbered(assistant_message(f"Done, number {number}."), len(view)))
            view.append(_numbered(user_message(f"And one more thing, number {number}."), len(view)))
            made = await self.project(manager, "chat", _frozen(view))
            if made.ran.failure:
                self.found("a view that grew can be projected", made.ran.failure, "see `projection`")
                return
            held += made.lowered[: len(last)] == last
            difference = _difference(last, made.lowered)
            last, view = made.lowered, list(made.transcript)
        if not held:
            expected = f"a projection extends the last one, at least once in {_EXTENSIONS} small steps"
            advice = "change the prefix rarely: providers cache it; keep clocks and counters out of it"
            self.found(expected, difference, advice)

    async def sync(self) -> None:
        manager = await self.fresh()
        await self.project(manager, "chat", self.views["chat"])
        other = _frozen([user_message(_OTHER)])
        ran = attempt(manager.sync, other)
        if ran.failure or ran.value is not None:
            got = ran.failure or f"it gave {shown(ran.value)}"
            self.found("`sync` takes a replaced transcript and gives None", got, "make it a plain method")
            return
        made = await self.project(manager, "other", other)
        texts = [] if made.ran.failure else [message.text for message in made.lowered]
        old = {message.text for message in to_messages(self.views["chat"])}
        if made.ran.failure or old.intersection(texts) or not any(_OTHER in text for text in texts):
            expected = f"after `sync`, a projection of the new transcript alone: {_OTHER!r}"
            got = made.ran.failure or shown(texts)
            self.found(expected, got, "forget in `sync` what was remembered of the old transcript")

    # --- compaction

    async def compact(self) -> None:
        for name, view in self.views.items():
            _, ran, view = await self._compacted(name, view)
            if wrong := ran.failure or _wrong_compaction(ran.value, view):
                expected = f"`{name}`: compact(view, 'overflow', …) gives a Compaction"
                advice = "return Compaction(changed=False) where nothing can be made smaller"
                self.found(expected, wrong, advice)

    async def compact_shrinks(self) -> None:
        for name, before, after, _ in await self._shrunk():
            if _size(after) >= _size(before):
                expected = f"`{name}`: changed=True makes what the model sees smaller"
                got = f"{_size(after):,} bytes after {_size(before):,}"
                self.found(expected, got, "return Compaction(changed=False) where it does not shrink")

    async def compact_keeps(self) -> None:
        for name, _, after, view in await self._shrunk():
            self._newest_user(f"`{name}` compacted", view, after)
            self._pairs(f"`{name}` compacted", after)

    async def _compacted(self, name: str, view: View) -> tuple[ContextManager, Ran, View]:
        """The manager, what its compaction gave, and the transcript that it was of."""
        manager = await self.fresh()
        view = (await self.project(manager, name, view)).transcript
        before = _bytes(view)
        ran = await self.run(manager.compact, view, "overflow", self.scope)
        self._unchanged(f"`{name}`", view, before)
        return manager, ran, view

    async def _shrunk(self) -> list[tuple[str, list[Message], list[Message], View]]:
        """Each view that a compaction says to have made smaller: what was seen before and is after."""
        shrunk = []
        for made in await self.projections():
            manager, ran, view = await self._compacted(made.name, made.view)
            if not ran.value.changed:
                continue
            view = _committed(view, ran.value)
            after = await self.project(manager, made.name, view)
            if after.ran.failure:
                expected = f"`{made.name}`: the view can be projected after its compaction"
                self.found(expected, after.ran.failure, "see `projection`")
            else:
                shrunk.append((made.name, made.lowered, after.lowered, made.view))
        return shrunk

    # --- what it tells, and whom it asks

    async def usage(self) -> None:
        for manager in await self._used_and_unused():
            ran = attempt(manager.usage)
            usage = ran.value
            good = usage is None or (
                isinstance(usage, ContextUsage) and min(usage.tokens, usage.window, usage.percent) >= 0
            )
            if ran.failure or not good:
                expected = "`usage()` gives a ContextUsage without negative numbers, or None"
                self.found_once(expected, ran.failure or shown(usage), "return None before anything is known")

    async def snapshot(self) -> None:
        for manager in await self._used_and_unused():
            ran = attempt(manager.snapshot)
            if ran.failure or not isinstance(ran.value, ContextSnapshot | None):
                expected = "`snapshot()` gives a ContextSnapshot, or None"
                self.found_once(
                    expected, ran.failure or shown(ran.value), "return None before anything is known"
                )

    async def _used_and_unused(self) -> list[ContextManager]:
        used = await self.fresh()
        await self.project(used, "tools", self.views["tools"])
        return [await self.fresh(), used]

    async def call_model(self) -> None:
        for request, purpose in self.scope.asked:
            wrong = _wrong_request(request)
            if not (isinstance(purpose, str) and purpose):
                wrong = f"the purpose {shown(purpose)}"
            if wrong:
                expected = "call_model gets a ModelRequest that a provider takes, and what it is for"
                advice = "await call_model(ModelRequest(messages=…), 'compaction')"
                self.found_once(expected, wrong, advice)

    async def call_model_fails(self) -> None:
        for name, view in self.views.items():
            made = await self.project(await self.fresh(), name, view, _Unavailable(""))
            wrong = made.ran.failure or _wrong_projection(made.ran.value)
            if wrong or not made.lowered:
                expected = f"`{name}`: a projection also when call_model raises OverloadedError"
                advice = "go on with a strategy that needs no model"
                self.found(expected, wrong or "an empty view", advice)


_EACH = ("projection", "not_empty")
_CHECKS: tuple[Check[_ContextKit], ...] = (
    Check("projection", _ContextKit.projection),
    Check("not_empty", _ContextKit.not_empty, ("projection",)),
    Check("pairs", _ContextKit.pairs, _EACH),
    Check("newest_user", _ContextKit.newest_user, _EACH),
    Check("ending", _ContextKit.ending, (*_EACH, "newest_user", "pairs")),
    Check("view_unchanged", _ContextKit.view_unchanged, _EACH),
    Check("stable", _ContextKit.stable, (*_EACH, "view_unchanged")),
    Check("prefix", _ContextKit.prefix, (*_EACH, "stable")),
    Check("sync", _ContextKit.sync, (*_EACH, "newest_user")),
    Check("compact", _ContextKit.compact, _EACH),
    Check("compact_shrinks", _ContextKit.compact_shrinks, ("compact",)),
    Check("compact_keeps", _ContextKit.compact_keeps, ("compact", "pairs", "newest_user")),
    Check("usage", _ContextKit.usage, ("projection",)),
    Check("snapshot", _ContextKit.snapshot, ("projection",)),
    Check("call_model", _ContextKit.call_model),
    Check("call_model_fails", _ContextKit.call_model_fails, (*_EACH, "call_model")),
)


def _wrong_projection(value: Any) -> str:
    """What is wrong with a projection; empty when nothing is."""
    if not isinstance(value, Projection):
        return shown(value)
    if not isinstance(value.messages, Sequence):
        return f"messages that are no sequence: {shown(value.messages)}"
    strange = [message for message in value.messages if not isinstance(message, AgentMessage)]
    if strange:
        return f"not a message: {shown(strange[0])}"
    tokens = value.tokens
    good = tokens is None or (isinstance(tokens, int) and tokens >= 0)
    return "" if good else f"tokens={shown(tokens)}"


def _wrong_compaction(value: Any, view: View) -> str:
    """What is wrong with a compaction of ``view``; empty when nothing is."""
    if not isinstance(value, Compaction):
        return shown(value)
    before, after = value.tokens_before, value.tokens_after
    if value.changed and before is not None and after is not None and after >= before:
        return f"changed=True with {after} tokens after {before}"
    if strange := [each for each in value.edits if not isinstance(each, Edit)]:
        return f"what is no Edit among the edits: {shown(strange[0])}"
    try:
        edited(view, value.edits if value.changed else ())
    except ValueError as error:
        return str(error)
    if value.changed and value.commit and not value.edits:
        return "commit=True without edits"
    return ""


def _wrong_request(request: Any) -> str:
    if not isinstance(request, ModelRequest):
        return shown(request)
    messages = list(request.messages)
    if not messages or messages[-1].role not in ("user", "tool"):
        return "a request that does not end with a user message or a tool result"
    issues = validate_message_sequence(messages)
    return f"a request with calls and results that do not pair up: {issues[0].kind}" if issues else ""


def _committed(view: View, compaction: Compaction) -> View:
    """The transcript after a compaction; the view itself where it commits nothing."""
    if not compaction.commit:
        return view
    return _frozen(edited(view, compaction.edits))


def _plain(made: _Projected) -> tuple[Any, Any]:
    return made.lowered, made.ran.value.tokens


def _difference(first: Sequence[Message], second: Sequence[Message]) -> str:
    """Where two lists of messages part."""
    for index, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return f"message {index}: {_name(a)}, then {_name(b)}"
    return f"{len(first)} messages, then {len(second)}"


def _name(message: Message) -> str:
    detail = f"result of {message.tool_call_id!r}" if message.role == "tool" else shown(message.text[:80])
    return f"{message.role} {detail}"


def _size(messages: Sequence[Message]) -> int:
    return len(msgspec.json.encode([message.content for message in messages]))


def _bytes(view: View) -> bytes:
    """What a view holds, for comparing."""
    return msgspec.json.encode(list(view), enc_hook=repr)


# --- views ---------------------------------------------------------------------------------------


class _Note(Struct, frozen=True):
    """An application's message; the model sees ``shown`` of it, or nothing."""

    shown: str = ""
    timestamp: float = 0.0
    role: str = "user"
    thinking: str = ""
    has_tool_calls: bool = False
    priority: int = 0

    @property
    def text(self) -> str:
        return self.shown

    def raw(self) -> "_Note":
        return self

    def compact(self, expect: float) -> Reduced:
        return Reduced(self, 1.0)

    def to_message(self) -> Message | None:
        return user_message(self.shown) if self.shown else None


def context_views(long: int) -> dict[str, View]:
    """The kit's views by name, the least first."""
    return {
        "one": _frozen([user_message("Hello.")]),
        "chat": _frozen(_chat(4)),
        "tools": _frozen([*_chat(2), *_loop(3)]),
        "failed": _frozen(_failed()),
        "application": _frozen([_Note(), *_chat(1), _Note("Seen: a.txt"), _Note(), user_message("Go on.")]),
        "long": _frozen(_chat(long // 2)),
        "loop": _frozen([*_chat(2), *_loop(long // 2)]),
    }


def _chat(turns: int) -> Iterator[AgentMessage]:
    """Turns of question and answer, and a last question."""
    for number in range(turns):
        yield user_message(f"Question {number}: what is {number} plus one?")
        usage = Usage(input_tokens=100 + 20 * number, output_tokens=8)
        yield assistant_message(f"Answer {number}: it is {number + 1}.", usage=usage)
    yield user_message(f"Question {turns}: and what was this about?")


def _loop(rounds: int) -> Iterator[AgentMessage]:
    """Rounds of calls and results, as within one turn."""
    for number in range(rounds):
        call = ToolCall(id=f"call_{number}", name="read_file", args={"path": f"{number}.txt"})
        yield assistant_message("", call)
        yield tool_message(call, f"the content of file {number}: " + "words " * 20)


def _failed() -> Iterator[AgentMessage]:
    """Replies that failed, were aborted (one within a call) or interrupted."""
    cut = ToolCall(id="call_cut", name="read_file", completed=False)
    yield user_message("Begin.")
    yield assistant_message("I beg", stop_reason="error")
    yield user_message("Begin again.")
    yield assistant_message("I read", cut, stop_reason="aborted")
    yield user_message("Once more.")
    yield Message(role="assistant", content=(Text("As far as I got"),), stop_reason="interrupted")
    yield Message(role="assistant", stop_reason="aborted")
    yield user_message("Finish it.")


def _frozen(messages: Iterator[AgentMessage] | Sequence[AgentMessage]) -> Transcript[AgentMessage]:
    """A view as the kernel gives it: immutable, no list, its messages with ids and times."""
    messages = list(messages)
    taken = {message.id for message in messages if isinstance(message, Message)}
    return Transcript([_numbered(message, n, taken) for n, message in enumerate(messages)])


def _numbered(message: AgentMessage, index: int, taken: Collection[str] = ()) -> AgentMessage:
    if not isinstance(message, Message) or message.id:
        return message
    number = index + 1
    while f"m{number}" in taken:  # a rewrite has left ids beyond the length
        number += len(taken)
    return replace(message, id=f"m{number}", timestamp=1000.0 + index)
