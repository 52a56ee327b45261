"""``bash``: a shell command, run in the agent's directory and environment, with nothing of it left behind.

Bash itself goes where it wants and does what the user may: ``confine_cwd`` keeps only the place where commands begin
inside the roots. What commands may do is for a permission engine to say, and for a sandbox (``wrap``) to bound.
Read with: ``arguments.py``, ``process.py`` (running), ``exchange.py`` and ``session.py`` (state), ``environment.py``, ``report.py``.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from msgspec import Struct

from unspool.kernel.errors import ToolDefinitionError, ToolError
from unspool.kernel.events import Fact
from unspool.kernel.function_tool import RawTool
from unspool.kernel.ports import JSON, ToolContext, ToolResult
from unspool.kernel.tool_traits import Traits
from unspool.tools.files.root import Roots
from unspool.tools.tasks import Tasks
from unspool.tools.text import MAX_RESULT

from .arguments import description, schema, timeout_of
from .command_work import CommandWork
from .environment import command_env, quiet_env
from .exchange import FD, Exchange, Left
from .output import OutputBuffer
from .process import Command, CommandRequest, start_command
from .report import command_result
from .session import ShellState, ShellStates
from .spill import OutputFiles


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
        run = _Bash(shell, options, states).run
        said = description(background=background), schema(background=background)
        super().__init__("bash", *said, run, traits, None, None)
        self._states = states

    def cwd_of(self, ctx: ToolContext) -> str:
        """The directory in which the next command of the call's agent begins: a permission engine has to know it."""
        return self._states.of(ctx).cwd

    def path_of(self, ctx: ToolContext) -> str:
        """Where the next command of the call's agent finds programs (``PATH``), for a permission engine as well."""
        env = self._states.of(ctx).env
        return os.environ.get("PATH", os.defpath) if env is None else env.get("PATH", os.defpath)

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
        timeout_s = timeout_of(args, background=False)
        base = self._base()
        exchange, command = self._start(args["command"], state.env or base, where, timeout_s)
        command.add_listener(partial(_report_progress, command, ctx))
        try:
            async with command:
                ended = await command.wait()
                if not ended.pid and ended.error:
                    raise ToolError(f"the command could not be run: {ended.error}")
                left = exchange.left()
                notes = self._keep(args, ctx, state, left, base) if left is not None else []
        finally:
            command.add_listener(partial(_close_after, command, exchange))
        return command_result(ended, command.output, self._states.of(ctx).cwd, notes)

    def _keep(
        self, args: JSON, ctx: ToolContext, state: ShellState, left: Left, base: dict[str, str]
    ) -> list[str]:
        command = "" if self._options.wrap is None else args["command"]
        return self._states.keep(ctx, state, left, base, moves=not args.get("workdir"), command=command)

    async def _run_in_background(
        self, args: JSON, ctx: ToolContext, state: ShellState, where: str
    ) -> ToolResult:
        tasks = self._options.tasks
        if tasks is None:
            raise ToolError("commands can't run in the background here: leave run_in_background out")
        timeout_s = timeout_of(args, background=True)

        async def launch(id: str) -> CommandWork:
            env = state.env or self._base()
            exchange, command = self._start(args["command"], env, where, timeout_s)
            command.add_listener(partial(_close_after, command, exchange))
            async with command:
                pid = await command.started()
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

    def _base(self) -> dict[str, str]:
        """The environment of an agent's first command; a wrapper adds its own."""
        options = self._options
        return command_env(options.env) if options.wrap is None else quiet_env(options.env)

    def _start(
        self, text: str, env: dict[str, str], where: str, timeout_s: float
    ) -> tuple[Exchange, Command]:
        options = self._options
        if not text.strip():
            raise ToolError("the command is empty")
        if "\0" in text:
            raise ToolError("the command holds a NUL character, which bash can't take")
        argv, exported = Exchange.argv(self._shell), {}
        if (
            options.wrap is not None
        ):  # it may clear the environment, and runs outside of what it makes: none of the
            # session's variables is for it
            argv, exported, env = options.wrap(argv), env, command_env(options.env)
        try:
            exchange = Exchange(f"{options.prefix}\n{text}" if options.prefix else text, exported)
        except OSError as error:
            raise ToolError(f"there is no place for temporary files: {error.strerror}") from error
        request = CommandRequest(
            argv=argv,
            env={**env, "PWD": where},
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


def _close_after(command: Command, exchange: Exchange) -> None:
    """Not before: the command's thread passes the descriptor on."""
    if command.ended is not None:
        exchange.close()


def _report_progress(command: Command, ctx: ToolContext) -> None:
    output = command.output
    if output.size and command.ended is None:
        ctx.progress(output.newest_line(), topic="tool_delta", lines=output.lines, bytes=output.size)
