"""A Python that keeps its variables between calls, in a sandbox."""

from .tool import PythonInterpreter

__all__ = ["PythonInterpreter"]
