"""What members of a team send each other.

Read with: ``mailbox.py`` (how it gets there).
"""

from typing import Any

from msgspec import Struct


class Cause(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What something followed from: fact ``seq`` of ``session``, and the call that it was part of."""

    session: str
    seq: int
    call_id: str = ""


class Letter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message from one member to another, or from the host.

    ``id`` is the sender's and unique in the team: sending a letter again changes nothing. ``kind``: message,
    broadcast, idle, result, shutdown_request, shutdown_approved, shutdown_rejected, or a host's own. ``sent_at`` is
    in seconds since the epoch. ``cause`` says which fact of the sender's log it followed; None for a host's.
    ``data`` is plain JSON for programs; the model of the recipient sees ``text`` and ``summary``.
    """

    id: str
    sender: str
    to: str
    text: str = ""
    kind: str = "message"
    summary: str = ""
    reply_to: str = ""
    sent_at: float = 0.0
    cause: Cause | None = None
    data: dict[str, Any] = {}


class Delivery(Struct, frozen=True, gc=False, kw_only=True):
    """A letter as a recipient gets it: the ``number``-th of its box, for the ``attempt``-th time (from 1)."""

    letter: Letter
    number: int
    attempt: int = 1


class DeadLetter(Struct, frozen=True, gc=False, kw_only=True):
    """A letter that nobody will read. ``reason``: stopped, closed, unknown, full, expired, too_many_attempts, or a
    host's own."""

    letter: Letter
    reason: str
    at: float = 0.0
