"""One stored record: the bytes of a fact, sealed so that damage shows.

A fact's JSON gets two members at its end, and stays JSON that any tool reads::

    {"type":"turn_end","index":1,"seq":7,"prev":"<hash of the record before>","sum":"<checksum>"}

The hash of a record is 128 bits of SHA-256 over all of it up to ``sum``, ``prev`` included, as 22 characters
of base64; ``sum`` is its first eight. So each record is checked by itself (a flip is found and told
from a gap) and vouches for all before it (a deletion, a swap, a duplicate, a forged record). The first
record of a log is its header, whose ``prev`` is the record it was forked from.

Read with: ``header.py``, ``verify.py``.
"""

from binascii import b2a_base64
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

LINE_END: Final = ord("\n")  # as a number: one byte is looked for much faster than several
NO_HASH: Final = b"A" * 22  # 16 zero bytes: before the first header there is nothing
_PREV: Final = b',"prev":"'
_SUM: Final = b'","sum":"'
_END: Final = b'"}'
SEAL: Final = len(_PREV) + 22 + len(_SUM) + 8 + len(_END)  # bytes that a seal adds, and the brace it replaces
_OUTER: Final = 8 + len(_END)  # from the end: the checksum begins
_INNER: Final = _OUTER + len(_SUM)  # from the end: the previous hash ends
_BEFORE: Final = _INNER + 22  # from the end: the previous hash begins
_BODY: Final = _BEFORE + len(_PREV)  # from the end: the seal begins


class Sealed(NamedTuple):
    """A record as it is stored, without the line's end, and its hash."""

    line: bytes
    hash: bytes


class Peek(msgspec.Struct):
    """What can be read of any fact without knowing its kind."""

    type: str
    seq: int = 0
    time: float = 0.0
    run_id: str = ""


peek = msgspec.json.Decoder(Peek).decode


def seal(body: bytes, prev: bytes) -> Sealed:
    """The record of ``body``, a JSON object, that follows the record with hash ``prev``."""
    return Sealed(*seal_line(body, prev, _END))


def seal_line(body: bytes, prev: bytes, end: bytes = _END + b"\n") -> tuple[bytes, bytes]:
    """The same as a line with its end: what an append spends its time on."""
    head = b"".join((body[:-1], _PREV, prev, _SUM))
    hashed = b2a_base64(sha256(head).digest()[:16])[:22]
    return b"".join((head, hashed[:8], end)), hashed


def hash_of_record(line: bytes) -> bytes | None:
    """The hash of a stored record; None where its seal is broken."""
    if len(line) < SEAL or line[-2:] != _END or line[-_INNER:-_OUTER] != _SUM:
        return None
    hashed = b2a_base64(sha256(line[:-_OUTER]).digest()[:16])[:22]
    if line[-_OUTER:-2] != hashed[:8] or line[-_BODY:-_BEFORE] != _PREV:
        return None
    return hashed


def prev_of(line: bytes) -> bytes:
    """The hash that a record with an unbroken seal names as that of the one before."""
    return line[-_BEFORE:-_INNER]


def body_of(line: bytes) -> bytes:
    """The very bytes that were sealed."""
    return line[:-_BODY] + b"}"
