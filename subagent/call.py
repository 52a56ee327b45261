"""A tool call that runs children: its place in the tree, what it is bound by, and how it is stopped.

Read with: ``child.py`` (one child of it), ``tree.py``, ``subagents.py`` (the ``Host``).
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from threading import Lock
from typing import NamedTuple, Protocol

from unspool.kernel.errors import LogError, ToolError
from unspool.kernel.events import ChildStarted, Fact
from unspool.kernel.nesting import Nest, nest_of
from unspool.kernel.ports import ChatModel, ThinkingLevel, ToolContext
from unspool.tools.tasks import Tasks

from .budget import TreeLimits
from .child_logs import ChildLogs, session_id
from .definition import AgentDefinition
from .tree import Node, Tree, Trees


class Assignment(NamedTuple):
    """What a child is to do.

    ``place`` tells several children of one call apart. ``model`` goes before that of the definition. ``thread`` is
    the session to go on with, ``threads`` whether a later call may name one.
    """

    agent: AgentDefinition
    task: str
    place: str = ""
    mode: str = "single"
    model: ChatModel | None = None
    thread: str = ""
    threads: bool = True


class RunningChild(NamedTuple):
    """A child that runs, and the session (``parent``) and the call that it runs for.

    ``depth`` is 1 for a child of the root. ``mode``: single, parallel, chain, background.
    """

    session: str
    agent: str
    parent: str
    call_id: str
    depth: int
    mode: str
    task: str


class Steered(Protocol):
    """A child run that a host may reach."""

    @property
    def info(self) -> RunningChild: ...
    def steer(self, text: str) -> bool: ...
    def stop(self, reason: str) -> None: ...


class Host(Protocol):
    """What all calls of one ``Subagents`` share."""

    @property
    def logs(self) -> ChildLogs: ...
    @property
    def trees(self) -> Trees: ...
    @property
    def limits(self) -> TreeLimits: ...
    @property
    def tasks(self) -> Tasks | None: ...
    @property
    def runs(self) -> dict[str, Steered]: ...
    @property
    def runs_lock(self) -> Lock: ...
    @property
    def thinking(self) -> Mapping[str, ThinkingLevel]: ...
    def model_for(self, agent: AgentDefinition, callers: ChatModel) -> ChatModel: ...
    def resolve_model(self, name: str) -> ChatModel: ...


class Call:
    """See the module. A ``detached`` one goes on when the call has ended."""

    def __init__(self, host: Host, ctx: ToolContext, *, detached: bool = False) -> None:
        self.host, self.ctx = host, ctx
        self.nest: Nest = nest_of(ctx)
        self.lineage = self.nest.lineage
        self.tree: Tree = host.trees.of(self.lineage.root)
        self.node = self._node()
        self.stopping = False
        self._stops: list[Callable[[str], None]] = []
        if not detached:
            self.nest.on_stop(self.stop)

    def _node(self) -> Node:
        session = self.lineage.parent
        node = self.tree.nodes.get(session)
        if node is None:
            nest = self.nest
            node = Node(self.tree, session, None, lambda: nest.state, nest.config.limits)
            self.tree.nodes[session] = node
        if node.above is None:
            node.limits = self.nest.config.limits
        return node

    def stop(self) -> None:
        """End all its children; each keeps what was said."""
        self.stopping = True
        for stop in list(self._stops):
            stop("")
        self.tree.wake()

    def watch(self, stop: Callable[[str], None]) -> Callable[[], None]:
        """Have ``stop`` called with those of the other children; returns what ends that."""
        self._stops.append(stop)
        return lambda: self._stops.remove(stop)

    @asynccontextmanager
    async def waiting(self) -> AsyncGenerator[None, None]:
        """Inside, the call waits for children, and its own session needs no slot."""
        self.node.begin_waiting()
        try:
            yield
        finally:
            await self.node.end_waiting(lambda: self.stopping)

    def key(self, work: Assignment) -> str:
        """The name of a child run of this call: the same each time the call runs."""
        return f"{self.lineage.parent}:{self.ctx.call_id}:{work.place}"

    async def session_of(self, work: Assignment) -> str:
        """The session that a child runs in.

        Raises:
            ToolError: the thread is none of this agent's below this root.
        """
        agent, parent = work.agent, self.lineage.parent
        if work.thread:
            await self._check_thread(work)
            return work.thread
        if agent.context == "isolated":
            return session_id(agent.name, "isolated", parent, agent.name)
        return session_id(agent.name, parent, self.ctx.call_id, work.place)

    async def _check_thread(self, work: Assignment) -> None:
        name = work.agent.name
        if work.agent.context == "isolated":
            raise ToolError(f"agent {name!r} has one conversation with you: leave thread out")
        try:
            state = await self.host.logs.state(work.thread, self.nest.config.codec)
        except LogError as error:
            raise ToolError(f"thread {work.thread!r} cannot be read: {error}") from error
        lineage = state.lineage if state is not None else None
        ours = lineage is not None and lineage.root == self.lineage.root
        if state is None or not ours or state.agent != name:
            raise ToolError(
                f"no such thread of agent {name!r}: {work.thread!r}; leave thread out to begin one"
            )

    async def check_limits(self, key: str) -> None:
        """See that one more child may be started.

        Raises:
            ToolError: it may not.
        """
        limits, depth = self.host.limits, len(self.lineage.path)
        if depth > limits.depth:
            raise ToolError(
                f"no agent can be called at this depth: {limits.depth} levels are the limit; do it yourself"
            )
        await self._count_earlier()
        if key not in self.tree.begun and len(self.tree.begun) >= limits.descendants:
            raise ToolError(
                f"no more agents can be called: {limits.descendants} are the limit; go on with what you have"
            )

    async def _count_earlier(self) -> None:
        """Count what earlier processes began below this session, once."""
        if self.tree.counted:
            return
        self.tree.counted = True
        log = self.nest.config.log
        if log is not None and self.nest.state.child_count:
            await self._count([fact async for fact in log.read()])

    async def _count(self, facts: Iterable[Fact]) -> None:
        below: dict[str, None] = {}
        for fact in facts:
            if isinstance(fact, ChildStarted):
                self.tree.begun.add(run_name(fact.call_id, fact.child))
                below[fact.child] = None
        for child in below:
            await self._count(await self.host.logs.facts(child))


def run_name(call_id: str, session: str) -> str:
    """What a child run is counted under: once, however often it goes on."""
    return f"{call_id}/{session}"
