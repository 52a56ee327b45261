"""One child of a call: found again or begun, run to its end, accounted for once.

1. A child is found by its session and by its prompt, which names the call: what has ended is read from its log, what
   paused goes on with the decisions, what broke off goes on, and only what is not there begins.
2. ``child_started`` comes before anything of it, ``child_ended`` after everything below it has ended. One that an
   earlier process left open is accounted from where that began.
3. How it ended is the end reason of its run.

Read with: ``call.py``, ``tally.py``, ``child_settings.py``, ``tree.py``.
"""

from collections.abc import Callable
from typing import Any

from unspool.kernel.agent import Agent
from unspool.kernel.errors import ToolError, describe
from unspool.kernel.events import (
    ChildEnded,
    ChildEvent,
    ChildStarted,
    MessageDiscarded,
    MessageStart,
    MessageUpdate,
    ModelResponse,
    ToolExecUpdate,
)
from unspool.kernel.messages import AgentMessage, Usage
from unspool.kernel.nesting import Suspended
from unspool.kernel.state import AgentState
from unspool.kernel.stream import EventStream

from . import texts
from .call import Assignment, Call, RunningChild, run_name
from .child_logs import OpenLog
from .child_settings import limits_of, prompt_of, settings_of, shown_to_caller
from .child_waiting import answers_to, waiting_calls
from .listening import Audience, telling_messages
from .results import ChildResult
from .tally import Tally
from .tree import Node
from .typed import as_json

_SIGNALS = frozenset({MessageStart, MessageUpdate, MessageDiscarded, ToolExecUpdate, ChildEvent})


async def run_child(call: Call, work: Assignment, audience: Audience) -> ChildResult:
    """What a child came to.

    Raises:
        Suspended: it waits for a person.
        ToolError: it cannot be started.
        LogError: a log refused a fact.
    """
    tree, session = call.tree, await call.session_of(work)
    await call.check_limits(run_name(call.ctx.call_id, session))
    if session in tree.taken and (audience.detached or work.agent.context != "isolated"):
        raise ToolError(
            f"agent {work.agent.name!r}: thread {session!r} is busy with another call; wait for it"
        )
    if session in tree.taken:
        audience.started()
    await tree.until(lambda: session not in tree.taken or call.stopping)
    if call.stopping:
        raise ToolError(f"agent {work.agent.name!r} was stopped before it began")
    tree.taken.add(session)
    try:
        codec, root = call.nest.config.codec, call.lineage.root
        async with call.host.logs.open(session, codec, namespace=root, agent=work.agent.name) as log:
            return await _Run(call, work, audience, session, log).perform()
    finally:
        tree.taken.discard(session)
        tree.wake()


