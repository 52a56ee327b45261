"""A log as a file of JSON lines: for people, for pipes, and for runs that must survive.

1. The first line is a header; each further line is one fact, in order, never changed again.
2. A fact is one ``write`` of a whole line: it is stored or it is not. What a short write left is
   taken back; what a crash left is cut off by the next writer, which says so.
3. One writer at a time, held by a lock on the file that ends with the process. Readers need none.
4. A fact that JSON would change is refused: the log says what the state says.

Read with: ``jsonl_reading.py`` (the other direction), ``strict.py``, ``unspool.kernel.recorder``.
"""

import os
import stat
from collections.abc import AsyncGenerator
from threading import Lock, get_ident
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from anyio import to_thread

from unspool.kernel.codec import FORMAT_VERSION, Codec
from unspool.kernel.errors import CodecError, LogError
from unspool.kernel.events import Fact, Signal
from unspool.kernel.spawn import Backend, Waker, current_backend
from unspool.kernel.version import __version__

from .jsonl_reading import Header, LogPath, RecordReader, facts_after, read
from .strict import check_fact

try:
    import fcntl
except ImportError:  # Windows has no flock
    fcntl = None  # type: ignore[assignment]

_MAGIC_VERSION: Final = 1
_FLAGS: Final = (
    os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)


class JsonlLog:
    """An ``EventLog`` in the file ``path``: made if missing, with its folder, and gone on with if not.

    The file is readable by its owner alone (mode 0600). A write reaches the system's cache and so
    survives the process; with ``fsync`` the barrier before an effect also waits for the disk.
    ``session`` names the session in the header of a new file. A torn last line is cut off, with a
    ``UserWarning``. ``seq`` is the number of the last fact stored.

    Raises:
        LogError: the file cannot be opened or written, has another writer, is no log, is in a
            newer format, or is damaged.
    """

    def __init__(
        self, path: LogPath, codec: Codec | None = None, *, fsync: bool = False, session: str = ""
    ) -> None:
        self.path = os.fspath(path)
        self.seq = 0
        self._codec = codec or Codec()
        self._fsync = fsync
        self._lock = Lock()
        self._sync_lock = Lock()  # held while the disk is waited for, so that appends go on
        self._tails: list[tuple[Backend, Waker, int]] = []
        self._size = 0
        self._broken = ""
        self._fd = -1
        self._fd = _open(self.path)
        try:
            self._regular = stat.S_ISREG(os.fstat(self._fd).st_mode)
            self._take_over(Header(_MAGIC_VERSION, FORMAT_VERSION, f"unspool {__version__}", session))
        except BaseException:
            self.close()
            raise

    def _take_over(self, header: Header) -> None:
        """Become the one writer: check what is there, cut off a torn line, begin where it ends."""
        _lock_file(self._fd, self.path)
        if self._regular:
            reader = RecordReader(self.path, self._codec)
            try:
                for _ in reader.available():
                    pass
                reader.warn_torn("it is cut off", stacklevel=4)
            finally:
                reader.close()
            self._size, self.seq = reader.offset, reader.seq
            os.ftruncate(self._fd, self._size)
        if self._size == 0:
            self._write(msgspec.json.encode(header) + b"\n")
            if self._fsync:
                _sync_folder(self.path)

    def append(self, fact: Fact | Signal, /) -> None:
        """Store ``fact``, or nothing; from any thread. Signals are not kept.

        Raises:
            LogError: it is not the next fact, JSON would change it, or the file refused it.
        """
        try:
            check_fact(fact)  # type: ignore[arg-type]  # a signal has no rule
            line = self._codec.encode(fact) + b"\n"
        except (CodecError, ArithmeticError) as error:
            raise self._error("log: the fact cannot be stored", reason=str(error)) from error
        with self._lock:
            if fact.seq != self.seq + 1 or line.find(b"\n") != len(line) - 1:
                self._refuse(fact)
                return
            self._write(line)
            self.seq += 1
        if self._tails:
            self._wake_tails()

    def _refuse(self, fact: Fact | Signal) -> None:
        if isinstance(fact, Signal):
            return
        if fact.seq == self.seq + 1:
            raise self._error("log: the fact's bytes hold a line end", seq=fact.seq)
        raise self._error("log: not the next fact of this session", seq=fact.seq, expected=self.seq + 1)

    def _write(self, line: bytes) -> None:
        if self._broken or self._fd < 0:
            raise self._error(self._broken or "log: closed")
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
        """Return when all facts so far are durable.

        Raises:
            LogError: the file was removed, or the disk failed; nothing more is stored.
        """
        self._check_present()
        if self._fsync:
            await to_thread.run_sync(self._sync)

    def _check_present(self) -> None:
        with self._lock:
            if self._fd < 0 or not self._regular or self._broken:
                return
            if os.fstat(self._fd).st_nlink == 0:
                self._broken = "log: the file was removed"
                raise self._error(self._broken)

    def _sync(self) -> None:
        with self._sync_lock:
            if self._fd < 0 or not self._regular:
                return
            try:
                os.fsync(self._fd)
            except OSError as error:
                self._broken = "log: the disk failed"
                raise self._error(self._broken, reason=error.strerror) from error

    def read(self, start: int = 0, stop: int | None = None) -> AsyncGenerator[Fact, None]:
        """Facts with ``start < seq``, and ``seq <= stop`` where given, from the file."""
        return read(self.path, start, stop, self._codec)

    async def tail(self, start: int = 0) -> AsyncGenerator[Fact, None]:
        """Like ``read``, then waiting for more until this log or the generator is closed.

        Another process follows the file with ``unspool.trajectory.follow``.
        """
        backend = current_backend()
        entry = (backend, backend.waker(), get_ident())
        reader = RecordReader(self.path, self._codec)
        self._tails.append(entry)
        try:
            while True:
                closed = self._fd < 0
                for fact in facts_after(reader, start):
                    yield fact
                if closed:
                    return
                await entry[1].wait()
        finally:
            self._tails.remove(entry)
            reader.close()

    def _wake_tails(self) -> None:
        here = get_ident()
        for backend, waker, thread in list(self._tails):
            if thread == here:
                waker.set()
            else:
                backend.call_soon(waker.set)

    def close(self) -> None:
        """Let go of the file; tails end once they have given what there is. Again: nothing."""
        with self._sync_lock, self._lock:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)
        self._wake_tails()

    async def aclose(self) -> None:
        """Flush and close.

        Raises:
            LogError: as ``flush``; it is closed all the same.
        """
        try:
            await self.flush()
        finally:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:  # so that a forgotten log does not keep its file locked
            self.close()


def _open(path: str) -> int:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return os.open(path, _FLAGS, 0o600)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise LogError("log: cannot be opened", path=path, reason=reason) from error


def _lock_file(fd: int, path: str) -> None:
    """Keep other writers out, where the system and the file system can."""
    if fcntl is None:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise LogError("log: another writer has it open", path=path) from error
    except OSError:
        return  # a file system without locks


def _sync_folder(path: str) -> None:
    """Make a new file's name durable; a system that cannot is not a fault."""
    try:
        fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        return
    finally:
        os.close(fd)
