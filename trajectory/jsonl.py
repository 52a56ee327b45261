"""A log as a file of JSON lines: for people, for pipes, and for runs that must survive.

1. The first line is a header; each further line is one fact, in order, sealed, never changed again.
2. A fact is one ``write`` of a whole line: it is stored or it is not. What a short write left is
   taken back; what a crash left is cut off by the next writer, which says so.
3. One writer at a time, held by a lock on the file that ends with the process. Readers need none.
4. A fact that JSON would change is refused: the log says what the state says.
5. Large contents are files of their own in ``<path>.blobs``, and are there before the fact that names them.

Read with: ``jsonl_reading.py`` (the other direction), ``record.py``, ``durability.py``, ``strict.py``.
"""

import os
import stat
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from functools import partial
from threading import Lock
from typing import Any, ClassVar, Final, Unpack

from unspool.kernel.codec import Codec, Record
from unspool.kernel.errors import LogError
from unspool.kernel.events import Fact

from .blobs import sync_path
from .decoding import Once
from .durability import BUFFERED, Durability, forgetful
from .files import read_file, whole_path, write_whole
from .head import Head
from .header import About, check_session, make_header, seal_header
from .jsonl_reading import LogReader, blobs_of, snapshot_path
from .lease import take_lease
from .lines import LogPath
from .loading import fact_of, facts_of, iter_records, read, reader_of
from .names import named_by
from .stored_log import StoredLog

_FLAGS: Final = (
    os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)


