"""Where each agent's next command begins: its directory and what it has exported.

Read with: ``bash.py`` (the caller), ``exchange.py`` (what a shell leaves).
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from unspool.kernel.errors import ToolError
from unspool.kernel.events import AgentStart, Fact, ToolExecEnd
from unspool.kernel.ports import ToolContext
from unspool.tools.text import shown, shown_list

from .environment import kept_env
from .exchange import Left

_Key: TypeAlias = tuple[str, tuple[str, ...]]  # a session and an agent in it
_MAX_STATES = 256  # agents remembered; one that is forgotten begins again where it began


class ShellState(Struct, frozen=True, kw_only=True):
    """``start`` is where the agent began. ``env`` is all that a shell exported; None before the first one ended."""

    start: str
    cwd: str
    env: dict[str, str] | None = None


class ShellStates:
    """The states of the agents that were active last. Any thread.

    Agents begin in the first of ``roots``, or where ``start`` says; with ``confine`` no command begins elsewhere than
    below one of these.
    """

    def __init__(
        self, roots: tuple[str, ...], start: Callable[[ToolContext], str] | None, *, confine: bool
    ) -> None:
        self._roots = roots
        self._start = start
        self._confine = confine
        self._states: OrderedDict[_Key, ShellState] = OrderedDict()
        self._lock = Lock()

    def of(self, ctx: ToolContext) -> ShellState:
        """The state of the call's agent; its directory is a new one where it now begins elsewhere than before."""
        given = self._start(ctx) if self._start is not None else ""
        start = os.path.join(self._roots[0], given) if given else self._roots[0]
        with self._lock:
            state = self._states.get(_key(ctx))
        if state is not None and state.start == start:
            return state
        return ShellState(start=start, cwd=start, env=state.env if state is not None else None)

    def begin(self, ctx: ToolContext, state: ShellState, workdir: str | None) -> str:
        """The directory of a command: the agent's, or ``workdir`` from there.

        Raises:
            ToolError: there is no such directory, or no command may begin there. If it is the agent's own, it goes
                back to where it began.
        """
        if not os.path.isdir(state.start):
            raise ToolError(f"the root directory {shown(state.start)} no longer exists")
        if not os.path.isdir(state.cwd) or not self._may_begin(state.cwd, state):
            self._put(ctx, replace(state, cwd=state.start))
            raise ToolError(
                f"the working directory {shown(state.cwd)} no longer exists; nothing was run, the next command "
                f"begins in {shown(state.start)}"
            )
        where = os.path.join(state.cwd, workdir or "")
        if not os.path.isdir(where):
            what = "is not a directory" if os.path.exists(where) else "does not exist"
            raise ToolError(f"working directory {what}: {shown(where)}")
        if not self._may_begin(where, state):
            raise ToolError(f"working directory is outside of {shown_list(self._roots)}: {shown(where)}")
        return os.path.realpath(where)

    def keep(
        self,
        ctx: ToolContext,
        state: ShellState,
        left: Left,
        base: Mapping[str, str],
        *,
        moves: bool,
        command: str = "",
    ) -> list[str]:
        """Remember what a shell left, which began as ``state``; the notes on that. Only one that ``moves`` changes the
        directory. For ``base`` and ``command`` see ``kept_env``.
        """
        cwd, notes = state.cwd, []
        if moves and not left.cwd:
            cwd, notes = state.start, [f"the working directory was deleted: back in {shown(state.start)}"]
        elif moves and not self._may_begin(left.cwd, state):
            back = f"back in {shown(state.start)}"
            cwd, notes = state.start, [f"{shown(left.cwd)} is outside of {shown_list(self._roots)}: {back}"]
        elif moves and left.cwd != os.path.realpath(state.cwd):
            cwd, notes = left.cwd, [f"working directory: {shown(left.cwd)}"]
        if left.env is None:
            notes.append("the exported variables are too large and were not kept for the next command")
            self._put(ctx, replace(state, cwd=cwd))
            return notes
        env, lost = kept_env(left.env, base, command)
        if lost:
            notes.append(
                f"not kept for the next command: {shown_list(lost, 5)}; a command that needs it sets it itself"
            )
        self._put(ctx, replace(state, cwd=cwd, env=env))
        return notes

    def restore(self, facts: Iterable[Fact]) -> None:
        """Take up where agents were, from the facts of their log."""
        key: _Key = ("", ())
        for fact in facts:
            match fact:
                case AgentStart(session=session, agent=agent):
                    key = (session or key[0], (agent,))
                case ToolExecEnd(tool="bash", details={"cwd": str(cwd)}):
                    start = self._roots[0]
                    self._set(key, ShellState(start=start, cwd=cwd))
                case _:
                    continue

    def _may_begin(self, path: str, state: ShellState) -> bool:
        """Whether the directory is one of the roots or below one, all links followed."""
        if not self._confine:
            return True
        real = os.path.realpath(path)
        roots = (*self._roots, os.path.realpath(state.start))
        return any(real == root or real.startswith(root.rstrip("/") + "/") for root in roots)

    def _put(self, ctx: ToolContext, state: ShellState) -> None:
        self._set(_key(ctx), state)

    def _set(self, key: _Key, state: ShellState) -> None:
        with self._lock:
            self._states[key] = state
            self._states.move_to_end(key)
            while len(self._states) > _MAX_STATES:
                self._states.popitem(last=False)


def _key(ctx: ToolContext) -> _Key:
    return ctx.session, ctx.agent
