"""Tools that look at files and change them, below directories that they can't leave."""

from .all import file_tools
from .root import Root

__all__ = ["Root", "file_tools"]
