"""One conversation: an agent that runs, listens, is steered, paused, held, forked.

Everything it knows is the fold of its facts; it owns the recorder, the queues, the listeners and the
one run that may be under way. Models and tools are shared: agents are cheap.

``steer``, ``follow_up``, ``inject`` and ``abort`` work from any thread, everything else belongs on the
event loop on which the agent runs.

Read with: ``agent_runs.py`` (who may run), ``agent_options.py``, ``loop.py`` (what a run is).
"""

import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar, Unpack, cast, overload

import anyio
from msgspec.structs import replace

from .abort import Abort, Inbox, as_user_message
from .agent_background import Background
from .agent_history import clear, close_open_turn, replace_messages
from .agent_options import AgentOptions, Changes, change
from .agent_request import build_request, compact_now
from .agent_runs import Runs, Ticket
from .approval import check_decisions, record_decisions
from .config import AgentContext, LoopConfig, Settings
from .errors import AgentBusyError, ContinueError, RunsHeldError
from .events import ConfigChanged, Event
from .hooks import Decisions, Verdict
from .listeners import Listener, Listeners
from .live import Live
from .loop import Beginning, Input, Session, as_messages, check_continue, open_stream
from .messages import AgentMessage, Message, Usage
from .model_names import model_of
from .output import Output
from .ports import ChatModel, ContextUsage, ModelRequest, Renews, SystemBlock, Tool, ToolSpec
from .projection import Projector
from .recorder import Recorder
from .spawn import loop_is_running
from .state import AgentState
from .stream import EventStream, RunResult, last_text
from .toolbox import Toolbox

OutT = TypeVar("OutT")
Busy: TypeAlias = Literal["error", "queue", "interrupt"]
Keep: TypeAlias = "bool | Callable[[str], str]"


