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
from typing import Any, ClassVar, Final, NoReturn, Self

from msgspec.structs import replace

from unspool.kernel.codec import Codec, Record
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact

from . import loading
from .damage import Damage
from .durability import BUFFERED, Durability
from .files import open_file, real_path, whole_path
from .forking import check_circle, first_record, fork_log, last_record
from .head import Head
from .header import Header, another_session, check_session
from .jsonl import JsonlLog
from .jsonl_reading import blobs_of, parent_path, snapshot_path
from .lease import folder_held, take_lease
from .lines import LogPath
from .loading import decode_line
from .names import SUFFIX, check_id, new_id
from .sessions import (
    Infos,
    Names,
    SessionInfo,
    about,
    append_about,
    begun,
    exists,
    has_forks,
    in_order,
    is_below,
    name_new,
    no_session,
)
from .verify import Report, Salvaged, salvage, verify

_CHANGED: Final = b'\n{"type":"session_changed"'


class _Begun(JsonlLog):
    """The log of a session that is gone on with, never made."""

    _flags: ClassVar[int] = JsonlLog._flags & ~os.O_CREAT

    def _begin(self) -> NoReturn:
        raise no_session(os.path.basename(self.path).removesuffix(SUFFIX), self.path)


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
        self.path = os.fspath(folder)  # as it was given, for people
        self._place = whole_path(self.path)
        self._codec = codec
        self._durability = durability
        self._redact = tuple(redact)

    def _file(self, session: str) -> str:
        return os.path.join(self._place, f"{check_id(session)}{SUFFIX}")

    def _existing(self, session: str) -> str:
        path = self._file(session)
        if not os.path.exists(path):
            raise no_session(session, self.path)
        return path

    def _known(self, session: str) -> str:
        """The file of a session, whose header does not say that it is another one's.

        Raises:
            LogError: it does, or there is none.
        """
        path = self._existing(session)
        try:
            header = _header(path)
        except LogError:
            return path  # reading it says why
        check_session(header, session, path)
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
        if os.path.exists(path) and not _is_being_made(path):
            raise exists(session, path)
        try:
            log = self._log(JsonlLog, path, session, namespace=namespace, sender=sender)
        except LogError as error:
            if error.details.get("kind") == "busy":
                raise exists(session, path) from error  # begun by another one at this moment
            raise
        if not log._begun:
            log.close()
            raise exists(session, path)
        return name_new(self, log, title, metadata, time.time())

    def open(self, session: str) -> JsonlLog:
        """See ``Sessions.open``."""
        path = self._existing(session)
        if _is_being_made(path):
            raise no_session(session, path)
        return self._log(_Begun, path, session)

    def _log(self, kind: type[JsonlLog], path: str, session: str, **about: str) -> JsonlLog:
        return kind(
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
        if not os.path.isdir(self._place):
            return []
        with os.scandir(self._place) as entries:
            return [entry.path for entry in entries if entry.name.endswith(SUFFIX) and entry.is_file()]

    def info(self, session: str) -> SessionInfo:
        """See ``Sessions.info``."""
        return self._info(self._existing(session))

    def _info(self, path: str) -> SessionInfo:
        """What the ends of a file say of its session."""
        session = os.path.basename(path).removesuffix(SUFFIX)
        info = SessionInfo(session=session, path=path)
        try:
            with open_file(path) as file:
                if _is_being_made(path):
                    made = os.fstat(file.fileno()).st_mtime
                    return replace(info, created=made, updated=made)
                header, _, begin = first_record(file, path)
                info = begun(session, path, header)
                last = last_record(file, begin)
                if last is not None:
                    info = replace(info, facts=last.seq, updated=last.time)
            check_session(header, session, path)
            title, metadata = about(_changes(path, header, self._codec or Codec()))
        except OSError as error:
            return replace(info, problem=error.strerror or str(error))
        except LogError as error:
            return replace(info, problem=str(error))
        return replace(info, title=title, metadata=metadata)

    def facts(self, session: str) -> Iterator[Fact]:
        """See ``Sessions.facts``."""
        return loading.iter_facts(self._known(session), self._codec)

    def records(self, session: str) -> Iterator[Record]:
        """See ``Sessions.records``."""
        return loading.iter_records(self._known(session), self._codec)

    def follow(self, session: str, start: int = 0, *, poll_s: float = 0.1) -> AsyncGenerator[Fact, None]:
        """See ``Sessions.follow``."""
        return loading.follow(self._known(session), start, self._codec, poll_s=poll_s)

    def fork(self, session: str, at: int | None = None, *, to: str = "") -> str:
        """See ``Sessions.fork``."""
        to = to or new_id()
        source, target = self._known(session), self._file(to)
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
        with ExitStack() as held:
            held.enter_context(folder_held(self._place, alone=True))  # first: then nobody forks meanwhile
            self._existing(session)
            family = self._family(session)
            if len(family) > 1 and not forks:
                raise has_forks(session, self._children()[real_path(self._file(session))])
            paths = [self._file(name) for name in family]
            for path in paths:
                held.enter_context(_Lease(path))
            for path in paths:
                _remove(path)
        return family

    def _family(self, session: str) -> Names:
        """A session and all that was forked from it, itself last."""
        family, children = [session], self._children()
        for name in family:  # which grows meanwhile
            forks = children.get(real_path(self._file(name)), ())
            family += [child for child in forks if child not in family]
        return family[::-1]

    def _children(self) -> Mapping[str, Names]:
        """What was forked from each file."""
        children: dict[str, Names] = {}
        for info in self.list():
            if info.parent is not None:
                children.setdefault(real_path(parent_path(info.parent, info.path)), []).append(info.session)
        return children

    def verify(self, session: str, *, head: Head | str | None = None, repair: bool = False) -> Report:
        """See ``Sessions.verify``."""
        path = self._existing(session)
        report = verify(path, self._codec, head=head, repair=repair)
        if report.session in ("", session):
            return report
        other = Damage(kind="header", message=str(another_session(report.session, session, path)))
        return replace(report, damage=(other, *report.damage))

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
    parts = blobs_of(path).folder, snapshot_path(path)
    alone = os.path.islink(path)  # what it leads to belongs to another place
    try:
        os.unlink(path)
    except OSError as error:
        raise LogError("log: cannot be deleted", path=path, reason=error.strerror) from error
    if not alone:
        shutil.rmtree(parts[0], ignore_errors=True)
        with suppress(FileNotFoundError):
            os.unlink(parts[1])


def _header(path: str) -> Header:
    with open_file(path) as file:
        return first_record(file, path)[0]


def _is_being_made(path: str) -> bool:
    """Whether a log has no header yet: it is being written, or was when that was interrupted."""
    try:
        _header(path)
    except LogError as error:
        return error.details.get("kind") == "torn"
    return False


def _changes(path: str, header: Header, codec: Codec) -> Iterator[Fact]:
    """What people called a session, those it was forked from included, the newest first."""
    last, seen = sys.maxsize, set[str]()
    while True:
        check_circle(path, seen)
        yield from _changes_in(path, last, codec)
        if header.parent is None:
            return
        last, path = min(last, header.parent.seq), parent_path(header.parent, path)
        header = _header(path)


def _changes_in(path: str, last: int, codec: Codec) -> Iterator[Fact]:
    """Those of one file, of facts up to number ``last``."""
    get = blobs_of(path).get
    with open_file(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        end = data.rfind(b"\n")  # what follows is torn
        while (place := data.rfind(_CHANGED, 0, end)) >= 0:
            line, end = data[place + 1 : data.find(b"\n", place + 1)], place
            fact = decode_line(line, get, codec, 0, path)
            if fact.seq <= last:
                yield fact
