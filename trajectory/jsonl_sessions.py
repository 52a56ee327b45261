"""Sessions as files of one folder, ``<session>.jsonl`` each.

Read with: ``sessions.py`` (what each method is for), ``jsonl.py``, ``forking.py``.
"""

import mmap
import os
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any, Final, Self

from msgspec.structs import replace

from unspool.kernel.codec import Codec, Record
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact

from . import loading
from .durability import BUFFERED, Durability
from .forking import check_circle, first_record, fork_log, last_record
from .head import Head
from .header import Header
from .jsonl import JsonlLog
from .jsonl_reading import blobs_of, parent_path, snapshot_path
from .lease import take_lease
from .lines import LogPath
from .loading import decode_line
from .sessions import (
    Infos,
    Names,
    SessionInfo,
    about,
    append_about,
    begun,
    check_id,
    exists,
    has_forks,
    in_order,
    is_below,
    name_new,
    new_id,
    no_session,
)
from .verify import Report, Salvaged, salvage, verify

_SUFFIX: Final = ".jsonl"
_CHANGED: Final = b'\n{"type":"session_changed"'


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
            raise no_session(session, self.path)
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
            raise exists(session, path)
        log = self._log(path, session, namespace=namespace, sender=sender)
        return name_new(self, log, title, metadata, time.time())

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
        infos = [self._info(path) for path in self._paths()]
        wanted = [
            info
            for info in infos
            if is_below(info.namespace, namespace) and (sender is None or info.sender == sender)
        ]
        return in_order(wanted, limit)

    def _paths(self) -> Names:
        if not os.path.isdir(self.path):
            return []
        with os.scandir(self.path) as entries:
            return [entry.path for entry in entries if entry.name.endswith(_SUFFIX) and entry.is_file()]

    def info(self, session: str) -> SessionInfo:
        """See ``Sessions.info``."""
        return self._info(self._existing(session))

    def _info(self, path: str) -> SessionInfo:
        """What the ends of a file say of its session."""
        session = os.path.basename(path).removesuffix(_SUFFIX)
        info = SessionInfo(session=session, path=path)
        try:
            with open(path, "rb") as file:
                header, _, begin = first_record(file, path)
                info = begun(session, path, header)
                last = last_record(file, begin)
                if last is not None:
                    info = replace(info, facts=last.seq, updated=last.time)
            title, metadata = about(_changes(path, header, self._codec or Codec()))
        except OSError as error:
            return replace(info, problem=error.strerror or str(error))
        except LogError as error:
            return replace(info, problem=str(error))
        return replace(info, title=title, metadata=metadata)

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
        fork_log(
            source, target, at, session=to, namespace=header.namespace, sender=header.sender,
            redacted=bool(self._redact),
        )  # fmt: skip
        return to

    def annotate(
        self, session: str, *, title: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """See ``Sessions.annotate``."""
        with self.open(session) as log:
            append_about(log, title, metadata, time.time())

    def delete(self, session: str, *, forks: bool = False) -> Names:
        """See ``Sessions.delete``."""
        self._existing(session)
        children: dict[str, Names] = {}
        for info in self.list():
            if info.parent is not None:
                children.setdefault(info.parent.session, []).append(info.session)
        if session in children and not forks:
            raise has_forks(session, children[session])
        family = [session]
        for name in family:  # which grows meanwhile
            family += [child for child in children.get(name, ()) if child not in family]
        paths = [self._file(name) for name in reversed(family)]
        with ExitStack() as leases:
            for path in paths:
                leases.enter_context(_Lease(path))
            for path in paths:
                _remove(path)
        return family[::-1]

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
        try:
            self._fd = os.open(path, os.O_RDWR)
        except OSError as error:
            raise LogError("log: cannot be opened", path=path, reason=error.strerror) from error
        try:
            take_lease(self._fd, path)
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError as error:
        raise LogError("log: cannot be deleted", path=path, reason=error.strerror) from error
    shutil.rmtree(blobs_of(path).folder, ignore_errors=True)
    with suppress(FileNotFoundError):
        os.unlink(snapshot_path(path))


def _header(path: str) -> Header:
    try:
        with open(path, "rb") as file:
            return first_record(file, path)[0]
    except OSError as error:
        raise LogError("log: cannot be read", path=path, reason=error.strerror) from error


def _changes(path: str, header: Header, codec: Codec) -> Iterator[Fact]:
    """What people called a session, those it was forked from included, the newest first."""
    last, seen = sys.maxsize, set[str]()
    while True:
        check_circle(path, seen)
        yield from _changes_in(path, last, codec)
        if header.parent is None:
            return
        last, path = min(last, header.parent.seq), parent_path(header, path)
        header = _header(path)


def _changes_in(path: str, last: int, codec: Codec) -> Iterator[Fact]:
    """Those of one file, of facts up to number ``last``."""
    get = blobs_of(path).get
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        end = data.rfind(b"\n")  # what follows is torn
        while (place := data.rfind(_CHANGED, 0, end)) >= 0:
            line, end = data[place + 1 : data.find(b"\n", place + 1)], place
            fact = decode_line(line, get, codec, 0, path)
            if fact.seq <= last:
                yield fact
