"""Background tasks: a registry, notices of what has ended, and the tools for it."""

from .entry import Outcome, Piece, Status, Task, Work
from .kept import Deliver
from .registry import Launch, Tasks
from .task_tools import task_tools

__all__ = ["Deliver", "Launch", "Outcome", "Piece", "Status", "Task", "Tasks", "Work", "task_tools"]
