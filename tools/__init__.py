"""Built-in tools."""

if __name__ != "unspool.tools":
    raise ImportError("tools/ is not a top-level package: import unspool.tools")

from .files import file_tools
from .root import Root

__all__ = ["Root", "file_tools"]
