"""What one log says of its session and of those directly below it, read in one pass.

Of a session that was forked, what it has used and whom it has called count from the fork on: the rest is in the
log that it was forked from.

Read with: ``session_tree.py`` (who puts logs together), ``session_lineage.py``, ``unspool.kernel.events`` (the facts).
"""

import os

from msgspec import Struct

from unspool.kernel.errors import LogError
from unspool.kernel.events import (
    AgentEnd,
    AgentStart,
    ApprovalDecided,
    ApprovalRequested,
    ChildEnded,
    ChildStarted,
    Fact,
    Handoff,
    Lineage,
    MessageEnd,
    ModelResponse,
    ToolExecDispatch,
    ToolExecEnd,
    TurnEnd,
    TurnStart,
)
from unspool.kernel.messages import NO_USAGE, Usage
from unspool.trajectory import JsonlSessions, SessionInfo, Sessions
from unspool.trajectory.lease import take_lease


class Wait(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session waits for. ``kind``: approval (a person decides on a call), child (a nested session goes on).

    ``id`` is the call, as the waiting session names it. ``session`` and ``agent`` (names from the root down, where
    they are known) say whose call it is, or which nested session goes on.
    """

    kind: str
    id: str = ""
    tool: str = ""
    session: str = ""
    agent: tuple[str, ...] = ()
    reason: str = ""


class Below(Struct, kw_only=True):
    """What a log says of a nested session: ``usage`` is what it accounts for it, ``open`` whether that has no end."""

    session: str
    agent: str = ""
    call_id: str = ""
    mode: str = ""
    started: float = 0.0
    open: bool = True
    usage: Usage = NO_USAGE


class SessionLog(Struct, kw_only=True):
    """What was read of a log, up to its end or its first damage.

    ``state``, the times and ``problem``: as in ``Node``, but nothing is repeated.
    """

    session: str
    state: str = "new"
    problem: str = ""
    agent: str = ""
    lineage: Lineage | None = None
    runs: int = 0
    turns: int = 0
    tool_calls: int = 0
    usage: Usage = NO_USAGE
    by_agent: dict[str, Usage] = {}
    handoffs: list[Handoff] = []
    below: dict[str, Below] = {}
    approvals: list[Wait] = []
    started: float = 0.0
    ended: float | None = None
    updated: float = 0.0
    end_reason: str = ""


def read_log(sessions: Sessions, session: str) -> SessionLog:
    """What the log of a session says; one that is missing or damaged says that."""
    log = SessionLog(session=session)
    reading = _Reading(log)
    try:
        info = sessions.info(session)
        reading.base = info.parent.seq if info.parent else 0
        log.started = log.updated = info.created
        for fact in sessions.facts(session):
            reading.add(fact)
    except LogError as error:
        missing = error.details.get("kind") == "no_session"
        log.state, log.problem = "missing" if missing else "damaged", str(error)
    else:
        if reading.active:
            log.state = "running" if _has_writer(sessions, info) else "lost"
        elif reading.begun:
            log.state = "paused" if log.end_reason == "paused" else "ended"
    log.approvals = [wait for waits in reading.waiting.values() for wait in waits.values()]
    return log


def _has_writer(sessions: Sessions, info: SessionInfo) -> bool:
    """Whether somebody has the log open for writing, in whatever process."""
    try:
        if isinstance(sessions, JsonlSessions):  # opening it would cut off a torn last line
            fd = os.open(info.path, os.O_RDONLY)
            try:
                take_lease(fd, info.path)
            finally:
                os.close(fd)
        else:
            sessions.open(info.session).close()
    except LogError as error:
        return error.details.get("kind") == "busy"
    except OSError:
        return False  # it was deleted meanwhile
    return False


class _Reading:
    """How far a log has been read.

    ``waiting`` are the calls that a person decides on, by the call of this session that they belong to.
    """

    def __init__(self, log: SessionLog) -> None:
        self.base = 0  # the last fact that it was forked with
        self.active = False
        self.begun = False
        self.waiting: dict[str, dict[str, Wait]] = {}
        self._log = log
        self._above: dict[str, str] = {}  # the call of this session, by the ids of calls below it
        self._tools: dict[str, str] = {}  # of the newest reply, by call
        self._holder = self._acting = ""
        self._replied = True

    def add(self, fact: Fact) -> None:
        self._log.updated = fact.time
        self._follow(fact)
        if fact.seq > self.base:
            self._count(fact)

    def _follow(self, fact: Fact) -> None:
        """Where the session stands; that it has from the one it was forked from, too."""
        match fact:
            case AgentStart():
                self.begun = self.active = True
                self._log.agent = self._holder = fact.agent
                self._log.end_reason, self._log.ended = "", None
            case AgentEnd():
                self.active = False
                self._log.end_reason, self._log.ended = fact.reason, fact.time
            case Handoff():
                self._log.agent = self._holder = fact.target
            case TurnEnd():
                self.waiting.clear()
                self._above.clear()
            case MessageEnd() if fact.message is not None and fact.message.role == "assistant":
                self._tools = {call.id: call.name for call in fact.message.tool_calls}
            case ApprovalRequested():
                self._ask(fact)
            case ApprovalDecided():
                above = self._above.pop(fact.call_id, fact.call_id)
                self.waiting.get(above, {}).pop(fact.call_id, None)
            case ToolExecDispatch() | ToolExecEnd():
                self.waiting.pop(fact.call_id, None)
            case _:
                return

    def _ask(self, fact: ApprovalRequested) -> None:
        for call_id in fact.call_ids:
            self.waiting[call_id] = {each.id: each for each in self._waits(fact, call_id)}
        for nested in fact.nested:
            self._above[nested.id] = fact.call_ids[0]

    def _waits(self, fact: ApprovalRequested, call_id: str) -> list[Wait]:
        if not fact.nested:
            tool = self._tools.get(call_id, "")
            agent = (*(self._log.lineage.path if self._log.lineage else ()), self._holder)
            return [
                Wait(
                    kind="approval",
                    id=call_id,
                    tool=tool,
                    session=self._log.session,
                    agent=agent,
                    reason=fact.reason,
                )
            ]
        return [
            Wait(
                kind="approval",
                id=nested.id,
                tool=nested.call.name,
                session=nested.session,
                agent=nested.agent,
                reason=nested.reason,
            )
            for nested in fact.nested
        ]

    def _count(self, fact: Fact) -> None:
        """What is the session's own."""
        log = self._log
        match fact:
            case AgentStart():
                self._acting = self._acting or self._holder
                log.runs += 1
                if log.runs == 1:
                    log.started, log.lineage = fact.time, fact.lineage
            case TurnStart():
                self._acting, self._replied = self._holder, False
            case MessageEnd():
                self._message(fact)
            case ModelResponse():
                log.usage += fact.usage
                log.by_agent[self._acting] = log.by_agent.get(self._acting, NO_USAGE) + fact.usage
            case ToolExecEnd():
                log.tool_calls += 1
            case Handoff():
                log.handoffs.append(fact)
            case ChildStarted() | ChildEnded():
                self._child(fact)
            case _:
                return

    def _message(self, fact: MessageEnd) -> None:
        """A turn counts once its reply is there."""
        written = bool(fact.queue_id or fact.cause) or fact.app is not None
        if (
            fact.message is not None
            and fact.message.role == "assistant"
            and not written
            and not self._replied
        ):
            self._log.turns += 1
            self._replied = True

    def _child(self, fact: ChildStarted | ChildEnded) -> None:
        below = self._log.below.get(fact.child)
        if below is None:
            below = self._log.below[fact.child] = Below(session=fact.child, started=fact.time)
        below.agent, below.call_id = fact.agent or below.agent, fact.call_id or below.call_id
        if isinstance(fact, ChildStarted):
            below.open, below.mode = True, fact.mode or below.mode
        else:
            below.open = False
            below.usage += fact.usage
