"""Where sessions are kept, and which one a person means.

The store is a SQLite file or a folder of JSONL files. A session is named by its id, by the beginning of
one, or, if it is a JSONL file of its own, by that file's path.

Read with: ``app.py`` (the options), ``unspool.trajectory.sessions``.
"""

import os
import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

import anyio

from unspool.kernel.codec import Record
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact
from unspool.subagent.session_lineage import nested_in
from unspool.trajectory import (
    JsonlLog,
    JsonlSessions,
    Report,
    SessionHandle,
    Sessions,
    SqliteSessions,
    fork_log,
    iter_facts,
    iter_records,
    verify,
)
from unspool.trajectory.blobs import attach
from unspool.trajectory.files import is_database
from unspool.trajectory.loading import fact_of, reader_of
from unspool.trajectory.record import body_of

DEFAULT_STORE: Final = os.path.join(".unspool", "sessions.db")
_DATABASES: Final = (".db", ".sqlite", ".sqlite3")
_NAMED: Final = 5  # sessions in an error
_POLL_S: Final = 0.1  # between two looks at a file that is followed
_SURE: Final = 8  # characters of a random id that name nothing else by mistake
_RANDOM: Final = re.compile("[0-9a-f]{32}")


class Place(Protocol):
    """One session, wherever it is kept. Methods raise ``LogError``."""

    @property
    def name(self) -> str: ...
    def facts(self) -> Iterator[Fact]: ...
    def records(self) -> Iterator[Record]: ...
    def follow(self, start: int) -> AsyncGenerator[Record, None]: ...
    def open(self) -> SessionHandle: ...
    def verify(self, head: str | None, *, repair: bool) -> Report: ...
    def fork(self, at: int | None, to: str) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session of a store; closes it."""

    sessions: Sessions
    name: str

    def facts(self) -> Iterator[Fact]:
        return self.sessions.facts(self.name)

    def records(self) -> Iterator[Record]:
        return self.sessions.records(self.name)

    def follow(self, start: int) -> AsyncGenerator[Record, None]:
        if isinstance(self.sessions, SqliteSessions):
            return self.sessions.follow_records(self.name, start)
        return _follow_file(self.sessions.info(self.name).path, start)

    def open(self) -> SessionHandle:
        return self.sessions.open(self.name)

    def verify(self, head: str | None, *, repair: bool) -> Report:
        return self.sessions.verify(self.name, head=head, repair=repair)

    def fork(self, at: int | None, to: str) -> str:
        return self.sessions.fork(self.name, at, to=to)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sessions.close()


@dataclass(frozen=True, slots=True)
class LogFile:
    """A session that is a JSONL file of its own; its name is the path."""

    name: str

    def facts(self) -> Iterator[Fact]:
        return iter_facts(self.name)

    def records(self) -> Iterator[Record]:
        return iter_records(self.name)

    def follow(self, start: int) -> AsyncGenerator[Record, None]:
        return _follow_file(self.name, start)

    def open(self) -> SessionHandle:
        if not os.path.exists(self.name):  # it is gone on with, never made
            raise LogError("log: cannot be opened", path=self.name, reason="No such file or directory")
        if os.path.isfile(self.name) and os.path.getsize(self.name) == 0:
            raise LogError("log: there is nothing in it to go on from", path=self.name)
        return JsonlLog(self.name)

    def verify(self, head: str | None, *, repair: bool) -> Report:
        return verify(self.name, head=head, repair=repair)

    def fork(self, at: int | None, to: str) -> str:
        """Fork it into another file ``to``."""
        if not to:
            raise LogError("fork: a file is forked into another one, give --to FILE", path=self.name)
        fork_log(self.name, to, at)
        return to

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held open."""


async def _follow_file(path: str, start: int) -> AsyncGenerator[Record, None]:
    """The records of a JSONL log after number ``start``, and those to come, with their bytes as stored."""
    reader, once = reader_of(path, None)
    try:
        while True:
            for stored in reader.available():
                if stored.seq > start:
                    yield Record(fact_of(stored, once), attach(body_of(stored.line), stored.blobs.get))
            reader.check_place()
            await anyio.sleep(_POLL_S)
    finally:
        reader.close()


