"""A file that is being changed: what is in it, and ways to give it another content, another name or an end.

Made by ``Workspace.changing``, which holds the file's lock meanwhile. Right before anything is done the file is looked
at again: if its content is not what it was, nothing is done. Where a buffer is open on the file (``buffers.py``), its
content is that of the buffer, and what is written goes there and not to the disk.
"""

import os
import stat
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeAlias

from unspool.kernel.errors import ToolError
from unspool.tools.text import shown, size_text

from .buffers import Buffers, Content, buffer_at, content_at, in_buffer
from .descent import MissingFileError, Place
from .root import Roots
from .saving import MAX_FILE, move_to_free_name, save, sha256
from .text_file import NotTextError, TextFile, decode

Note: TypeAlias = Callable[[str, Content | None], None]
"""Told what is at an absolute path now; None where there is no file any more."""


class Change:
    """A file of a workspace, good inside the ``with`` it comes from.

    Raises:
        NotTextError: it is binary.
        ToolError: it is too large, or can't be read.
    """

    def __init__(
        self, roots: Roots, given: str, place: Place, note: Note, stay: ExitStack, buffers: Buffers | None
    ) -> None:
        self._roots = roots
        self._given = given
        self._place = place
        self._note = note
        self._stay = stay  # what is open as long as the change
        self._buffers = buffers
        self._content = content_at(place, buffers)
        self._file = TextFile() if self._content is None else decode_file(self._content.data, self.path)

    @property
    def path(self) -> str:
        """Where the file really is, as it is shown: relative where relative paths start, or absolute."""
        return self._roots.relative(self._place.path)

    @property
    def exists(self) -> bool:
        return self._content is not None

    @property
    def content(self) -> Content | None:
        """What is in the file; None where there is no file."""
        return self._content

    @property
    def sha256(self) -> str | None:
        """The hash of the content; None where there is no file."""
        return None if self._content is None else self._content.sha256

    @property
    def text(self) -> str:
        """The content without its byte order mark, newlines as they are in the file; empty where there is none.

        Bytes that are not UTF-8 are lone surrogates (``surrogateescape``); they are written back as they were.
        """
        return self._file.text

    @property
    def newline(self) -> str:
        r"""The first newline of the content; ``\n`` where there is none."""
        return self._file.newline

    @property
    def file(self) -> TextFile:
        """The content with its encoding and its byte order mark."""
        return self._file

    @property
    def names(self) -> int:
        """How many names (hard links) the file has: the others keep the old content when it is written to.

        0 where there is no file, or what is written goes to a buffer.
        """
        if self._place.info is None or self._content is None or self._content.buffer:
            return 0
        return self._place.info.st_nlink

    @property
    def details(self) -> dict[str, Any]:
        """The file as it is now, for ``ToolResult.details["file"]``."""
        path = self._roots.recorded(self._place.path)
        if self._content is None:
            return {"path": path, "deleted": True}
        return {"path": path, "sha256": self._content.sha256, "partial": False}

    def write(self, text: str) -> int:
        """Give the file the content ``text``, in its encoding and with its byte order mark; gives the number of bytes.

        Directories that lack are made. How it is done, and what a file keeps, is in ``saving.py``.

        Raises:
            ToolError: the file changed meanwhile, can't be written to, or would be too large; nothing was changed.
        """
        file = self._file
        data = file.encode(text)
        if len(data) > MAX_FILE:
            raise ToolError(f"the text is too large: {size_text(len(data))} of at most {size_text(MAX_FILE)}")
        content = self._to_buffer(data)
        if content is None:
            content = self._to_disk(data)
            self._file = file._replace(text=text.removeprefix("\ufeff") if file.bom else text)
        else:
            self._file = decode_file(content.data, self.path)
        self._content = content
        self._note(self._place.path, content)
        return len(data)

    def delete(self) -> None:
        """Remove the file; where the path given is a link, the link only.

        Raises:
            ToolError: the file changed meanwhile, can't be removed, or is not saved; nothing was changed.
        """
        self._check_unchanged()
        place = self._place
        if place.is_link:
            unlink_link(self._roots, self._given)
            return
        self._check_saved()
        try:
            os.unlink(place.name, dir_fd=place.fd)
        except OSError as error:
            raise _not_changed(self.path, error) from error
        self._content = None
        self._file = TextFile()
        self._note(place.path, None)

    def move_to(self, path: str) -> None:
        """Give the file another path, where nothing is; directories that lack are made. The change goes on there.

        Raises:
            ToolError: something is at ``path``, it is outside, on another file system, or the file changed meanwhile
                or is not saved.
        """
        if not self.exists:
            raise MissingFileError(f"there is no {shown(self._given)}")
        if self._place.is_link:
            raise ToolError(f"{shown(self._given)} is a link: move {shown(self.path)} instead")
        self._check_unchanged()
        self._check_saved()
        old, info = self._place, self._place.info
        self._go_to(path)
        new = self._place
        try:
            if new.info is not None or buffer_at(new, self._buffers) is not None:
                raise FileExistsError
            move_to_free_name(old.fd, old.name, new.fd, new.name)
        except FileExistsError:
            self._place = old
            raise ToolError(f"{shown(path)} exists: nothing was moved") from None
        except OSError as error:
            self._place = old
            raise _not_changed(self.path, error) from error
        self._place = new._replace(info=info)
        self._note(old.path, None)
        if self._content is not None:
            self._content = self._content._replace(buffer=None)
        self._note(new.path, self._content)

    def _go_to(self, path: str) -> None:
        """Be at ``path``, its directories made."""
        self._place = self._stay.enter_context(self._roots.place(path, make_parents=True))

    def _to_buffer(self, data: bytes) -> Content | None:
        """Write to the buffer that is open on the file; None where none is."""
        buffer = buffer_at(self._place, self._buffers)
        if self._buffers is None or buffer is None:
            return None
        self._check_still(in_buffer(buffer, self._place))
        written = self._buffers.write(self._place.path, data, buffer)
        return None if written is None else in_buffer(written, self._place)

    def _to_disk(self, data: bytes) -> Content:
        if self._place.missing:
            self._go_to(self._place.path)
        place = self._place
        try:
            old = place.info if self.exists else None
            info = save(place.fd, place.name, data, old, self._check_unchanged)
        except FileExistsError:
            raise _changed(self.path) from None
        except OSError as error:
            raise _not_changed(self.path, error) from error
        self._place = place._replace(info=info)
        return Content(data, sha256(data))

    def _check_unchanged(self) -> None:
        self._check_still(content_at(self._place, self._buffers))

    def _check_still(self, now: Content | None) -> None:
        """Refuse to go on if what is there ``now`` is not what there was."""
        was = self._content
        if was is None or now is None:
            if was is not now:
                raise _changed(self.path)
        elif now.differs(was.sha256, was.version):
            raise _changed(self.path)

    def _check_saved(self) -> None:
        """Refuse to take away the file under a buffer that is not saved."""
        if self._content is None or self._content.buffer is None:
            return
        on_disk = content_at(self._place, None)
        if on_disk is None or on_disk.sha256 != self._content.sha256:
            raise ToolError(f"{shown(self.path)} is open and not saved: it can't be moved or deleted before")


def decode_file(data: bytes, path: str) -> TextFile:
    """``data`` as text. Raises ``NotTextError``, which names the file."""
    try:
        return decode(data)
    except NotTextError as error:
        raise NotTextError(f"{shown(path)} {error}") from error


def unlink_link(roots: Roots, path: str) -> str:
    """Remove the link at ``path``, wherever it leads; gives its absolute path, which is empty where there is none."""
    with roots.place(path, follow=False) as place:
        if place.info is None or not stat.S_ISLNK(place.info.st_mode):
            return ""
        try:
            os.unlink(place.name, dir_fd=place.fd)
        except OSError as error:
            raise _not_changed(path, error) from error
        return place.path


def _changed(path: str) -> ToolError:
    return ToolError(f"{shown(path)} was changed by somebody else just now: read it again")


def _not_changed(path: str, error: OSError) -> ToolError:
    return ToolError(f"{shown(path)} can't be changed: {error.strerror}")
