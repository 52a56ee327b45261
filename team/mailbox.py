"""The mailbox of a team: where letters wait for their readers.

What every implementation promises (``check_mailbox`` tests it):

1. A letter that ``send`` accepted is delivered to its reader, or becomes a dead letter; it is never lost, whichever
   process dies. Letters of one sender to one box arrive in the order in which they were sent.
2. It may be delivered again, until it is acknowledged: after ``release``, or when its lease is over because its
   reader died. A reader tells by the letter's id what it has seen. The letters of one sender are out to one reader
   at a time: another gets the next ones when those are acknowledged, released, or their lease is over.
3. Sending a letter whose id was accepted before changes nothing, also after it was acknowledged or became a dead
   letter. The ids of those that are not acknowledged and of the newest ``KEPT_IDS`` of each box are known.
4. A box takes at most ``capacity`` letters that are not acknowledged: then senders wait, first come, first served,
   or are refused.
5. ``rest`` and ``send`` are in an order: a box rests only if no letter waits in it or is out, and a letter that comes
   later wakes it. So no letter lies in a box whose reader rests.

Read with: ``letters.py``, ``memory_mailbox.py``, ``sqlite_mailbox.py``, ``mailbox_conformance.py``.
"""

from collections.abc import Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct

from .letters import DeadLetter, Delivery, Letter

KEPT_IDS: Final = (
    100_000  # letters of a box, newest first, whose ids are known for ever: some 16 MB in memory
)
KEPT_DEAD_LETTERS: Final = 10_000
FULL: Final = "full"  # why a notice became a dead letter
CLOSED: Final = "closed"
UNKNOWN: Final = "unknown"


class BoxInfo(Struct, frozen=True, gc=False, kw_only=True):
    """How a box stands: letters that ``wait``, that are ``out`` (delivered, not acknowledged), and its ``state``."""

    name: str
    state: Literal["busy", "resting", "closed"]
    waiting: int = 0
    out: int = 0
    capacity: int = 0


class Mailbox(Protocol):
    """The boxes of one team, by the names of their readers. All methods are safe for use by several tasks; each may
    be cancelled, and has then either happened or not. A method that need not wait may return without giving way to
    other tasks.

    ``reader`` tells those apart who read the same box (worker processes, say). All who do not say, and use the same
    mailbox object, are one reader. A reader that goes on for one that died says the same name, and ``release``s what
    was out to it first; or another, and waits for its leases to end: so that it gets letters in their order, too.

    Raises:
        UnknownMember: (all methods that are given a ``name``) there is no such box.
        BoxClosed: (all methods) ``aclose`` was called.
    """

    async def open(self, name: str, *, capacity: int = 1000) -> None:
        """Make a box, or open again one that was closed (as for a reader that comes back); nothing happens where it
        is open. It is ``busy`` until its reader says that it rests.

        Raises:
            ValueError: ``capacity`` is not positive.
        """
        ...

    async def close(self, name: str, reason: str = "stopped") -> Sequence[DeadLetter]:
        """Take no more letters into a box; those that wait or are out become dead letters, which are returned, in
        order. Nothing happens where it is closed.
        """
        ...

    async def send(self, letter: Letter, /, *, wait_s: float | None = 0.0) -> bool:
        """Put a letter into the box ``letter.to``; False where a letter with its id was accepted before.

        Where the box is full, wait up to ``wait_s`` seconds for room (None: for ever).

        Raises:
            UnknownMember: there is no such box.
            BoxClosed: its reader has stopped, also while waiting.
            BoxFull: no room within ``wait_s``.
        """
        ...

    async def receive(
        self,
        name: str,
        *,
        limit: int = 100,
        wait_s: float | None = 0.0,
        lease_s: float = 60.0,
        reader: str = "",
    ) -> Sequence[Delivery]:
        """The next letters of a box, in order, at most ``limit``; they are out to this reader for ``lease_s`` seconds.

        Where none waits, wait up to ``wait_s`` seconds for one (None: for ever); empty when the time is up.

        Raises:
            BoxClosed: it is closed, also while waiting.
            ValueError: ``limit`` or ``lease_s`` is not positive.
        """
        ...

    async def acknowledge(self, name: str, ids: Sequence[str], /) -> None:
        """These letters are dealt with and never delivered again, also where their lease was over; unknown ids are
        passed over."""
        ...

    async def renew(
        self, name: str, ids: Sequence[str], /, *, lease_s: float = 60.0, reader: str = ""
    ) -> None:
        """The reader is still busy with these letters. Those that are not out to it are passed over."""
        ...

    async def release(self, name: str, ids: Sequence[str] | None = None, /, *, reader: str = "") -> None:
        """Put letters back in their places, to be delivered again; None: all that are out to the reader. Those that
        are not out to it are passed over."""
        ...

    async def refuse(
        self, name: str, ids: Sequence[str], /, *, reason: str = "too_many_attempts"
    ) -> Sequence[DeadLetter]:
        """These letters cannot be dealt with: they become dead letters, which are returned; unknown ids are passed
        over."""
        ...

    async def rest(self, name: str, notice: Letter | None = None) -> bool:
        """Let a box rest, and send ``notice`` to its own reader (the lead, say), in one step; False, and nothing
        happens, where a letter waits or is out.

        A ``notice`` whose box is unknown, closed or full becomes a dead letter.

        Raises:
            BoxClosed: the box is closed.
        """
        ...

    async def boxes(self) -> Sequence[BoxInfo]:
        """All boxes, by name."""
        ...

    async def dead_letters(self, sender: str | None = None) -> Sequence[DeadLetter]:
        """Letters that nobody will read, of all senders or of one, oldest first; the newest ``KEPT_DEAD_LETTERS`` are
        kept."""
        ...

    async def aclose(self) -> None:
        """Let go of the place; what is durable stays. Waiting calls end with ``BoxClosed``."""
        ...