def open_store(path: str = "", *, create: bool = False) -> Sessions:
    """The store at ``path``, the default one if that is empty.

    With ``create`` it is made if missing; the default one's folder stays out of git.

    Raises:
        LogError: there is none (kind ``no_store``), it cannot be opened, or is something else.
    """
    place = path or DEFAULT_STORE
    if not create and not os.path.exists(place):
        raise LogError("store: there are no sessions yet", kind="no_store", path=place)
    if create and not path:
        _keep_out_of_git(os.path.dirname(place))
    if os.path.isdir(place) or not (os.path.exists(place) or place.endswith(_DATABASES)):
        return JsonlSessions(place)
    return SqliteSessions(place, create=create)


def _keep_out_of_git(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, ".gitignore"), "x", encoding="utf-8") as file:
            file.write("*\n")
    except OSError:
        pass  # there already; or not writable, which opening the store will say


def find(given: str, store: str = "") -> Place:
    """The session that ``given`` names: the newest one of the store if that is empty.

    An id comes before a file of that name, and a file before ids that begin like it.

    Raises:
        LogError: there is none, or more than one.
    """
    if _is_path(given):
        return _file(given)
    try:
        sessions = open_store(store)
    except LogError as error:
        if os.path.exists(given):
            return _file(given)
        raise _not_found(given, store) if error.details.get("kind") == "no_store" else error from None
    return _search(sessions, given)


def find_stored(given: str, store: str = "") -> StoredSession:
    """The session of the store that ``given`` names beyond doubt: by its id, or by enough of a random one.

    Raises:
        LogError: as ``find``; or it is a file of its own, or only begins like that.
    """
    place = find(given, store)
    if not isinstance(place, StoredSession):
        raise LogError("session: this is a file, and in no store", path=place.name)
    if place.name == given or (len(given) >= _SURE and _RANDOM.fullmatch(place.name)):
        return place
    place.sessions.close()
    raise LogError("session: give its whole id, one begins like that", given=given, sessions=[place.name])


def _search(sessions: Sessions, given: str) -> Place:
    try:
        found = _session(sessions, given)
    except BaseException:
        sessions.close()
        raise
    if found:
        return StoredSession(sessions, found)
    sessions.close()
    return _file(given)


def _session(sessions: Sessions, given: str) -> str:
    """The session's id; empty where ``given`` is a file."""
    if given and has_session(sessions, given):
        return given
    if given and os.path.exists(given):
        return ""
    infos = sessions.list()
    if not given and infos:
        return next((info for info in infos if nested_in(sessions, info) is None), infos[0]).session
    matches = [info for info in infos if info.session.startswith(given)]
    if len(matches) > 1:  # nested sessions may be called after the one above
        matches = [info for info in matches if nested_in(sessions, info) is None] or matches
    if len(matches) == 1:
        return matches[0].session
    if matches:
        names = [info.session for info in matches[:_NAMED]]
        raise LogError("session: more than one begins like that", given=given, sessions=names)
    raise _not_found(given, sessions.path)


def has_session(sessions: Sessions, session: str) -> bool:
    """Whether the store has this very session, damaged or not."""
    try:
        sessions.info(session)
    except LogError as error:
        return error.details.get("kind") not in (None, "no_session")
    return True


def _file(path: str) -> LogFile:
    if _is_store(path):
        raise LogError("session: this is a store of many, give --store PATH and name one", path=path)
    return LogFile(path)


def _is_path(given: str) -> bool:
    return os.sep in given or bool(os.altsep and os.altsep in given)


def _is_store(path: str) -> bool:
    return os.path.isdir(path) or is_database(path)


def _not_found(given: str, store: str) -> LogError:
    place = store or DEFAULT_STORE
    if not given:
        return LogError("session: there is none yet", store=place)
    return LogError("session: there is no such session or file", given=given, store=place)
