"""What the logs that store records have in common: one way in, in order, sealed.

Read with: ``jsonl.py`` and ``sqlite.py`` (where the records go), ``record.py``, ``strict.py``, ``durability.py``.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from types import TracebackType
from typing import Any, ClassVar, Self

from unspool.kernel.codec import Codec
from unspool.kernel.errors import CodecError, LogError
from unspool.kernel.events import Fact, Signal
from unspool.kernel.state import AgentState

from .blobs import THRESHOLD, detach, is_to_detach
from .durability import Durability, Syncer
from .head import Head
from .header import Header
from .record import LINE_END, seal_line
from .redaction import Redaction
from .snapshots import make_snapshot, state_after
from .strict import SIGNALS, encode
from .tails import Tails


class StoredLog(ABC):
    """An ``EventLog`` whose records are sealed lines; ``seq`` is the number of the last fact stored."""

    header: Header
    _record_end: ClassVar[bytes]  # what follows the checksum of a record

    def __init__(
        self, codec: Codec, durability: Durability, redact: Iterable[str], sync: Callable[[], None]
    ) -> None:
        self.seq = 0
        self._hash = b""
        self._codec = codec
        self._redaction = Redaction(redact)
        self._redacts = bool(self._redaction)
        self._lock = Lock()
        self._pid = os.getpid()  # a fork of this process shares its lease, and is another writer all the same
        self._threshold = THRESHOLD
        self._syncer = Syncer(durability, sync)
        self._syncs = self._syncer.active
        self._tails = Tails()
        self._broken = ""  # why nothing more can be stored

    @property
    def session(self) -> str:
        """The id of the session that this log keeps."""
        return self.header.session

    @property
    def head(self) -> Head:
        """Number and hash of the last record: with it a log that was cut off at its end is found out."""
        with self._lock:
            return Head(self.seq, self._hash.decode())

    def append(self, fact: Fact | Signal, /) -> None:
        """Store ``fact``, or nothing; from any thread. Signals are not kept.

        Raises:
            LogError: it is not the next fact, JSON would change it, or it could not be written; or this process was
                forked from the one that opened the log (kind ``busy``).
        """
        if type(fact) in SIGNALS:
            return
        try:
            body = encode(self._codec, fact)  # type: ignore[arg-type]  # a signal was sent away
        except (CodecError, ArithmeticError) as error:
            raise self._error("log: the fact cannot be stored", reason=str(error)) from error
        if os.getpid() != self._pid:  # before the lock, which may be held for ever in a forked process
            raise self._error("log: another process opened it, and writes it", kind="busy", pid=self._pid)
        seq = fact.seq
        with self._lock:
            if seq != self.seq + 1 or self._broken or LINE_END in body:
                raise self._refused(seq)
            if self._syncs:
                self._syncer.check()
            if self._redacts:
                body = self._redaction.apply(body, self._codec)
            if is_to_detach(body):
                body = detach(body, self._put, self._threshold)
            line, hashed = seal_line(body, self._hash, self._record_end)
            self._store(line, hashed, seq)
            self._hash = hashed
            self.seq = seq
            if self._syncs:
                self._syncer.noted()
        if self._tails.waiting:
            self._tails.wake()

    def _refused(self, seq: int) -> LogError:
        if self._broken:
            return self._error(self._broken)
        if seq == self.seq + 1:
            return self._error("log: the fact's bytes hold a line end", seq=seq)
        return self._error("log: not the next fact of this session", seq=seq, expected=self.seq + 1)

    @abstractmethod
    def _store(self, line: bytes, hashed: bytes, seq: int) -> None:
        """Store a record, or nothing."""

    @abstractmethod
    def _put(self, data: bytes) -> str:
        """Store a large content; its hash."""

    @abstractmethod
    def _error(self, what: str, **details: Any) -> LogError:
        """An error that says which log it is of."""

    def state(self, codec: Codec | None = None) -> AgentState:
        """What the facts so far come to.

        Raises:
            LogError: a record does not fit its type, or a blob that one refers to is missing.
        """
        known = codec or self._codec
        return state_after(self._kept_snapshot(), lambda: self._folding(known), known, self.session)

    def snapshot(self, state: AgentState | None = None) -> None:
        """Keep the state so far beside the log, so that it is taken up faster; a cache, see ``snapshots.py``.

        ``state``, where it is at hand, saves folding the log; one of another number of facts, and one that
        holds what this log takes out, is not used. Where facts come in meanwhile, nothing is kept.

        Raises:
            LogError: as ``state``, or it cannot be written.
        """
        head = self.head
        if state is None or self._redacts or state.seq != head.seq:
            state = self.state()
        if state.seq == head.seq:
            self._keep_snapshot(make_snapshot(state, head.hash.encode(), self._codec))

    @abstractmethod
    def _folding(self, codec: Codec) -> Iterator[tuple[int, bytes, Callable[[], Fact]]]:
        """Number, hash and, on demand, fact of each record."""

    @abstractmethod
    def _kept_snapshot(self) -> bytes | None:
        """The snapshot that was kept last."""

    @abstractmethod
    def _keep_snapshot(self, data: bytes) -> None:
        """Keep a snapshot in the place of the last one."""

    @abstractmethod
    async def flush(self) -> None:
        """Return when the facts so far are as durable as the durability asks.

        Raises:
            LogError: the log was removed, or the disk failed; nothing more is stored.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the log; tails end once they have given what there is. Again: nothing."""

    async def aclose(self) -> None:
        """Flush, for the disk too unless the log is buffered, and close.

        Raises:
            LogError: as ``flush``; it is closed all the same.
        """
        try:
            await self.flush()
            if self._syncs:
                self._syncer.now()
        finally:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()
