"""Built-in tools: files, shell, background tasks, questions, pages, and the permission engine before them."""

if __name__ != "unspool.tools":
    raise ImportError("tools/ is not a top-level package: import unspool.tools")

from .ask_user import ask_user_tool
from .coding import Coding, coding
from .files import (
    Buffer,
    Buffers,
    Root,
    Roots,
    Workspace,
    apply_patch_tool,
    edit_file_tool,
    file_tools,
    multi_edit_tool,
    write_file_tool,
)
from .interpreter import PythonInterpreter
from .permissions import Directories, GrantStore, Permissions, Rules
from .sandbox import Sandbox, SandboxLimits, SandboxUnavailableError
from .shell import BashTool, OutputFiles, bash_tool
from .tasks import Task, Tasks, task_tools
from .todo import TodoItem, current, todo_tool
from .web import fetch_url_tool

__all__ = [
    "BashTool",
    "Buffer",
    "Buffers",
    "Coding",
    "Directories",
    "GrantStore",
    "OutputFiles",
    "Permissions",
    "PythonInterpreter",
    "Root",
    "Roots",
    "Rules",
    "Sandbox",
    "SandboxLimits",
    "SandboxUnavailableError",
    "Task",
    "Tasks",
    "TodoItem",
    "Workspace",
    "apply_patch_tool",
    "ask_user_tool",
    "bash_tool",
    "coding",
    "current",
    "edit_file_tool",
    "fetch_url_tool",
    "file_tools",
    "multi_edit_tool",
    "task_tools",
    "todo_tool",
    "write_file_tool",
]
