"""The tools that look at files, confined to one directory."""

import os

from unspool.kernel.ports import BlobStore, Tool

from .glob import glob_tool
from .grep import grep_tool
from .list_dir import list_dir_tool
from .read_file import read_file_tool
from .root import Root, Roots


def file_tools(root: str | os.PathLike[str] | Roots, *, blobs: BlobStore | None = None) -> list[Tool]:
    """``read_file``, ``list_dir``, ``glob`` and ``grep`` below the directory ``root``.

    All of them only read, may run beside each other, and can't leave the directory. ``root`` may be several, as ``Roots`` or
    a ``Workspace``, which notes what ``read_file`` was asked for. With ``blobs``,
    ``read_file`` also opens what is stored there (``blob:<digest>``), such as results that a context manager
    has shortened.

    Raises:
        ToolDefinitionError: ``root`` is not an existing directory.
    """
    confined = root if isinstance(root, Roots) else Root(root)
    return [
        read_file_tool(confined, blobs),
        *[make(confined) for make in (list_dir_tool, glob_tool, grep_tool)],
    ]
