"""Where the logs of children are kept: in a place of sessions, or in memory.

Read with: ``child.py`` (the caller), ``unspool.trajectory.sessions``.
"""

import hashlib
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec
from anyio import to_thread

from unspool.kernel.codec import Codec
from unspool.kernel.errors import LogError, ToolError
from unspool.kernel.events import Fact
from unspool.kernel.ports import EventLog
from unspool.kernel.state import AgentState, fold
from unspool.trajectory.memory import MemoryLog
from unspool.trajectory.sessions import SessionHandle, Sessions

T = TypeVar("T")


class OpenLog(NamedTuple):
    """The log of a child, its state by now, and its facts so far."""

    log: EventLog
    state: AgentState
    facts: Iterable[Fact]


class ChildLogs:
    """The logs of children, by their sessions."""

    def __init__(self, sessions: Sessions | None) -> None:
        self._sessions = sessions
        self._logs: dict[str, MemoryLog] = {}

    @asynccontextmanager
    async def open(
        self, session: str, codec: Codec, *, namespace: str, agent: str
    ) -> AsyncGenerator[OpenLog, None]:
        """The log of a session, begun where there is none yet; it has one writer at a time.

        Raises:
            ToolError: it cannot be had.
        """
        if self._sessions is None:
            log = self._logs.setdefault(session, MemoryLog(session=session))
            yield OpenLog(log, log.state(codec), log.facts)
            return
        try:  # not cancelled half-way: whoever opens it closes it
            found = await to_thread.run_sync(_take, self._sessions, session, codec, namespace, agent)
        except LogError as error:
            raise ToolError(f"agent {agent!r}: its session {session} cannot be opened: {error}") from error
        try:
            yield found
        finally:
            await found.log.aclose()

    async def state(self, session: str, codec: Codec) -> AgentState | None:
        """The state of a session; None where there is none."""
        if self._sessions is None:
            log = self._logs.get(session)
            return None if log is None else log.state(codec)
        return await to_thread.run_sync(_look, self._sessions, session)

    async def facts(self, session: str) -> list[Fact]:
        """The facts of a session; none where it is not here."""
        if self._sessions is None:
            log = self._logs.get(session)
            return [] if log is None else list(log.facts)
        return await to_thread.run_sync(_facts, self._sessions, session)


def _take(sessions: Sessions, session: str, codec: Codec, namespace: str, agent: str) -> OpenLog:
    """Open or create; in a worker thread."""
    try:
        log: SessionHandle = sessions.open(session)
    except LogError as error:
        if error.details.get("kind") != "no_session":
            raise
        log = sessions.create(session, namespace=namespace, sender=agent)
        return OpenLog(log, AgentState(), ())
    try:
        return OpenLog(log, log.state(codec), [record.fact for record in log.records()])
    except BaseException:
        log.close()
        raise


def _look(sessions: Sessions, session: str) -> AgentState | None:
    facts = _facts(sessions, session)
    return fold(facts) if facts else None


def _facts(sessions: Sessions, session: str) -> list[Fact]:
    try:
        return list(sessions.facts(session))
    except LogError as error:
        if error.details.get("kind") == "no_session":
            return []
        raise


def session_id(agent: str, *place: Any) -> str:
    """The id of the session of ``agent`` that belongs to a place, the same each time."""
    digest = hashlib.sha256(msgspec.json.encode(place)).hexdigest()[:16]
    return f"{agent.lstrip('_-') or 'agent'}-{digest}"
