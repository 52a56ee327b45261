"""``bash``: a shell command, run in the agent's directory and environment, with nothing of it left behind.

Bash itself goes where it wants and does what the user may: ``confine_cwd`` keeps only the place where commands begin
inside the roots. What commands may do is for a permission engine to say, and for a sandbox (``wrap``) to bound.
Read with: ``process.py`` (running), ``exchange.py`` and ``session.py`` (state), ``environment.py``, ``report.py``.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from unspool.kernel.errors import ToolDefinitionError, ToolError
from unspool.kernel.events import Fact
from unspool.kernel.function_tool import RawTool
from unspool.kernel.ports import JSON, ToolContext, ToolResult
from unspool.kernel.tool_traits import Traits
from unspool.tools.files.root import Roots
from unspool.tools.tasks import Tasks
from unspool.tools.tasks.command_work import CommandWork
from unspool.tools.text import MAX_RESULT

from .environment import command_env, quiet_env
from .exchange import FD, Exchange
from .output import OutputBuffer
from .process import Command, CommandRequest, start_command
from .report import command_result
from .session import ShellState, ShellStates
from .spill import OutputFiles

TIMEOUT_S, MAX_TIMEOUT_S = 120.0, 600.0
BACKGROUND_TIMEOUT_S, MAX_BACKGROUND_TIMEOUT_S = 600.0, 86_400.0
_DESCRIPTION = """\
Run a command in bash. The directory (cd) and exported variables are kept for the next command, unless it ends its \
shell itself (exit, exec, set -e). There is no input and no terminal: nothing can be answered or confirmed. Processes \
left in the background are ended with the command{background}. Of a long output the beginning and the end are shown."""
_IN_BACKGROUND = ": use run_in_background for a server, or for what takes long"


def bash_tool(
    roots: str | os.PathLike[str] | Roots,
    *,
    env: Mapping[str, str] | None = None,
    prefix: str = "",
    wrap: Callable[[list[str]], list[str]] | None = None,
    tasks: Tasks | None = None,
    outputs: OutputFiles | None = None,
    cwd: Callable[[ToolContext], str] | None = None,
    confine_cwd: bool = True,
    shell: str = "bash",
) -> "BashTool":
    """The tool ``bash``. Commands begin in the first of ``roots``.

    They get the environment of this process without what looks like a secret (see ``command_env``); ``env`` is added
    as it is. ``prefix`` is put before each command, on lines of its own. ``wrap`` makes the ``argv`` that is run out of
    that of the shell: ``Sandbox.wrap``. With ``tasks``, a command may run in the background. ``outputs`` is where long
    outputs are kept; a sandbox must show ``outputs.path`` for commands to read them. ``cwd``, asked for each call,
    says where an agent begins instead, ``""`` for the root: one that has another worktree, for instance. With
    ``confine_cwd`` no command begins outside the roots. ``shell`` is the program: bash 4 or later.

    Raises:
        ToolDefinitionError: a root is no directory, there is no such shell, or this is not a POSIX system.
    """
    tops = roots.tops if isinstance(roots, Roots) else Roots(roots).tops
    options = _Options(
        env=dict(env or {}), prefix=prefix, wrap=wrap, tasks=tasks, outputs=outputs or OutputFiles()
    )
    states = ShellStates(tuple(top.path for top in tops), cwd, confine=confine_cwd)
    return BashTool(_found(shell), options, states)


class BashTool(RawTool):
    """What ``bash_tool`` makes. It knows where each agent's shell is."""

    def __init__(self, shell: str, options: "_Options", states: ShellStates) -> None:
        traits: Traits = {
            "max_result_bytes": MAX_RESULT,
            "activity": lambda args: str(args.get("description") or "Running a command"),
            "destructive": True,
            "open_world": True,
        }
        background = options.tasks is not None
        description = _DESCRIPTION.format(background=_IN_BACKGROUND if background else "")
        run = _Bash(shell, options, states).run
        super().__init__("bash", description, _schema(background=background), run, traits, None, None)
        self._states = states

    def cwd_of(self, ctx: ToolContext) -> str:
        """The directory in which the next command of the call's agent begins: a permission engine has to know it."""
        return self._states.of(ctx).cwd

    def restore(self, facts: Iterable[Fact]) -> None:
        """Let agents of an earlier process go on in the directory they were in, from the facts of their log; what
        they had exported is not in it."""
        self._states.restore(facts)


class _Options(Struct, frozen=True, kw_only=True):
    """See ``bash_tool``."""

    env: dict[str, str]
    prefix: str
    wrap: Callable[[list[str]], list[str]] | None
    tasks: Tasks | None
    outputs: OutputFiles