class JsonlLog(StoredLog):
    """An ``EventLog`` in the file ``path``: made if missing, with its folder, and gone on with if not.

    The file is readable by its owner alone (mode 0600). ``durability`` says when the disk is waited for.
    ``session`` names the session of a new file, which otherwise is called what the file is; one that is there
    must be of that session. ``about`` are further fields of a new file's ``Header``. ``redact`` are regular
    expressions whose matches are not stored. ``head`` is what ``head`` of this log once was: it is an error
    if the log does not hold that record any more. A torn last line is cut off, with a ``UserWarning``.

    A pipe or a device can be written too; what went there is not read again: such a log has no facts.

    ``seq`` is the number of the last fact stored. An agent that is given a log with facts goes on from them.

    Raises:
        LogError: the file cannot be opened or written, has another writer, is no log, is in another
            format, is another session's, or is damaged.
    """

    _record_end = b'"}\n'
    _flags: ClassVar[int] = _FLAGS

    def __init__(
        self,
        path: LogPath,
        codec: Codec | None = None,
        *,
        durability: Durability = BUFFERED,
        session: str = "",
        redact: Iterable[str] = (),
        head: Head | str | None = None,
        **about: Unpack[About],
    ) -> None:
        super().__init__(codec or Codec(), durability, redact, forgetful(self._sync))
        self.path = os.fspath(path)  # as it was given, for people
        self._place = whole_path(self.path)
        self.header = make_header(
            session or named_by(self.path), time.time(), redacted=self._redacts, **about
        )
        self._sync_lock = Lock()  # held while the disk is waited for, so that appends go on
        self._size = 0
        self._fd = -1
        self._snapshot_path = snapshot_path(self.path)
        self._begun = False  # by this very object
        self._blobs = blobs_of(self.path)
        try:
            while not self._opened():
                self._let_go()
            self._take_over(session, Head.of(head))
        except BaseException:
            self.close()
            raise

    def _opened(self) -> bool:
        """Open the file as its one writer; False where it was deleted or replaced before it was ours."""
        self._fd = _open(self.path, self._flags)
        self._regular = stat.S_ISREG(os.fstat(self._fd).st_mode)
        take_lease(self._fd, self.path)
        if not self._regular:
            self._threshold = sys.maxsize  # there is no place beside it
            return True
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._place))
        except OSError:
            return False

    def _let_go(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _take_over(self, session: str, head: Head | None) -> None:
        """Become the one writer: check what is there, cut off a torn line, begin where it ends."""
        if self._regular:
            reader = LogReader(self.path)
            found = head is None or head.seq == 0
            try:
                for stored in reader.available():
                    if head is not None and stored.seq == head.seq:
                        found = reader.hash.decode() == head.hash
                reader.warn_torn("it is cut off", stacklevel=4)
            finally:
                reader.close()
            if not found:
                raise self._error("log: it was longer once", kind="shortened", seq=reader.seq, head=str(head))
            self._size, self.seq, self._hash = reader.offset, reader.seq, reader.hash
            self.header = reader.header or self.header
            if session:
                check_session(self.header, session, self.path)
            os.ftruncate(self._fd, self._size)
            self._blobs.clean()
        if self._size == 0:
            self._begin()

    def _begin(self) -> None:
        self._begun = True
        self.seq = self.header.parent.seq if self.header.parent else 0
        line, self._hash = seal_header(self.header)
        self._write(line + b"\n")
        if self._syncs:
            self._sync()
            _sync_folder(self.path)

    def _store(self, line: bytes, hashed: bytes, seq: int) -> None:
        self._write(line)

    def _put(self, data: bytes) -> str:
        return self._blobs.put(data)

    def _write(self, line: bytes) -> None:
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            raise self._error("log: cannot be written", reason=error.strerror) from error
        if written != len(line):
            self._take_back()
            raise self._error("log: cannot be written", reason="no room for the whole line")
        self._size += written

    def _take_back(self) -> None:
        """Cut off the part of a line that was written; without that nothing more may follow."""
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self._broken = "log: holds a torn line that could not be cut off"

    def _error(self, what: str, **details: Any) -> LogError:
        return LogError(what, path=self.path, **details)

    async def flush(self) -> None:
        """Return when the facts so far are as durable as ``durability`` asks.

        Raises:
            LogError: the file was removed, or the disk failed; nothing more is stored.
        """
        self._check_present()
        if self._syncs:
            await self._syncer.flush()

    def _check_present(self) -> None:
        with self._lock:
            if self._fd < 0 or not self._regular or self._broken:
                return
            if os.fstat(self._fd).st_nlink == 0:
                self._broken = "log: the file was removed"
                raise self._error(self._broken)

    def _sync(self) -> None:
        """Wait for the disk: for the blobs first, which the records name."""
        with self._sync_lock:
            if self._fd >= 0 and self._regular:
                self._blobs.sync()
                os.fsync(self._fd)

    def _folding(self, codec: Codec) -> Iterator[tuple[int, bytes, Callable[[], Fact]]]:
        if not self._regular:
            return
        reader, once = reader_of(self._place, codec)
        try:
            for stored in reader.available():
                yield stored.seq, reader.hash, partial(fact_of, stored, once)
        finally:
            reader.close()

    def _kept_snapshot(self) -> bytes | None:
        return read_file(self._snapshot_path) if self._regular else None

    def _keep_snapshot(self, data: bytes) -> None:
        path = self._snapshot_path
        if not self._regular:
            return
        try:
            write_whole(path, data)
        except OSError as error:
            raise LogError("log: cannot be written", path=path, reason=error.strerror) from error

    def records(self) -> Iterator[Record]:
        """All records so far, those of the logs it was forked from first."""
        return iter_records(self._place, self._codec) if self._regular else iter(())

    def read(self, start: int = 0, stop: int | None = None) -> AsyncGenerator[Fact, None]:
        """Facts with ``start < seq``, and ``seq <= stop`` where given, from the file."""
        return read(self._place, start, stop, self._codec) if self._regular else _nothing()

    async def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        """Like ``read``, then waiting for more until this log or the generator is closed.

        Another process follows the file with ``unspool.trajectory.follow``.
        """
        reader, once = reader_of(self._place, self._codec) if self._regular else (None, Once(self._codec))
        waiter = self._tails.join()
        try:
            while True:
                closed = self._fd < 0
                for fact in facts_of(reader, once, start) if reader else ():
                    yield fact
                if closed:
                    return
                await waiter.wait()
        finally:
            self._tails.leave(waiter)
            if reader:
                reader.close()

    def close(self) -> None:
        """Let go of the file; tails end once they have given what there is. Again: nothing."""
        self._syncer.close()
        with self._sync_lock, self._lock:
            self._broken = self._broken or "log: closed"
            self._let_go()
        self._tails.wake()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:  # so that a forgotten log does not keep its file locked
            self.close()


async def _nothing() -> AsyncGenerator[Fact, None]:
    facts: tuple[Fact, ...] = ()
    for fact in facts:
        yield fact


def _open(path: str, flags: int) -> int:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return os.open(path, flags, 0o600)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LogError("log: cannot be opened", path=path, reason=reason) from error


def _sync_folder(path: str) -> None:
    """Make a new file's name durable; a system that cannot is not a fault."""
    try:
        sync_path(os.path.dirname(path) or ".")
    except OSError:
        return