class _Run:
    """A child and its run; a ``Steered`` for hosts."""

    def __init__(self, call: Call, work: Assignment, audience: Audience, session: str, log: OpenLog) -> None:
        self._call, self._work, self._audience = call, work, audience
        self._session, self._log = session, log
        self._tally = Tally(call.key(work))
        self._tally.read(log.facts)
        opened = call.nest.state.children.get(session)
        self._opened = opened is not None
        self._used = opened.used if opened is not None else log.state.total_usage
        self._agent: Agent[Any] | None = None
        self._node: Node | None = None
        self._stopping = False
        self._history: list[AgentMessage] = []  # what a fork begins with
        self._over = ""  # why it was stopped from here
        self._listens = True  # what is steered is still taken

    @property
    def info(self) -> RunningChild:
        """What a host is told of it."""
        lineage, work = self._call.lineage, self._work
        return RunningChild(
            self._session,
            work.agent.name,
            lineage.parent,
            lineage.call_id,
            len(lineage.path),
            work.mode,
            work.task,
        )

    async def perform(self) -> ChildResult:
        """Find out where the child stands, and go on from there."""
        tally, state = self._tally, self._log.state
        paused = tally.begun and not state.active and state.end_reason == "paused"
        if tally.closed or (tally.begun and not state.active and not paused):
            if self._opened:
                await self._record_end(state)
            return self._result(state)
        answers = answers_to(state, self._call.nest.decisions, self._prefix) if tally.begun else {}
        if paused and state.waiting_calls and not answers and not self._audience.detached:
            if self._opened:
                await self._record_end(state)
            raise self._suspended(state)
        if self._call.stopping and not self._opened:
            raise ToolError(f"agent {self._work.agent.name!r} was stopped before it began")
        agent = self._agent = self._make_agent()
        await self._run(agent, lambda: self._stream(agent, answers))
        if agent.state.end_reason == "paused" and not self._audience.detached and not self._stopping:
            raise self._suspended(agent.state)
        return self._result(agent.state)

    @property
    def _prefix(self) -> str:
        return f"{self._work.place}/" if self._work.place else ""

    def _suspended(self, state: AgentState) -> Suspended:
        path = (*self._call.lineage.path, self._work.agent.name)
        return Suspended(waiting_calls(state, self._prefix, self._session, path))

    # --- running ---------------------------------------------------------------------------------

    def _make_agent(self) -> Agent[Any]:
        call, agent = self._call, self._work.agent
        left = call.node.left()
        if not self._opened and any(amount is not None and amount <= 0 for amount in left):
            raise ToolError("your budget is used up: no agent can be called; answer with what you have")
        nest, host = call.nest, call.host
        if agent.context == "fork" and not (self._work.thread or self._tally.begun):
            self._history = shown_to_caller(nest)  # now: in the background the caller goes on meanwhile
        model = self._work.model or host.model_for(agent, nest.config.model)
        thinking = host.thinking.get(agent.name)
        settings = settings_of(
            agent, nest, model=model, thinking=thinking, background=self._audience.detached
        )
        limits = limits_of(agent.budget, nest.config.limits, left, self._tally)
        made: Agent[Any] = Agent(model, **settings, limits=limits, log=self._log.log, state=self._log.state)
        if agent.on_message is not None:
            made.subscribe(telling_messages(agent.on_message, agent.name, self._work.task, made))
        return made

    def _stream(self, agent: Agent[Any], answers: dict[str, Any]) -> EventStream:
        """The run that the child begins or goes on with."""
        if answers:
            return agent.stream(decisions=answers)
        if self._tally.begun:
            return agent.stream()
        work = self._work
        if self._history:
            agent.set_messages(self._history)
        return agent.stream(prompt_of(work.agent, work.task, self._call.key(work)))

    async def _run(self, agent: Agent[Any], begin: Callable[[], EventStream]) -> None:
        """Run between ``child_started`` and ``child_ended``."""
        call, host, work = self._call, self._call.host, self._work
        config = agent.settings.config
        node = self._node = Node(
            call.tree,
            self._session,
            call.node,
            lambda: agent.state,
            config.limits,
            base=self._used,
            stop=self.stop,
        )
        node.slots = host.limits.concurrency
        call.tree.begun.add(run_name(call.ctx.call_id, self._session))
        node.enter()
        unwatch = call.watch(self.stop)
        host.runs[self._session] = self
        try:
            await call.nest.record(
                ChildStarted(self._session, work.agent.name, call.ctx.call_id, work.mode, self._used)
            )
            self._audience.started()
            await node.take_slot(lambda: self._stopping or call.stopping)
            await self._in_time(agent, node, begin)
            await self._wait_below(agent, node)
        finally:
            del host.runs[self._session]
            unwatch()
            node.leave()
            await self._record_end(agent.state)

    async def _record_end(self, state: AgentState) -> None:
        end = state.end_reason or "aborted"
        usage: Usage = state.total_usage - self._used
        name, call_id = self._work.agent.name, self._call.ctx.call_id
        await self._call.nest.record(ChildEnded(self._session, name, call_id, end, usage))

    async def _in_time(self, agent: Agent[Any], node: Node, begin: Callable[[], EventStream]) -> None:
        """Run until it ends, or its time or that of a session above it is over."""
        if self._stopping or self._call.stopping:
            return
        clock, above = self._call.nest.config.clock, self._call.node.deadline
        seconds = self._work.agent.budget.seconds
        now = clock.monotonic()
        own = None if seconds is None else now + max(0.0, seconds - self._tally.seconds)
        node.deadline = min((each for each in (own, above) if each is not None), default=None)
        if node.deadline is None:
            await self._drive(agent, node, begin())
            return
        reason = f"ran out of its {seconds:g} s" if node.deadline == own else "ran out of its caller's time"
        cancel = clock.call_later(node.deadline - now, lambda: self.stop(reason))
        try:
            await self._drive(agent, node, begin())
        finally:
            cancel()

    async def _drive(self, agent: Agent[Any], node: Node, stream: EventStream) -> None:
        """Run, and again while messages came before the end."""
        tally, audience, session = self._tally, self._audience, self._session
        following: EventStream | None = stream
        while following is not None and not self._stopping:
            async with following as events:
                async for event in events:
                    if type(event) not in _SIGNALS:
                        tally.see(event)
                        if type(event) is ModelResponse:
                            node.check()
                    await audience.see(session, agent, event)
            following = self._following(agent)

    def _following(self, agent: Agent[Any]) -> EventStream | None:
        """The next run, on what came before the last one ended; None where nothing comes any more."""
        if agent.state.end_reason == "stop" and not self._stopping:
            if messages := self._audience.last_look():
                return agent.stream(list(messages))
            with self._call.host.runs_lock:
                self._listens = bool(agent.state.steering or agent.state.follow_ups)
            if self._listens:
                return agent.stream()
        return None

    async def _wait_below(self, agent: Agent[Any], node: Node) -> None:
        """Children that it left in the background end before it does."""
        if not node.children:
            return
        node.free_slot()
        if agent.state.end_reason != "stop":
            self._stop_below("was stopped with its caller")
        await node.tree.until(lambda: not node.children)

    # --- from outside ----------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """End the run, and everything below it; what was said stays."""
        if self._stopping:
            return
        self._stopping, self._over = True, reason
        if self._agent is not None:
            self._agent.abort(keep=True, reason=reason)
        self._stop_below("")
        self._call.tree.wake()

    def _stop_below(self, reason: str) -> None:
        for child in list(self._node.children) if self._node is not None else ():
            child.stop(reason)

    def steer(self, text: str) -> bool:
        """Queue a message for the child; False where it takes none any more. Any thread."""
        with self._call.host.runs_lock:
            if self._agent is None or not self._listens:
                return False
            self._agent.steer(text)
            return True

    # --- what came of it -------------------------------------------------------------------------

    def _result(self, state: AgentState) -> ChildResult:
        tally, agent, problem, value = self._tally, self._work.agent, "", ""
        waits = tally.end_reason == "paused" and self._audience.detached and not self._stopping
        cancelled = tally.end_reason in ("aborted", "paused", "") and not (self._over or waits)
        if tally.end_reason != "stop":
            problem = texts.cause_of(tally, self._over, waits=waits)
        elif agent.output not in (None, str):
            try:
                value = as_json(agent.output, tally.output)
            except ValueError as error:  # its type is another than when it answered
                problem = f"failed: its answer is not of its type: {describe(error)}"
        threads = self._work.threads and agent.context != "isolated" and state.seq
        thread = self._session if threads else ""
        return ChildResult(agent.name, self._session, thread, tally, problem, value, cancelled)
