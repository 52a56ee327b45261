"""Large texts of facts, stored once by hash.

A string in a record that is longer than a threshold is stored in a ``BlobStore``, and the record holds
``{"$blob":"<hash>","bytes":<size>}`` in its place. It is done and undone on the bytes of the record, so
that everything else in it, known or not, stays as it was. An object that a record has of its own and that
begins like a reference gets an underscore more (``{"$blob_":``), and loses it again.

Read with: ``record.py``, ``unspool.kernel.ports`` (``BlobStore``).
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Final

import msgspec

from unspool.kernel.errors import LogError

from .files import PART, write_whole

THRESHOLD: Final = 16_384  # bytes of a string, as JSON, that is stored apart
_OPEN: Final = b'{"$blob'
_DOLLAR: Final = ord("$")  # one byte is looked for much faster than several
_ESCAPED: Final = re.compile(rb'\{"\$blob(_*)":')
_REFERENCE: Final = re.compile(rb'\{"\$blob(_*)":(?:"([0-9a-f]{64})","bytes":(\d+)\})?')
_COLON: Final = re.compile(rb"\s*:")
_encode = msgspec.json.Encoder().encode
_decode_text = msgspec.json.Decoder(str).decode


def digest_of(data: bytes) -> str:
    """The name of a blob: SHA-256 in hexadecimal, as ``sha256sum`` prints it."""
    return sha256(data).hexdigest()


def is_to_detach(body: bytes) -> bool:
    """Whether ``detach`` may change ``body``."""
    return len(body) > THRESHOLD or (_DOLLAR in body and _OPEN in body)


def detach(body: bytes, put: Callable[[bytes], str], threshold: int = THRESHOLD) -> bytes:
    """``body`` with each string of more than ``threshold`` bytes given to ``put`` and referred to."""
    if _OPEN in body:
        body = _ESCAPED.sub(rb'{"$blob\1_":', body)
    if len(body) <= threshold:
        return body
    parts: list[bytes] = []
    done = 0
    for start, end in _strings(body):
        token = body[start:end]
        if len(token) <= threshold or _COLON.match(body, end):  # a key stays
            continue
        data = _content(token)
        if data is None:
            continue
        reference = b'{"$blob":"%s","bytes":%d}' % (put(data).encode(), len(data))
        parts += [body[done:start], reference]
        done = end
    if not parts:
        return body
    return b"".join([*parts, body[done:]])


def has_references(body: bytes) -> bool:
    """Whether ``attach`` may change ``body``."""
    return _DOLLAR in body and _OPEN in body


def attach(body: bytes, get: Callable[[str], bytes]) -> bytes:
    """``body`` with every reference replaced by what ``get`` gives for its hash; undoes ``detach``."""
    if not has_references(body):
        return body

    def restore(match: re.Match[bytes]) -> bytes:
        underscores, digest, _ = match.groups()
        if underscores:
            return b'{"$blob' + underscores[:-1] + match.group(0)[len(_OPEN) + len(underscores) :]
        if digest is None:
            return match.group(0)
        return _encode(_text_of(digest.decode(), get))

    return _REFERENCE.sub(restore, body)


def _text_of(digest: str, get: Callable[[str], bytes]) -> str:
    try:
        return get(digest).decode()
    except UnicodeDecodeError as error:
        raise LogError("log: a blob is no text", kind="changed_blob", blob=digest) from error


def references(body: bytes) -> list[tuple[str, int]]:
    """Hash and size of each blob that a record refers to."""
    if _OPEN not in body:
        return []
    return [
        (match.group(2).decode(), int(match.group(3)))
        for match in _REFERENCE.finditer(body)
        if not match.group(1) and match.group(2)
    ]


def _content(token: bytes) -> bytes | None:
    """What a string of JSON says; None where it would not come back as it was written."""
    try:
        text = _decode_text(token)
        return text.encode() if _encode(text) == token else None
    except (msgspec.DecodeError, UnicodeError):
        return None  # a later version's business


def _strings(body: bytes) -> Iterator[tuple[int, int]]:
    """Where the strings of a JSON text begin and end, quotes included."""
    start = body.find(b'"')
    while start >= 0:
        end = body.find(b'"', start + 1)
        while end > 0 and _is_escaped(body, end):
            end = body.find(b'"', end + 1)
        if end < 0:
            return
        yield start, end + 1
        start = body.find(b'"', end + 1)


def _is_escaped(body: bytes, quote: int) -> bool:
    place = quote - 1
    while body[place] == 0x5C:
        place -= 1
    return (quote - 1 - place) % 2 == 1


class FolderBlobs:
    """A ``BlobStore`` of files, each named by the hash of what it holds; made when the first one comes.

    A file appears whole or not at all: it is written under a name of its own and renamed.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._unsynced: set[str] = set()

    def path_of(self, digest: str) -> str:
        """The file of a blob, whether it is there or not."""
        return os.path.join(self.folder, digest[:2], digest)

    def put(self, data: bytes, /) -> str:
        """Store ``data``; what is stored already, and whole, is left alone.

        Raises:
            LogError: it cannot be written.
        """
        digest = digest_of(data)
        path = self.path_of(digest)
        if not _holds(path, data):
            self._write(path, data)
        self._unsynced.add(path)  # whoever wrote it may have died before the disk had it
        return digest

    def _write(self, path: str, data: bytes) -> None:
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            write_whole(path, data)
        except OSError as error:
            raise LogError("log: a blob cannot be written", path=path, reason=error.strerror) from error

    def get(self, digest: str, /) -> bytes:
        """What is stored under ``digest``.

        Raises:
            LogError: it is missing, or is not what was stored.
        """
        path = self.path_of(digest)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise LogError("log: a blob is missing", kind="missing_blob", blob=digest, path=path) from error
        if digest_of(data) != digest:
            raise LogError("log: a blob was changed", kind="changed_blob", blob=digest, path=path)
        return data

    def sync(self) -> None:
        """Wait until the disk has what was put.

        Raises:
            OSError: the disk failed.
        """
        folders = {self.folder, os.path.dirname(self.folder) or "."}
        paths = self._unsynced
        if not paths:
            return
        while paths:  # others may put more meanwhile
            path = paths.pop()
            sync_path(path)
            folders.add(os.path.dirname(path))
        for folder in folders:
            sync_path(folder)

    def clean(self) -> None:
        """Remove what a writer that died has left half written; for the one writer there is.

        What cannot be removed stays: it is in nobody's way.
        """
        if not os.path.isdir(self.folder):
            return
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if name.endswith(PART):
                    with contextlib.suppress(OSError):
                        os.unlink(os.path.join(folder, name))


def _holds(path: str, data: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read() == data
    except OSError:
        return False


def sync_path(path: str) -> None:
    """Make a file, or the names in a folder, durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
