"""``coding``: the usual tools of a coding agent over one or several directories, with what they share.

Read with: ``permissions/`` (the gate beside them), ``files/workspace.py``, ``shell/bash.py``, ``tasks/registry.py``.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack, overload

from unspool.kernel.errors import ToolDefinitionError
from unspool.kernel.events import Fact
from unspool.kernel.ports import BlobStore, Tool

from .ask_user import ask_user_tool
from .files import (
    Workspace,
    apply_patch_tool,
    edit_file_tool,
    file_tools,
    multi_edit_tool,
    write_file_tool,
)
from .interpreter import PythonInterpreter
from .permissions import Directories, GrantStore, Permissions, Request, Rules
from .permissions.shell_commands import analyse
from .sandbox import Sandbox
from .shell import OutputFiles, bash_tool
from .tasks import Deliver, Tasks, task_tools
from .todo import todo_tool
from .web import fetch_url_tool


class PermissionOptions(TypedDict, total=False):
    """What ``Permissions`` takes besides directories and mode."""

    rules: Rules | Mapping[str, Iterable[str]] | None
    sensitive: Iterable[str]
    store: GrantStore | None
    plan_tools: Collection[str]
    plan_allows: Callable[[Request], bool] | None
    trusted_servers: Collection[str]
    deny_unknown: bool


def coding(
    *roots: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    sandbox: bool | Mapping[str, Any] = False,
    blobs: BlobStore | None = None,
    notify: Deliver | None = None,
    leave_out: Collection[str] = (),
) -> "Coding":
    """The usual tools of a coding agent that works below ``roots``; relative paths begin at the first.

    They read and change files, run commands, in the background too, keep a list of what is to do, ask a person, and
    fetch pages. ``env`` is added to what commands get. With a ``sandbox`` (True, or options of ``Sandbox``) commands are
    confined to the roots, and there is ``python``. ``blobs`` is where long results are stored (see ``file_tools``). ``notify``
    is told of background tasks that have ended: ``agent.follow_up``. Tools named in ``leave_out`` are left out.

    One value is one workspace: agents that share it exclude each other on a file, and each has a shell of its own.
    Nothing here asks before it acts: that is what ``Coding.permissions`` is for.

    Raises:
        SandboxUnavailableError: this host can have no sandbox.
        ToolDefinitionError: a root is not a directory, there is no bash, or no such tool to leave out.
    """
    return Coding(roots, env=env, sandbox=sandbox, blobs=blobs, notify=notify, leave_out=frozenset(leave_out))


class Coding(Sequence[Tool]):
    """The tools that ``coding`` makes: a sequence for ``Agent(tools=…)``, and what they share.

    ``async with`` or ``aclose`` ends background tasks, interpreters and the files of long outputs.
    """

    def __init__(
        self,
        roots: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None,
        sandbox: bool | Mapping[str, Any],
        blobs: BlobStore | None,
        notify: Deliver | None,
        leave_out: frozenset[str],
    ) -> None:
        if not roots:
            raise ToolDefinitionError("coding: give a directory to work in")
        self.workspace = Workspace(*roots)
        self.tasks = Tasks(notify=notify)
        self._outputs = OutputFiles()
        confined = self._make_sandbox(sandbox)
        self._python = PythonInterpreter(confined) if confined is not None else None
        self._bash = bash_tool(
            self.workspace,
            env=env,
            wrap=confined.wrap if confined is not None else None,
            tasks=self.tasks,
            outputs=self._outputs,
        )
        made: list[Tool] = [
            *file_tools(self.workspace, blobs=blobs),
            write_file_tool(self.workspace),
            edit_file_tool(self.workspace),
            multi_edit_tool(self.workspace),
            apply_patch_tool(self.workspace),
            self._bash,
            *([self._python.tool] if self._python is not None else []),
            *task_tools(self.tasks),
            todo_tool(),
            ask_user_tool(),
            fetch_url_tool(),
        ]
        if unknown := leave_out - {tool.spec.name for tool in made}:
            raise ToolDefinitionError("coding: there are no such tools to leave out", names=sorted(unknown))
        self._tools = tuple(tool for tool in made if tool.spec.name not in leave_out)

    def _make_sandbox(self, wanted: bool | Mapping[str, Any]) -> Sandbox | None:
        if wanted is False:
            return None
        options = dict(wanted) if isinstance(wanted, Mapping) else {}
        readable = [self._outputs.path, *options.pop("readable", ())]
        return Sandbox([top.path for top in self.workspace.tops], readable=readable, **options)

    def permissions(self, mode: str = "default", **options: Unpack[PermissionOptions]) -> Permissions:
        """A gate for these tools: ``Hooks(gate=tools.permissions("accept-edits"))``.

        It knows the roots and in which directory each agent's shell is. ``options`` are those of ``Permissions``.

        Raises:
            AgentError: no such mode, a rule that can't be read, or no parser for commands (extra ``permissions``).
        """
        if any(tool is self._bash for tool in self._tools):
            analyse("true")
        first, *more = [top.path for top in self.workspace.tops]
        directories = Directories(first, write=more, internal_read=[self._outputs.path])
        return Permissions(
            directories,
            mode=mode,
            cwd=lambda use: self._bash.cwd_of(use.ctx),
            path=lambda use: self._bash.path_of(use.ctx),
            **options,
        )

    def restore(self, facts: Iterable[Fact]) -> None:
        """Take up what a session of an earlier process left, from the facts of its log, before its agent runs.

        Files count as read that were read then and have not changed. Shells are where they were. Tasks that ran are
        told as lost.
        """
        known = list(facts)
        self.workspace.restore(known)
        self._bash.restore(known)
        self.tasks.restore(known)

    async def aclose(self) -> None:
        """End everything that runs."""
        try:
            await self.tasks.aclose()
        finally:  # a cancellation comes when the tasks have ended
            if self._python is not None:
                await self._python.aclose()
            self._outputs.close()

    @overload
    def __getitem__(self, index: int) -> Tool: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tool]: ...
    def __getitem__(self, index: int | slice) -> Tool | Sequence[Tool]:
        return self._tools[index]

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def __repr__(self) -> str:
        return f"<coding tools below {', '.join(top.path for top in self.workspace.tops)}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        await self.aclose()