class _Bash:
    """The tool's function and what it remembers."""

    def __init__(self, shell: str, options: _Options, states: ShellStates) -> None:
        self._shell = shell
        self._options = options
        self._states = states

    async def run(self, args: JSON, ctx: ToolContext) -> ToolResult:
        """One call.

        Raises:
            ToolError: there is nothing to run, or nowhere, or it could not be started.
        """
        state = self._states.of(ctx)
        where = self._states.begin(ctx, state, args.get("workdir"))
        if args.get("run_in_background"):
            return await self._run_in_background(args, ctx, state, where)
        timeout_s = _timeout_s(args, TIMEOUT_S, MAX_TIMEOUT_S)
        exchange, command = self._start(args["command"], state, where, timeout_s)
        command.add_listener(partial(_report_progress, command, ctx))
        try:
            ended = await command.wait()
            if not ended.pid and ended.error:
                raise ToolError(f"the command could not be run: {ended.error}")
            left = exchange.left()
            moves = not args.get("workdir")
            notes = self._states.keep(ctx, state, left, moves=moves) if left is not None else []
        except GeneratorExit:  # its event loop is gone: nothing can be awaited
            command.request_stop()
            raise
        except BaseException:
            await command.stop()
            raise
        finally:
            command.add_listener(partial(_close_after, command, exchange))
        return command_result(ended, command.output, self._states.of(ctx).cwd, notes)

    async def _run_in_background(
        self, args: JSON, ctx: ToolContext, state: ShellState, where: str
    ) -> ToolResult:
        tasks = self._options.tasks
        if tasks is None:
            raise ToolError("commands can't run in the background here: leave run_in_background out")
        timeout_s = _timeout_s(args, BACKGROUND_TIMEOUT_S, MAX_BACKGROUND_TIMEOUT_S)

        async def launch(id: str) -> CommandWork:
            exchange, command = self._start(args["command"], state, where, timeout_s)
            command.add_listener(partial(_close_after, command, exchange))
            try:
                pid = await command.started()
            except BaseException:
                command.request_stop()
                raise
            if not pid:
                error = (command.ended and command.ended.error) or "it was stopped before it began"
                raise ToolError(f"the command could not be run: {error}")
            return CommandWork(command)

        description = args.get("description") or args["command"][:60]
        task = await tasks.start(
            "shell",
            launch,
            description=description,
            command=args["command"],
            session=ctx.session,
            agent=ctx.agent,
        )
        text = (
            f"{task.id} runs in the background (pid {task.pid}), for {timeout_s:.0f} s at most: its end will be told, "
            "task_output shows what it says, task_stop ends it"
        )
        return ToolResult(content=text, details={"shell_id": task.id, **task.details})

    def _start(self, text: str, state: ShellState, where: str, timeout_s: float) -> tuple[Exchange, Command]:
        options = self._options
        if not text.strip():
            raise ToolError("the command is empty")
        if "\0" in text:
            raise ToolError("the command holds a NUL character, which bash can't take")
        wrap = options.wrap
        exported = (state.env or quiet_env(options.env)) if wrap is not None else {}
        argv = Exchange.argv(self._shell)
        argv = argv if wrap is None else wrap(argv)
        try:
            exchange = Exchange(f"{options.prefix}\n{text}" if options.prefix else text, exported)
        except OSError as error:
            raise ToolError(f"there is no place for temporary files: {error.strerror}") from error
        request = CommandRequest(
            argv=argv,
            env={**(state.env or command_env(options.env)), "PWD": where},
            cwd=where,
            timeout_s=timeout_s,
            fd=exchange.fd,
            fd_inside=FD,
        )
        try:
            return exchange, start_command(request, OutputBuffer(options.outputs))
        except ToolError:
            exchange.close()
            raise


def _found(shell: str) -> str:
    if os.name != "posix":
        raise ToolDefinitionError("bash: it needs a POSIX system", platform=sys.platform)
    path = shutil.which(shell)
    if path is None:
        raise ToolDefinitionError("bash: there is no such shell", shell=shell)
    return os.path.abspath(path)


def _timeout_s(args: JSON, default: float, limit: float) -> float:
    given = args.get("timeout") or 0
    return min(float(given), limit) if given > 0 else default


def _close_after(command: Command, exchange: Exchange) -> None:
    """Not before: the command's thread passes the descriptor on."""
    if command.ended is not None:
        exchange.close()


def _report_progress(command: Command, ctx: ToolContext) -> None:
    output = command.output
    if output.size and command.ended is None:
        ctx.progress(output.newest_line(), topic="tool_delta", lines=output.lines, bytes=output.size)


def _schema(*, background: bool) -> dict[str, Any]:
    times = f"seconds until it is ended; {TIMEOUT_S:.0f} by default, at most {MAX_TIMEOUT_S:.0f}"
    if background:
        times += f" (in the background {BACKGROUND_TIMEOUT_S:.0f}, at most {MAX_BACKGROUND_TIMEOUT_S:.0f})"
    properties: dict[str, Any] = {
        "command": {"type": "string", "description": "what bash shall run; may have several lines"},
        "timeout": {"type": "number", "description": times},
        "workdir": {
            "type": "string",
            "description": "directory for this command only, from the current one; it must exist",
        },
        "description": {"type": "string", "description": "what it does, in a few words"},
    }
    if background:
        properties["run_in_background"] = {
            "type": "boolean",
            "description": "do not wait: get the id of a task at once",
        }
    return {
        "type": "object",
        "properties": properties,
        "required": ["command"],
        "additionalProperties": False,
    }
