"""Writing a file whole or not at all: its content is made beside it, brought to the disk, and put in its place.

Everything is named relative to an open directory, and nothing is opened through a link.

* A file keeps its permission bits, and its owner, group and extended attributes where the system allows it. The bits
  that let it run as its owner or group are dropped, as the system does when a file is written to.
* A file that other names share (hard links) becomes a file of its own; the other names keep the old content. Writing
  through could change files outside of the root.
* A file nobody may write to is not replaced, although its directory would allow it.
* A file that is new never takes the place of another that appeared meanwhile.

A process that is killed in the middle leaves ``.unspool-….tmp`` behind, and the file as it was. The next process that
writes in the directory removes it (``leftovers.py``).

Read with: ``change.py``.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable
from typing import Final

from unspool.kernel.errors import ToolError
from unspool.tools.text import shown, size_text

from .descent import open_regular
from .leftovers import beside_name, remove_leftovers

MAX_FILE: Final = 64 << 20  # bytes of a file that is read to be changed, or written
_CHUNK: Final = 1 << 20
_NEW: Final = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
_MODE: Final = 0o644  # of new files, less the umask
_PERMISSIONS: Final = 0o777
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_file(fd: int, name: str) -> bytes:
    """The content of the regular file ``name`` in the directory ``fd``.

    Raises:
        ToolError: it has more than ``MAX_FILE`` bytes, or is no regular file.
        OSError: it can't be opened.
    """
    with os.fdopen(open_regular(fd, name), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > MAX_FILE else file.read(MAX_FILE + 1)
    if max(size, len(data)) > MAX_FILE:
        raise ToolError(f"{shown(name)} is too large to be changed: over {size_text(MAX_FILE)}")
    return data


def save(
    fd: int, name: str, data: bytes, old: os.stat_result | None, check: Callable[[], None]
) -> os.stat_result:
    """Put ``data`` at ``name`` in the directory ``fd``, over the file ``old`` or where there is none.

    Gives what the system says of the new file. ``check`` is called when all that is left to do is the replacing; it
    raises if that must not be done.

    Raises:
        FileExistsError: ``old`` is None and something is there.
        OSError: the system refuses; nothing was changed.
    """
    if old is not None and not old.st_mode & 0o222:
        mode = stat.S_IMODE(old.st_mode)
        raise ToolError(f"{shown(name)} is read-only (mode {mode:04o}): nothing was changed")
    remove_leftovers(fd)
    beside = beside_name()
    made = os.open(beside, _NEW, _MODE if old is None else 0o600, dir_fd=fd)
    try:
        with os.fdopen(made, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view[:_CHUNK]) :]
            if old is not None:
                _copy_attributes(fd, name, file.fileno(), old)
            os.fsync(file.fileno())
            info = os.fstat(file.fileno())
        check()
        if old is None:
            move_to_free_name(fd, beside, fd, name)
        else:
            os.rename(beside, name, src_dir_fd=fd, dst_dir_fd=fd)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=fd)
        raise
    with contextlib.suppress(OSError):  # not every file system can; the file is in its place
        os.fsync(fd)
    return info


def move_to_free_name(fd: int, name: str, to_fd: int, to_name: str) -> None:
    """Give a file another name that nothing has, not even since somebody looked.

    Raises:
        FileExistsError: something is there.
        OSError: the system refuses, such as ``EXDEV`` between file systems.
    """
    try:
        os.link(name, to_name, src_dir_fd=fd, dst_dir_fd=to_fd, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(to_name, _NEW, 0o600, dir_fd=to_fd))  # takes the name, where there are no hard links
        try:
            os.rename(name, to_name, src_dir_fd=fd, dst_dir_fd=to_fd)
        except BaseException:
            os.unlink(to_name, dir_fd=to_fd)
            raise
    else:
        os.unlink(name, dir_fd=fd)


def _copy_attributes(fd: int, name: str, made: int, old: os.stat_result) -> None:
    """What ``old`` has besides its content, as far as this process may give it."""
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(OSError):  # only a privileged process may give files away
            os.fchown(made, old.st_uid, old.st_gid)
    if hasattr(os, "listxattr"):
        source = open_regular(fd, name)
        try:
            for key in _attributes(source):
                with contextlib.suppress(OSError):  # not every file system has them
                    os.setxattr(made, key, os.getxattr(source, key))
        finally:
            os.close(source)
    os.fchmod(made, stat.S_IMODE(old.st_mode) & _PERMISSIONS)


def _attributes(fd: int) -> list[str]:
    """Extended attributes of users and access lists; not those that give rights to a program."""
    try:
        return [key for key in os.listxattr(fd) if key.startswith(("user.", "system.posix_acl_access"))]
    except OSError:  # a file system without them
        return []
