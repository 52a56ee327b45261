"""Built-in tools."""

if __name__ != "unspool.tools":
    raise ImportError("tools/ is not a top-level package: import unspool.tools")

from .files import Root, file_tools

__all__ = ["Root", "file_tools"]
