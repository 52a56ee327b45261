"""The first record of a log: which session, which format, what it was forked from.

Read with: ``record.py``, ``jsonl.py``, ``sqlite.py``.
"""

from typing import Any, TypedDict, Unpack

import msgspec
from msgspec import Struct

from unspool.kernel.errors import LogError
from unspool.kernel.redaction import holds_key
from unspool.kernel.version import __version__

from .record import NO_HASH, Sealed, hash_of_record, prev_of, seal

FORMAT = 2
"""The version of the format that is written. Format 1 had no seals; it is no longer read."""
MAGIC = b'{"unspool":'


class Parent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a log was forked: it begins with the facts of ``session`` up to number ``seq``.

    ``hash`` is that record's. ``path`` leads from the folder of this log to the parent's file, where the
    two are files.
    """

    session: str
    seq: int
    hash: str
    path: str = ""


class About(TypedDict, total=False):
    """What may be said of a new session; see ``Header``."""

    namespace: str
    sender: str
    parent: Parent | None


class Header(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a log says of itself.

    ``namespace`` groups sessions, in levels parted by ``/``; ``sender`` is who began the session.
    ``redacted`` tells that patterns of the host's were taken out. Title and metadata are facts, because they
    change (``SessionChanged``).
    """

    unspool: str = "trajectory"
    format: int = FORMAT
    writer: str = ""
    session: str = ""
    created: float = 0.0
    namespace: str = ""
    sender: str = ""
    parent: Parent | None = None
    redacted: bool = False


class _Format(Struct):
    unspool: Any
    format: int
    writer: str = ""


_decode = msgspec.json.Decoder(Header).decode
_format = msgspec.json.Decoder(_Format).decode
_encode = msgspec.json.Encoder().encode


def make_header(session: str, created: float, *, redacted: bool = False, **about: Unpack[About]) -> Header:
    """The header of a new log.

    Raises:
        LogError: the session's id, its namespace or its sender holds a key of a model provider. They are what
            sessions are found by: another text would be another session, or another's.
    """
    for name, text in (("session", session), *((name, about.get(name)) for name in ("namespace", "sender"))):
        if holds_key(text):
            raise LogError("log: the header would hold a key of a model provider", field=name)
    return Header(
        writer=f"unspool {__version__}", session=session, created=created, redacted=redacted, **about
    )


def check_session(header: Header, session: str, path: str) -> None:
    """Refuse the header of another session, as a file has that was copied or renamed.

    Raises:
        LogError: it is that.
    """
    if header.session != session:
        raise another_session(header.session, session, path)


def another_session(found: str, session: str, path: str) -> LogError:
    """The error that the log of one session was found where that of another is expected."""
    reason = f"it is that of session {found!r}"
    return LogError("log: damaged header", kind="header", reason=reason, path=path, session=session)


def seal_header(header: Header) -> Sealed:
    """The header as the first record of its log.

    Raises:
        LogError: a text in it is none that can be stored.
    """
    try:
        body = _encode({"unspool": header.unspool, "format": header.format, **msgspec.to_builtins(header)})
    except UnicodeEncodeError as error:
        raise LogError("log: the header cannot be stored", reason=str(error)) from error
    return seal(body, header.parent.hash.encode() if header.parent else NO_HASH)


def read_header(record: bytes, /, **place: Any) -> tuple[Header, bytes]:
    """A stored header and its hash; ``place`` is for the errors.

    Raises:
        LogError: this is no log, in another format, or damaged.
    """
    if not record.startswith(MAGIC):
        raise LogError("log: not an unspool log", kind="not_a_log", **place)
    try:
        version = _format(record)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LogError("log: damaged header", kind="header", reason=str(error), **place) from error
    hashed = hash_of_record(record)
    sealed = hashed is not None or b'","sum":"' not in record  # otherwise its number may be what was changed
    if version.format != FORMAT and sealed:
        what = "a newer format, a newer unspool can read it" if version.format > FORMAT else "an old format"
        details = {"format": version.format, "supported": FORMAT, "writer": version.writer}
        raise LogError(f"log: written in {what}", kind="format", **details, **place)
    if hashed is None:
        raise LogError("log: damaged header", kind="header", reason="its checksum does not fit", **place)
    try:
        header = _decode(record)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LogError("log: damaged header", kind="header", reason=str(error), **place) from error
    if prev_of(record) != (header.parent.hash.encode() if header.parent else NO_HASH):
        raise LogError("log: damaged header", kind="header", reason="it names another parent", **place)
    return header, hashed
