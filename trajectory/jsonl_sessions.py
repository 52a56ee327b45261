"""Sessions as files of one folder, ``<session>.jsonl`` each.

Read with: ``sessions.py`` (what each method is for), ``jsonl.py``, ``forking.py``.
"""

import mmap
import os
import shutil
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import Any, Final, Self

import msgspec

from unspool.kernel.codec import Codec, Record
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact

from . import loading
from .durability import BUFFERED, Durability
from .forking import fork_log, last_record
from .head import Head
from .header import Header, read_header
from .jsonl import JsonlLog
from .jsonl_reading import blobs_of
from .lease import take_lease
from .lines import LogPath
from .sessions import Infos, Names, SessionInfo, append_about, check_id, in_order, is_below, new_id
from .verify import Report, Salvaged, salvage, verify

_SUFFIX: Final = ".jsonl"
_CHANGED: Final = b'\n{"type":"session_changed"'


class _About(msgspec.Struct):
    title: str | None = None
    metadata: dict[str, Any] | None = None


_about = msgspec.json.Decoder(_About).decode


class JsonlSessions:
    """A ``Sessions`` whose logs are JSONL files of ``folder``, made with the first session."""

    def __init__(
        self,
        folder: LogPath,
        codec: Codec | None = None,
        *,
        durability: Durability = BUFFERED,
        redact: Iterable[str] = (),
    ) -> None:
        self.path = os.fspath(folder)
        self._codec = codec
        self._durability = durability
        self._redact = tuple(redact)

    def _file(self, session: str) -> str:
        return os.path.join(self.path, f"{check_id(session)}{_SUFFIX}")

    def _existing(self, session: str) -> str:
        path = self._file(session)
        if not os.path.exists(path):
            raise LogError(
                "log: there is no such session", kind="no_session", path=self.path, session=session
            )
        return path

    def create(
        self,
        session: str = "",
        *,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        namespace: str = "",
        sender: str = "",
    ) -> JsonlLog:
        """See ``Sessions.create``."""
        session = session or new_id()
        path = self._file(session)
        if os.path.exists(path) and os.path.getsize(path):
            raise LogError("log: there is such a session already", kind="exists", path=path, session=session)
        log = self._log(path, session, namespace=namespace, sender=sender)
        append_about(log, title or None, metadata, time.time())
        return log

    def open(self, session: str) -> JsonlLog:
        """See ``Sessions.open``."""
        return self._log(self._existing(session), session)

    def _log(self, path: str, session: str, **about: str) -> JsonlLog:
        return JsonlLog(
            path, self._codec, durability=self._durability, redact=self._redact, session=session,
            namespace=about.get("namespace", ""), sender=about.get("sender", ""),
        )  # fmt: skip

    def list(
        self, *, namespace: str | None = None, sender: str | None = None, limit: int | None = None
    ) -> Infos:
        """See ``Sessions.list``."""
        infos = [_info(path) for path in self._paths()]
        wanted = [
            info
            for info in infos
            if is_below(info.namespace, namespace) and (sender is None or info.sender == sender)
        ]
        return in_order(wanted, limit)

    def _paths(self) -> Names:
        if not os.path.isdir(self.path):
            return []
        return [
            entry.path for entry in os.scandir(self.path) if entry.name.endswith(_SUFFIX) and entry.is_file()
        ]

    def info(self, session: str) -> SessionInfo:
        """See ``Sessions.info``."""
        return _info(self._existing(session))

    def facts(self, session: str) -> Iterator[Fact]:
        """See ``Sessions.facts``."""
        return loading.iter_facts(self._existing(session), self._codec)

    def records(self, session: str) -> Iterator[Record]:
        """See ``Sessions.records``."""
        return loading.iter_records(self._existing(session), self._codec)

    def follow(self, session: str, start: int = 0, *, poll_s: float = 0.1) -> AsyncGenerator[Fact, None]:
        """See ``Sessions.follow``."""
        return loading.follow(self._existing(session), start, self._codec, poll_s=poll_s)

    def fork(self, session: str, at: int | None = None, *, to: str = "") -> str:
        """See ``Sessions.fork``."""
        to = to or new_id()
        source, target = self._existing(session), self._file(to)
        header = _header(source)
        fork_log(source, target, at, session=to, namespace=header.namespace, sender=header.sender)
        return to

    def annotate(
        self, session: str, *, title: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """See ``Sessions.annotate``."""
        with self.open(session) as log:
            append_about(log, title, metadata, time.time())

    def delete(self, session: str, *, forks: bool = False) -> Names:
        """See ``Sessions.delete``."""
        path = self._existing(session)
        children = [
            info.session for info in self.list() if info.parent is not None and info.parent.session == session
        ]
        if children and not forks:
            raise LogError(
                "log: forks share the facts of this session",
                kind="has_forks",
                session=session,
                forks=children,
            )
        gone = [other for child in children for other in self.delete(child, forks=True)]
        with self._lease(path):
            os.unlink(path)
            shutil.rmtree(blobs_of(path).folder, ignore_errors=True)
        return [*gone, session]

    def _lease(self, path: str) -> "_Lease":
        return _Lease(path)

    def verify(self, session: str, *, head: Head | str | None = None, repair: bool = False) -> Report:
        """See ``Sessions.verify``."""
        return verify(self._existing(session), self._codec, head=head, repair=repair)

    def salvage(self, session: str) -> Salvaged:
        """See ``Sessions.salvage``."""
        return salvage(self._existing(session), self._codec)

    def close(self) -> None:
        """Nothing is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Lease:
    """The right to write a log that may be damaged: to delete it."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR)
        try:
            take_lease(self._fd, path)
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _header(path: str) -> Header:
    with open(path, "rb") as file:
        return read_header(file.readline().rstrip(b"\n"), path=path)[0]


def _info(path: str) -> SessionInfo:
    """What the ends of a file say of its session."""
    session = os.path.basename(path).removesuffix(_SUFFIX)
    try:
        with open(path, "rb") as file:
            first = file.readline()
            header, _ = read_header(first.rstrip(b"\n"), path=path)
            last = last_record(file, len(first))
            about = _last_about(file)
    except (OSError, LogError) as error:
        return SessionInfo(session=session, path=path, problem=str(error))
    parent = header.parent
    return SessionInfo(
        session=session,
        title=about.title or "",
        metadata=about.metadata or {},
        namespace=header.namespace,
        sender=header.sender,
        created=header.created,
        updated=last.time if last else header.created,
        facts=last.seq if last else (parent.seq if parent else 0),
        parent=parent,
        path=path,
    )


def _last_about(file: Any) -> _About:
    """What people last called the session; a title and metadata may come from different facts."""
    title: str | None = None
    metadata: dict[str, Any] | None = None
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place = data.rfind(_CHANGED)
        while place >= 0 and (title is None or metadata is None):
            end = data.find(b"\n", place + 1)
            if end >= 0:
                found = _about(data[place + 1 : end])
                title = found.title if title is None else title
                metadata = found.metadata if metadata is None else metadata
            place = data.rfind(_CHANGED, 0, place)
    return _About(title, metadata)