class Agent(Generic[OutT]):
    """A conversation with a model and tools; state, queues and listeners around ``agent_loop``.

    ``model`` is a chat model, or a name such as ``openai/gpt-5`` where ``unspool`` has a preset. With
    ``output`` the last answer must be JSON of that type: the model is given the schema, told what is
    wrong at most twice, and ``RunResult.output`` is the value. See ``AgentOptions`` for the rest.

    Raises:
        ToolDefinitionError: the tools cannot be used together.
        TypeError: an option that does not exist.
    """

    @overload
    def __init__(
        self: "Agent[str]",
        model: ChatModel | str,
        *,
        tools: Iterable[Tool] = (),
        system: str | Sequence[SystemBlock] = "",
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        model: ChatModel | str,
        *,
        output: type[OutT],
        tools: Iterable[Tool] = (),
        system: str | Sequence[SystemBlock] = "",
        **options: Unpack[AgentOptions],
    ) -> None: ...
    @overload
    def __init__(  # a union, a Literal: types that are no classes
        self: "Agent[Any]",
        model: ChatModel | str,
        *,
        output: Any,
        tools: Iterable[Tool] = (),
        system: str | Sequence[SystemBlock] = "",
        **options: Unpack[AgentOptions],
    ) -> None: ...
    def __init__(
        self,
        model: ChatModel | str,
        *,
        output: Any = None,
        tools: Iterable[Tool] = (),
        system: str | Sequence[SystemBlock] = "",
        **options: Unpack[AgentOptions],
    ) -> None:
        messages, state = options.pop("messages", ()), options.pop("state", None)
        self._output: Output[Any] | None = None if output in (None, str) else Output(output or str)
        base = LoopConfig(model=model_of(model))
        self._config, self._context = change(
            base, AgentContext(), {"tools": tools, "system": system, **options}
        )
        self._listeners = Listeners()
        self._runs = Runs(self._tell)
        self._live = Live()
        self._listeners.add(lambda event: self._live.see(event))  # the first: others may look at it
        config = self._config
        recorder = Recorder(state, log=config.log, clock=config.clock, codec=config.codec)
        recorder.tell_idle, recorder.drain_idle = self._listeners.put, self._listeners.drain
        self._session = Session(recorder, Projector(), Toolbox(self._context.tools))
        self._inbox = Inbox()
        self._inbox.bind(recorder)
        self._settings: Settings | None = None  # of the run under way
        self._background: Background | None = None  # of `async with agent`
        if messages:
            self.set_messages(messages)
        elif config.context is not None and recorder.state.seq:  # a session that is taken up
            config.context.sync(recorder.state.messages)

    # --- running -------------------------------------------------------------------------------

    async def run(self, prompt: Input, *, busy: Busy = "error", keep: Keep = True) -> RunResult[OutT]:
        """Run on ``prompt`` until the agent stops.

        ``busy`` says what happens while another run is under way: ``error`` raises, ``queue`` waits for
        its end, ``interrupt`` ends it; ``keep`` then says whether the text of the unfinished answer
        stays in the conversation, or what of it. Cancelling this call aborts the run.

        Raises:
            ValueError: no prompt, one without content, or the last one is an answer.
            AgentBusyError: another run is under way.
            RunsHeldError: runs are held.
            LogError: the log refused a fact.
        """
        begin = self._beginning(as_messages(prompt))
        ticket = Ticket(self._runs)
        await self._await_turn(ticket, busy, keep)
        return await self._finish(begin, ticket)

    def run_sync(self, prompt: Input) -> RunResult[OutT]:
        """``run`` for programs without an event loop.

        Raises:
            RuntimeError: an event loop is running in this thread: await ``run`` there.
        """
        if loop_is_running():
            raise RuntimeError("run_sync: an event loop runs in this thread; await agent.run(...) there")
        return anyio.run(self.run, prompt)

    def stream(self, prompt: Input | None = None, *, decisions: Decisions | None = None) -> EventStream:
        """The events of a run; leaving them early aborts it.

        A run on ``prompt``, or one that resumes with ``decisions``, or, with neither, one that continues.

        Raises:
            ValueError: as ``run`` and ``resume``; or a prompt and decisions are given.
            ContinueError: as ``continue_`` and ``resume``. AgentBusyError and RunsHeldError come with the
                first event.
        """
        if prompt is not None:
            if decisions is not None:
                raise ValueError("stream: a prompt or decisions, not both")
            begin = self._beginning(as_messages(prompt))
        else:
            begin = self._going_on(decisions)
        return self._stream(begin, Ticket(self._runs))

    def prompt(self, prompt: Input) -> None:
        """Start a run in the background; ``wait_idle`` waits for it.

        Raises:
            RuntimeError: outside ``async with agent``, which owns such runs.
            ValueError, AgentBusyError, RunsHeldError: as ``run``.
        """
        if self._background is None:
            raise RuntimeError("prompt: runs in the background need an owner; use `async with agent`")
        begin = self._beginning(as_messages(prompt))
        ticket = Ticket(self._runs)
        self._runs.take(ticket)
        self._start(begin, ticket)

    async def continue_(self) -> RunResult[OutT]:
        """Go on: after a crash, an abort or an error, from a message that was not answered, with what is
        queued.

        Raises:
            ContinueError: there is nothing to go on from.
            AgentBusyError, RunsHeldError, LogError: as ``run``.
        """
        return await self._go_on(None)

    async def resume(self, decisions: Decisions) -> RunResult[OutT]:
        """Go on with a run that paused for a person, with their decisions.

        One verdict stands for all calls that wait, or one for each call id; a call without one is declined.

        Raises:
            ContinueError: no call waits.
            ValueError: a call id that does not wait, or a verdict that decides nothing.
            AgentBusyError, RunsHeldError, LogError: as ``run``.
        """
        return await self._go_on(decisions)

    def decide(self, decisions: Mapping[str, Verdict]) -> None:
        """Record decisions on some of the calls that wait, without going on; the others go on waiting.

        Each is a fact of its own, so that decisions may come one after another, over many processes; when
        none is left to wait for, ``continue_`` goes on.

        Raises:
            ContinueError: no call waits.
            ValueError: a call id that does not wait, or a verdict that decides nothing.
            AgentBusyError: a run is under way.
            LogError: the log refused it.
        """
        recorder = self._session.recorder
        with recorder.lock, self._runs.lock:
            if self._runs.active is not None:
                raise AgentBusyError("decide: a run is under way; its calls are decided by its approve hook")
            check_decisions(self.state, decisions)
            record_decisions(recorder, decisions)
        self._listeners.drain()

    async def __aenter__(self) -> Self:
        if self._background is not None:
            raise RuntimeError("agent: `async with agent` is entered already")
        self._background = Background()
        await self._background.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        """Wait for the background runs to end; after an exception they are aborted."""
        background = self._background
        if background is None:
            return None
        if error is not None:
            self.abort()
        try:
            return await background.close(kind, error, trace)
        finally:
            self._background = None

    # --- from outside --------------------------------------------------------------------------

    def steer(self, message: str | AgentMessage) -> None:
        """Queue a message for the run under way, or for the next: it is delivered as soon as the tools
        that run have ended, and calls not yet started are skipped. Any thread.

        Raises:
            ValueError: the message is empty, or not a user's.
            LogError: the log refused it; it is not queued.
        """
        self._inbox.steer(message)
        self._listeners.drain()

    def follow_up(self, message: str | AgentMessage) -> None:
        """Queue a message for when the agent would stop. Any thread; raises as ``steer``."""
        self._inbox.follow_up(message)
        self._listeners.drain()

    def inject(self, message: str | AgentMessage) -> Literal["steered", "resumed", "queued"]:
        """Let a message in, wherever the agent stands, and say what became of it: decided in one step.

        ``steered``: the run under way takes it. ``resumed``: the agent was idle after an answer, and a
        background run (of ``async with agent``) has been started. ``queued``: it waits for the next run,
        as on an agent that has not answered anything yet. Any thread.

        Raises:
            RunsHeldError: runs are held; it is not queued.
            ValueError: the message is empty, or not a user's.
            LogError: the log refused it; it is not queued.
        """
        runs, recorder = self._runs, self._session.recorder
        stored = recorder.store(as_user_message(message, "inject"))
        with recorder.lock, runs.lock:
            if runs.holds:
                raise RunsHeldError("agent: its runs are held, nothing can be injected")
            state, ticket, active = self.state, Ticket(runs), runs.active
            resumes = runs.free and self._background is not None and _may_resume(state)
            taken = active is not None and not active.internal
            taken = taken and (recorder.run is not None or not (active and active.begun))
            recorder.queue_stored("steering", stored)
            if resumes:
                runs.take(ticket)
        self._listeners.drain()
        if resumes:
            try:
                self._start(Beginning("inject"), ticket)
            except RuntimeError:
                return "queued"  # the owner of background runs is leaving
        return "resumed" if resumes else "steered" if taken else "queued"

    def abort(self, *, marker: bool = True, reason: str = "", keep: Keep = False) -> None:
        """End the run under way in an orderly way; nothing happens where there is none. Any thread.

        See ``Abort.fire`` for ``marker``, ``reason`` and ``keep``.
        """
        active = self._runs.active  # without the lock: a log that aborts holds another
        if active is not None:
            active.abort.fire(marker=marker, reason=reason, keep=keep)

    def clear_queue(self, *, steering: bool = True, follow_ups: bool = True) -> None:
        """Drop messages that are queued and not taken yet. Any thread."""
        clear(self._session.recorder, steering=steering, follow_ups=follow_ups)
        self._listeners.drain()

    def wait_idle(self) -> Awaitable[None]:
        """Wait until no run is under way. A tool or a hook of the run itself would wait for ever.

        Raises:
            RuntimeError: called by a listener, which the run waits for.
        """
        self._listeners.refuse_here("wait_idle")
        return self._runs.wait_idle()

    def hold_runs(self) -> AbstractAsyncContextManager[None]:
        """Keep any run from starting inside this ``async with``; one under way is aborted, without a
        marker, and waited for. Holds are counted: runs may start when all have ended. Whoever consumes the
        stream of the run leaves that first; a tool or a hook of it would wait for ever.

        Raises:
            RuntimeError: called by a listener, which the run waits for.
        """
        self._listeners.refuse_here("hold_runs")
        return self._hold()

    @asynccontextmanager
    async def _hold(self) -> AsyncGenerator[None, None]:
        with self._runs.lock:
            self._runs.holds += 1
        try:
            self.abort(marker=False)
            await self._runs.wait_ended()
            yield
        finally:
            with self._runs.lock:
                self._runs.holds -= 1

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every event; returns what ends that.

        Listeners are called in order of registration, on the event loop of the run, or in the thread that
        queues a message on an idle agent. One that raises is logged and breaks nothing. From the one that
        gets ``agent_end`` the next run may be started.

        Raises:
            TypeError: it is an async function.
        """
        return self._listeners.add(listener)

    # --- configuration and history ---------------------------------------------------------------

    def configure(self, **changes: Unpack[Changes]) -> None:
        """Change settings; each counts, and is recorded, from the next turn on.

        Raises:
            TypeError: there is no such setting.
            ToolDefinitionError: the tools cannot be used together.
        """
        given: dict[str, Any] = dict(changes)
        if "model" in given:
            given["model"] = model_of(given["model"])
        config, context = change(self._config, self._context, given, later=True)
        if context.tools is not self._context.tools:
            recorder, projector, _ = self._session
            self._session = Session(recorder, projector, Toolbox(context.tools))
        self._config, self._context = config, context
        if self._settings is not None:
            abort = self._settings.config.abort
            self._settings = self._settings_of(abort)

    def reset(self) -> Awaitable[None]:
        """Abort the run under way and forget the conversation and the queues; settings and usage stay.

        Raises:
            RuntimeError: called by a listener, which the run waits for.
            LogError: the log refused it.
        """
        self._listeners.refuse_here("reset")
        return self._reset()

    async def _reset(self) -> None:
        async with self._hold():
            if self.state.turn is not None:
                await self._end_open_turn()
            clear(self._session.recorder, steering=True, follow_ups=True, prompts=True)
            self._replace((), "reset")
            self._listeners.drain()

    def set_messages(self, messages: Iterable[AgentMessage]) -> None:
        """Make ``messages`` the conversation.

        Raises:
            AgentBusyError: a run is under way, or calls wait for a decision.
            CodecError: a message that cannot be stored.
            LogError: the log refused it.
        """
        with self._session.recorder.lock, self._runs.lock:
            if self._runs.active is not None or self.state.turn is not None:
                raise AgentBusyError("set_messages: a run is under way, or its calls wait for a decision")
            self._replace(tuple(messages), "set_messages")
        self._listeners.drain()

    def export_messages(self) -> list[Message]:
        """The conversation as plain messages; application messages are left out."""
        return [message for message in self.state.messages if isinstance(message, Message)]

    def import_messages(self, messages: Iterable[Message]) -> None:
        """``set_messages`` with what ``export_messages`` gave."""
        self.set_messages(messages)

    def fork(self, **options: Unpack[AgentOptions]) -> "Agent[OutT]":
        """Another agent with the same settings that has the same conversation behind it, with the deferred tools
        that it uses, and goes its own way. It has no log unless ``options`` give one; queues and waiting calls
        are not copied. A context manager is renewed: it remembers nothing.

        Raises:
            TypeError: the context manager of this agent cannot be renewed, and ``options`` give none for the fork.
        """
        config, context = self._config, self._context
        kept: dict[str, Any] = {
            field.name: getattr(config, field.name)
            for field in dataclasses.fields(config)
            if field.name not in ("model", "agent", "inbox", "abort", "refresh", "log", "context", "lineage")
        }
        if config.context is not None and "context" not in options:
            if not isinstance(config.context, Renews):
                raise TypeError(
                    "fork: a context manager serves one conversation; give the fork its own, or None"
                )
            kept["context"] = config.context.renewed()
        given = {"name": config.agent, "run_context": context.run_context, "messages": self.state.messages}
        forked: Agent[OutT] = Agent(
            config.model,
            output=cast("type[OutT]", self._output.type if self._output else str),
            tools=context.tools,
            system=context.system,
            **cast("AgentOptions", {**kept, **given, **options}),
        )
        if "messages" not in options:
            forked._use(self.state.active_tools)
        return forked

    def _use(self, tools: Sequence[str]) -> None:
        """Offer deferred tools from now on, whatever the conversation refers to by now."""
        recorder = self._session.recorder
        with recorder.lock:
            active = tuple(dict.fromkeys((*self.state.active_tools, *tools)))
            if active != self.state.active_tools:
                recorder.record(ConfigChanged(active_tools=active))
        self._listeners.drain()

    async def build_request(self) -> ModelRequest:
        """The request that a run would send now; what is queued is not in it.

        A context manager that calls a model for it does so, and that is recorded like any model call. ``abort``
        ends it as it ends a run.

        Raises:
            AgentBusyError: a run is under way.
            ContinueError: it was aborted.
        """
        ticket = Ticket(self._runs, internal=True)
        self._runs.take(ticket)
        try:
            config = self._config_of_runs()
            return await build_request(self._session, config, self._context, ticket.abort)
        finally:
            self._drop(ticket)
            self._listeners.drain()

    async def compact(self, instructions: str = "") -> bool:
        """Have the context manager make the conversation smaller now; whether it did.

        ``instructions`` say what a summary is to keep or to leave out. A model that is called for it is recorded
        and priced. What failed is an ``error`` fact, and the conversation stays as it was; so it does where ``abort``
        ends it, as it ends a run.

        Raises:
            AgentBusyError: a run is under way.
            TypeError: this agent has no context manager.
        """
        manager = self._config.context
        if manager is None:
            raise TypeError("compact: this agent has no context manager; give it one, as context=")
        ticket = Ticket(self._runs, internal=True)
        self._runs.take(ticket)
        try:
            config = self._config_of_runs()
            return await compact_now(
                self._session, config, self._context, manager, instructions, ticket.abort
            )
        finally:
            self._drop(ticket)
            self._listeners.drain()

    async def build_llm_messages(self) -> Sequence[Message]:
        """The messages of ``build_request``."""
        return (await self.build_request()).messages

    def build_llm_tools(self) -> tuple[ToolSpec, ...]:
        """The tools that a run would offer now."""
        if not self._config.model.supports_tools:
            return ()
        return self._session.toolbox.offered(self.state.active_tools)

    # --- what there is to know -------------------------------------------------------------------

    @property
    def state(self) -> AgentState:
        """The fold of all facts so far; an immutable value, safe to read from any thread."""
        return self._session.recorder.state

    @property
    def settings(self) -> Settings:
        """What a run would be given now: for ``agent_loop``, and for a replay of a recorded session."""
        return Settings(self._config_of_runs(), self._context)

    @property
    def live(self) -> Live:
        """What goes on and is no fact: the unfinished reply, the progress of calls."""
        return self._live

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self._runs.active is not None

    @property
    def can_continue(self) -> bool:
        """Whether ``continue_`` has something to go on from."""
        try:
            check_continue(self.state)
        except ContinueError:
            return False
        return True

    @property
    def usage(self) -> Usage:
        """Tokens and cost of all model calls of the session itself."""
        return self.state.usage

    @property
    def total_usage(self) -> Usage:
        """The same with that of the nested sessions that have ended."""
        return self.state.total_usage

    @property
    def context_usage(self) -> ContextUsage | None:
        """How full the window was with the last view, as the context manager counts; None without one."""
        manager = self._config.context
        return manager.usage() if manager is not None else None

    @property
    def baseline_context_usage(self) -> ContextUsage | None:
        """How full it would be with the whole conversation; None where the context manager can't say."""
        manager = self._config.context
        snapshot = manager.snapshot() if manager is not None else None
        return snapshot.baseline if snapshot is not None else None

    # --- inside ------------------------------------------------------------------------------------

    def _beginning(self, prompts: Sequence[AgentMessage]) -> Beginning:
        return Beginning("prompt", tuple([self._session.recorder.store(prompt) for prompt in prompts]))

    def _going_on(self, decisions: Decisions | None) -> Beginning:
        if decisions is None:
            check_continue(self.state)
            return Beginning("continue")
        check_decisions(self.state, decisions)
        return Beginning("resume", (), decisions)

    async def _go_on(self, decisions: Decisions | None) -> RunResult[OutT]:
        ticket = Ticket(self._runs)
        self._runs.take(ticket)  # first: what is checked then stays so
        try:
            begin = self._going_on(decisions)
        except BaseException:
            self._drop(ticket)
            raise
        return await self._finish(begin, ticket)

    async def _await_turn(self, ticket: Ticket, busy: Busy, keep: Keep) -> None:
        match busy:
            case "error":
                self._runs.take(ticket)
            case "queue":
                await self._runs.take_in_turn(ticket)
            case "interrupt":
                await self._runs.take_in_turn(ticket, lambda: self.abort(marker=False, keep=keep))

    def _config_of_runs(self) -> LoopConfig:
        """The configuration with what a typed output needs."""
        config, output = self._config, self._output
        if output is None:
            return config
        options = replace(config.options, response_format=output.format)
        hooks = dataclasses.replace(config.hooks, stop_guard=output.guard(config))
        return dataclasses.replace(config, options=options, hooks=hooks)

    def _settings_of(self, abort: Abort | None) -> Settings:
        config = dataclasses.replace(self._config_of_runs(), abort=abort, refresh=self._refresh)
        return Settings(config, self._context)

    def _refresh(self) -> Settings:
        assert self._settings is not None  # it is set before a run begins
        return self._settings

    def _stream(self, begin: Beginning, ticket: Ticket) -> EventStream:
        self._settings = settings = self._settings_of(ticket.abort)
        return open_stream(self._session, begin, settings.context, settings.config, ticket)

    async def _finish(self, begin: Beginning, ticket: Ticket) -> RunResult[OutT]:
        """Run to the end; the ticket is taken already."""
        try:
            async with self._stream(begin, ticket) as stream:
                return self._typed(await stream.result())
        finally:
            self._drop(ticket)

    def _typed(self, result: RunResult[str]) -> RunResult[OutT]:
        if self._output is None:
            return cast("RunResult[OutT]", result)
        text = result.text or last_text(self.state.messages)  # a run that had nothing to say goes on from one
        value = self._output.parse(text) if result.end_reason == "stop" else None
        return cast("RunResult[OutT]", dataclasses.replace(cast("RunResult[Any]", result), output=value))

    def _start(self, begin: Beginning, ticket: Ticket) -> None:
        """Run in the background; from any thread."""
        background = self._background
        try:
            if background is None:
                raise RuntimeError("agent: its background runs have no owner any more")
            background.start(partial(self._finish, begin, ticket), partial(self._drop, ticket))
        except RuntimeError:
            self._drop(ticket)
            raise

    def _drop(self, ticket: Ticket) -> None:
        self._runs.release(ticket)
        self._runs.wake()

    def _tell(self, event: Event, first: Callable[[], None] | None) -> None:
        self._listeners.put(event, first)
        self._listeners.drain()

    async def _end_open_turn(self) -> None:
        ticket = Ticket(self._runs, internal=True)
        self._runs.take(ticket)
        try:
            await close_open_turn(self._stream(Beginning("reset"), ticket), ticket.abort)
        finally:
            self._drop(ticket)

    def _replace(self, messages: Sequence[AgentMessage], reason: str) -> None:
        replace_messages(self._session.recorder, messages, reason)
        self._live = Live()
        if self._config.context is not None:
            self._config.context.sync(self.state.messages)


def _may_resume(state: AgentState) -> bool:
    return state.turn is None and state.tail == "assistant"
