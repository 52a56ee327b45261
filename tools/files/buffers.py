"""Open buffers of a host, such as an editor: what is in them stands for what is on the disk.

A host gives ``Buffers`` to a ``Workspace``. It is asked only for paths that were found to lie in the roots, and from
several threads at once. Commands that are run, and what lists files, see the disk.
Read with: ``change.py`` and ``workspace.py``, which ask it.
"""

from collections.abc import Collection
from typing import NamedTuple, Protocol

from unspool.kernel.errors import ToolError
from unspool.tools.text import shown, size_text

from .descent import Place, told
from .saving import MAX_FILE, read_file, sha256


class Buffer(NamedTuple):
    """What is in an open buffer, as the bytes that would be saved.

    ``version`` is another one after each change; with two that differ the same bytes are not the same content. It is
    empty where the host keeps none.
    """

    data: bytes
    version: str = ""


class Buffers(Protocol):
    """The buffers that are open in a host. Paths are absolute and free of links. What it raises ends the call."""

    def paths(self) -> Collection[str]:
        """The paths of all open buffers; others than those in the roots are passed over."""
        ...

    def read(self, path: str) -> Buffer | None:
        """What is in the buffer of the file at ``path``, saved or not; None where none is open.

        A buffer that stays open although its file was deleted or moved counts as a file at its old path.
        """
        ...

    def write(self, path: str, data: bytes, over: Buffer) -> Buffer | None:
        """Put ``data`` in place of what is in the buffer, and give what is in it then.

        None where none is open any more: nothing was done, and the file on the disk is written to.

        Raises:
            ToolError: something else than ``over`` is in it; a host that can't tell need not look.
        """
        ...


class Content(NamedTuple):
    """What is in a file, and in which buffer it is; None for the disk."""

    data: bytes
    sha256: str
    buffer: Buffer | None = None

    @property
    def version(self) -> str:
        return self.buffer.version if self.buffer else ""

    def differs(self, sha256: str, version: str) -> bool:
        """Whether it is another than one that was seen. Versions count where both have one."""
        return self.sha256 != sha256 or bool(version and self.version and self.version != version)


def buffer_at(place: Place, buffers: Buffers | None) -> Buffer | None:
    """The buffer that is open on the file at a place."""
    return None if buffers is None else buffers.read(place.path)


def content_at(place: Place, buffers: Buffers | None) -> Content | None:
    """What is in the file at a place: in its buffer, if one is open. None where there is none.

    Raises:
        ToolError: it can't be read, or is too large.
    """
    buffer = buffer_at(place, buffers)
    if buffer is not None:
        return in_buffer(buffer, place)
    try:
        data = None if place.missing else read_file(place.fd, place.name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise told(error, place.name) from error
    return None if data is None else Content(data, sha256(data))


def in_buffer(buffer: Buffer, place: Place) -> Content:
    """The content of a buffer. Raises ``ToolError`` if it is too large."""
    if len(buffer.data) > MAX_FILE:
        raise ToolError(f"{shown(place.name)} is too large to be changed: over {size_text(MAX_FILE)}")
    return Content(buffer.data, sha256(buffer.data), buffer)
