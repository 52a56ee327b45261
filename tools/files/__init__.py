"""Tools that look at files and change them, below directories that they can't leave."""

from .apply_patch import apply_patch_tool
from .buffers import Buffer, Buffers
from .edit_file import edit_file_tool
from .multi_edit import multi_edit_tool
from .reading_tools import file_tools
from .root import Root, Roots
from .workspace import Workspace
from .write_file import write_file_tool

__all__ = [
    "Buffer",
    "Buffers",
    "Root",
    "Roots",
    "Workspace",
    "apply_patch_tool",
    "edit_file_tool",
    "file_tools",
    "multi_edit_tool",
    "write_file_tool",
]
