"""How much a crash may cost, chosen by whoever opens a log.

What each choice may lose. In all of them a fact that ``append`` has returned for survives the death of the
process, ``kill -9`` included: it is in the system's cache.

========== ================================================== ==============================================
choice     a power loss or a crash of the system costs        a barrier (before an effect) waits for
========== ================================================== ==============================================
buffered   what the system has not written yet: seconds       nothing
group      the last ``facts`` facts, or ``ms`` milliseconds   the disk, once that much is not written yet
each flush nothing that a barrier has passed                  the disk, each time
========== ================================================== ==============================================

After a power loss under ``buffered`` and ``group`` the log may lack the dispatch of a call that ran: going
on from it runs that call again. Only ``EACH_FLUSH`` rules that out.

Read with: ``jsonl.py``, ``sqlite.py``.
"""

import threading
import time
from collections.abc import Callable
from typing import Literal
from weakref import WeakMethod

from anyio import to_thread
from msgspec import Struct

from unspool.kernel.errors import LogError


class Durability(Struct, frozen=True):
    """When a log has the disk write; see the table of ``durability.py``."""

    kind: Literal["buffered", "group", "each_flush"]
    facts: int = 0
    seconds: float = 0.0


BUFFERED = Durability("buffered")
"""The system writes when it likes, within seconds; the death of the process costs nothing."""
EACH_FLUSH = Durability("each_flush")
"""Each barrier before an effect waits for the disk."""


def group(facts: int = 16, ms: float = 5.0) -> Durability:
    """At most ``facts`` facts, and none older than ``ms`` milliseconds, are not on the disk.

    Raises:
        ValueError: one of them is not positive.
    """
    if facts < 1 or ms <= 0:
        raise ValueError(f"group: at least one fact and more than 0 ms (facts={facts}, ms={ms})")
    return Durability("group", facts, ms / 1000)


def forgetful(method: Callable[[], None]) -> Callable[[], None]:
    """``method``, without keeping its object alive: a log that nobody knows any more is closed at once."""
    reference = WeakMethod(method)

    def call() -> None:
        alive = reference()
        if alive is not None:
            alive()

    return call


class Syncer:
    """Has ``sync`` called as a ``Durability`` wants it; ``sync`` is slow, called from any thread, and
    waits until everything appended before is on the disk."""

    def __init__(self, durability: Durability, sync: Callable[[], None]) -> None:
        self._durability = durability
        self._sync = sync
        self._grouped = durability.kind == "group"
        self.active = durability.kind != "buffered"
        self._appended = 0  # written by whoever appends
        self._synced = 0  # written under the lock
        self._since = 0.0
        self._lock = threading.Lock()  # held while the disk is waited for
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._failed: LogError | None = None

    def noted(self) -> None:
        """One more fact was appended; costs a microsecond."""
        self._appended += 1
        if not self._grouped:
            return
        pending = self._pending
        if pending == 1:
            self._since = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="unspool-log-sync", daemon=True)
                self._thread.start()
        if pending in (1, self._durability.facts):
            with self._wake:
                self._wake.notify()

    @property
    def _pending(self) -> int:
        return self._appended - self._synced

    def check(self) -> None:
        """Refuse to go on after the disk has failed.

        Raises:
            LogError: it has.
        """
        if self._failed is not None:
            raise self._failed

    async def flush(self) -> None:
        """Wait for as much as the durability asks.

        Raises:
            LogError: the disk failed.
        """
        self.check()
        if self._pending and self.active and (not self._grouped or self._is_due()):
            await to_thread.run_sync(self.now)

    def _is_due(self) -> bool:
        durability = self._durability
        return self._pending >= durability.facts or time.monotonic() - self._since >= durability.seconds

    def now(self) -> None:
        """Wait for the disk here and now.

        Raises:
            LogError: it failed.
        """
        with self._lock:
            appended, began = self._appended, time.monotonic()
            if appended == self._synced:
                return
            try:
                self._sync()
            except OSError as error:
                self._failed = LogError("log: the disk failed", reason=error.strerror)
                raise self._failed from error
            self._synced, self._since = appended, began

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self._pending and not self._closed:
                    self._wake.wait()
                if self._closed:
                    return
                left = self._since + self._durability.seconds - time.monotonic()
                if left > 0 and self._pending < self._durability.facts:
                    self._wake.wait(left)
                    if self._closed:
                        return
            if self._is_due():
                try:
                    self.now()
                except LogError:
                    return  # kept: the next append or flush says it

    def close(self) -> None:
        """End the thread; what is pending stays so."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            self._thread = None
