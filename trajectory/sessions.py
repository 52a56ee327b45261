"""Sessions: many logs in one place, found, begun, gone on with, forked, deleted.

``sessions(path)`` opens a place: a folder of JSONL files, or a SQLite file. Both do the same.

Read with: ``jsonl_sessions.py``, ``sqlite_sessions.py``, ``points.py`` (where to fork).
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from msgspec import Struct

from unspool.kernel.codec import Codec, Record
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact, SessionChanged
from unspool.kernel.json_edge import clean_json, clean_text
from unspool.kernel.ports import EventLog
from unspool.kernel.redaction import holds_key
from unspool.kernel.state import AgentState

from .head import Head
from .header import Header, Parent
from .verify import Report, Salvaged


class SessionInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What can be said of a session without reading it: for lists.

    ``facts`` counts those it was forked with, too. ``created`` and ``updated`` are seconds since the epoch,
    ``updated`` the time of the last fact. ``problem`` says why nothing more is known.
    """

    session: str
    title: str = ""
    namespace: str = ""
    sender: str = ""
    metadata: dict[str, Any] = {}
    created: float = 0.0
    updated: float = 0.0
    facts: int = 0
    parent: Parent | None = None
    path: str = ""
    problem: str = ""


Infos: TypeAlias = list[SessionInfo]
Names: TypeAlias = list[str]  # a class with a method ``list`` cannot say it itself


class SessionHandle(EventLog, Protocol):
    """A log of a place of sessions, open for writing."""

    @property
    def session(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def head(self) -> Head: ...
    def records(self) -> Iterator[Record]: ...
    def state(self, codec: Codec | None = None, /) -> AgentState: ...
    def snapshot(self, state: AgentState | None = None) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


HandleT = TypeVar("HandleT", bound=SessionHandle)


class Sessions(Protocol):
    """A place that keeps sessions. Methods raise ``LogError``; ``no_session`` is its kind where one is missing."""

    @property
    def path(self) -> str: ...

    def create(
        self,
        session: str = "",
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        sender: str = "",
    ) -> SessionHandle:
        """Begin a session and open it for writing; its id is random where ``session`` is empty.

        Raises:
            LogError: there is one with that id, or the id has characters other than ``A-Za-z0-9._-``.
        """
        ...

    def open(self, session: str) -> SessionHandle:
        """A session, to be gone on with: it has one writer at a time.

        Raises:
            LogError: there is none, it has another writer, or it is damaged.
        """
        ...

    def list(
        self, *, namespace: str | None = None, sender: str | None = None, limit: int | None = None
    ) -> Infos:
        """The sessions, that with the newest fact first. A ``namespace`` has those below it, too."""
        ...

    def info(self, session: str) -> SessionInfo:
        """What there is to say of one session."""
        ...

    def facts(self, session: str) -> Iterator[Fact]:
        """The facts of a session; needs no lease.

        Raises:
            LogError: there is none, or it is damaged.
        """
        ...

    def records(self, session: str) -> Iterator[Record]:
        """The same with their bytes as stored."""
        ...

    def follow(self, session: str, start: int = 0, *, poll_s: float = 0.1) -> AsyncGenerator[Fact, None]:
        """Facts with ``start < seq`` as another process writes them; it waits for more until closed."""
        ...

    def fork(self, session: str, at: int | None = None, *, to: str = "") -> str:
        """Begin a session that shares the facts of ``session`` up to number ``at`` (all, if None); its id.

        What it costs does not depend on how many facts that are.

        Raises:
            LogError: there is no such session or fact, or one with the id ``to``.
        """
        ...

    def annotate(
        self, session: str, *, title: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Give a session a title, or replace its metadata; a fact like any other.

        Raises:
            LogError: there is none, or it has a writer at the moment.
        """
        ...

    def delete(self, session: str, *, forks: bool = False) -> Names:
        """Delete a session, and with ``forks`` what was forked from it; the ids of what is gone.

        Raises:
            LogError: there is none, it has a writer, or forks share its facts and ``forks`` is not set.
        """
        ...

    def verify(self, session: str, *, head: Head | str | None = None, repair: bool = False) -> Report:
        """Everything that is wrong with a session. See ``unspool.trajectory.verify``."""
        ...

    def salvage(self, session: str) -> Salvaged:
        """What is whole of a damaged session."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


def is_below(namespace: str, wanted: str | None) -> bool:
    """Whether a namespace is ``wanted`` or below it."""
    return wanted is None or namespace == wanted or namespace.startswith(f"{wanted.rstrip('/')}/")


def append_about(
    log: SessionHandle, title: str | None, metadata: Mapping[str, Any] | None, now: float
) -> SessionChanged | None:
    """Store what people call a session as its next fact, without keys of model providers; that fact, if any."""
    if title is not None or metadata is not None:
        if title is not None and holds_key(title):
            title = clean_text(title)
        noted = None if metadata is None else dict(metadata)
        if holds_key(noted):
            noted = clean_json(noted)[0]
        fact = SessionChanged(seq=log.seq + 1, time=now, title=title, metadata=noted)
        log.append(fact)
        return fact
    return None


def name_new(
    place: Sessions, log: HandleT, title: str, metadata: Mapping[str, Any] | None, now: float
) -> HandleT:
    """``log``, of a session just begun, with what it is called as its first fact.

    Raises:
        LogError: that is refused; nothing is left of the session.
    """
    try:
        append_about(log, title or None, metadata, now)
    except BaseException:
        log.close()
        place.delete(log.session)
        raise
    return log


def begun(session: str, path: str, header: Header) -> SessionInfo:
    """What the header of a session says of it."""
    return SessionInfo(
        session=session,
        namespace=header.namespace,
        sender=header.sender,
        created=header.created,
        updated=header.created,
        facts=header.parent.seq if header.parent else 0,
        parent=header.parent,
        path=path,
    )


def about(changes: Iterable[Fact]) -> tuple[str, dict[str, Any]]:
    """What people last called a session, given the newest first: title and metadata may come from different
    facts."""
    title: str | None = None
    metadata: dict[str, Any] | None = None
    for fact in changes:
        if isinstance(fact, SessionChanged):
            title = fact.title if title is None else title
            metadata = fact.metadata if metadata is None else metadata
            if title is not None and metadata is not None:
                break
    return title or "", metadata or {}


def exists(session: str, path: str) -> LogError:
    """The error for a session that is to be begun again."""
    return LogError("log: there is such a session already", kind="exists", path=path, session=session)


def no_session(session: str, path: str) -> LogError:
    """The error for a session that is not there."""
    return LogError("log: there is no such session", kind="no_session", path=path, session=session)


def has_forks(session: str, forks: list[str]) -> LogError:
    """The error for a session that is to be deleted and has forks."""
    return LogError(
        "log: forks share the facts of this session", kind="has_forks", session=session, forks=forks
    )


def no_fact(session: str, at: int, last: int) -> LogError:
    """The error for a fork at a fact that is not there."""
    return LogError(
        "log: there is no such fact to fork at", kind="no_fact", session=session, at=at, last=last
    )


def in_order(infos: Iterable[SessionInfo], limit: int | None) -> list[SessionInfo]:
    """Newest first, those of one time by id."""
    return sorted(infos, key=lambda info: (-info.updated, info.session))[:limit]
