"""``python``: code in a sandbox, with variables that stay.

Each agent has its own process, started at its first call and kept while others are not used more recently.
Read with: ``process.py`` (one process), ``worker.py`` (what runs in it).
"""

import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Self, TypeAlias

from unspool.kernel.errors import ToolDefinitionError, ToolError
from unspool.kernel.function_tool import FunctionTool, tool
from unspool.kernel.messages import Content, Image, Text
from unspool.kernel.ports import ToolContext, ToolResult
from unspool.tools.sandbox import Sandbox
from unspool.tools.text import MAX_RESULT, count_text, shown, size_text

from .head_tail import HeadTail
from .process import Reply, Worker, WorkerLostError

HEAD = TAIL = 20 * 1024  # bytes of output shown, from the beginning and from the end
DEFAULT_S = 60.0
MAX_S = 600.0

_Key: TypeAlias = tuple[str, tuple[str, ...]]  # a session and one of its agents


class PythonInterpreter:
    """The tool ``python`` and the processes behind it; ``async with`` or ``aclose`` ends them.

    The working directory is the first root of ``sandbox``. ``python`` is the program to use, visible in the
    sandbox; by default the one that runs now, with its packages. At most ``max_workers`` processes are
    kept: one more ends the process that was longest unused, and its agent is told with the next call.

    Raises:
        ToolDefinitionError: there is no sandbox.
    """

    def __init__(self, sandbox: Sandbox, *, python: str = "", max_workers: int = 4) -> None:
        if not isinstance(sandbox, Sandbox):
            raise ToolDefinitionError("python: it runs code only in a sandbox: give it a Sandbox")
        if max_workers < 1:
            raise ToolDefinitionError("python: it needs room for a worker", max_workers=max_workers)
        self._sandbox = sandbox
        self._python = python or sys.executable
        self._max_workers = max_workers
        self._workers: OrderedDict[_Key, Worker] = OrderedDict()
        self._ended: OrderedDict[_Key, str] = OrderedDict()  # whose variables are gone, and why
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._workers)
        self.tool = self._make_tool()

    async def aclose(self) -> None:
        """End all processes. A later call of the tool starts anew."""
        _close_all(self._workers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def _make_tool(self) -> FunctionTool[..., object]:
        @tool(
            title="Run Python",
            activity="Running Python",
            read_only=False,
            concurrency_safe=False,
            open_world=self._sandbox.network,
            max_result_bytes=MAX_RESULT,
        )
        async def python(
            code: str,
            ctx: ToolContext,
            timeout: float = DEFAULT_S,  # noqa: ASYNC109 (what models call it)
            restart: bool = False,
        ) -> ToolResult:
            """Run Python code in a sandbox. Variables, imports and functions stay for the next call.

            The value of the last expression is shown, as in a notebook, and so is what is printed. Files
            are kept in the working directory only. Figures of matplotlib are shown. Nothing can be typed in.

            Args:
                code: the code; 'await' may be used at the top level
                timeout: seconds after which the code is interrupted, at most 600
                restart: start with a new Python, without the variables
            """
            if restart:
                self._drop((ctx.session, ctx.agent))
            return await self._run(code, min(timeout, MAX_S) if timeout > 0 else DEFAULT_S, ctx)

        return python

    async def _run(self, code: str, timeout_s: float, ctx: ToolContext) -> ToolResult:
        key = (ctx.session, ctx.agent)
        worker, is_new = self._worker(key)
        reason = self._ended.pop(key, "") if is_new else ""
        output = HeadTail(HEAD, TAIL)
        try:
            reply, was_slow = await worker.run(code, timeout_s, output)
        except WorkerLostError:
            self._drop(key)
            why = f"Python ended ({worker.exit_text})"
            if worker.timed_out:
                why = f"the code did not end within {timeout_s:g} s, nor when interrupted: Python was ended"
            return _result(output, [f"{why}; all variables are lost"], Reply(error="WorkerLost"))
        notes = [f"a new Python: {reason}"] if reason else []
        if was_slow:
            notes.append(f"interrupted after {timeout_s:g} s; the variables are kept")
        return _result(output, [*notes, *_file_notes(reply)], reply)

    def _worker(self, key: _Key) -> tuple[Worker, bool]:
        """The worker of an agent, and whether it was just started."""
        with self._lock:
            worker = self._workers.get(key)
            if worker is not None and worker.busy:
                raise ToolError("python is still running an earlier call: wait for its result")
            if worker is not None and worker.alive:
                self._workers.move_to_end(key)
                return worker, False
            if worker is not None:
                self._forget(key, "the old one had ended")
            while len(self._workers) >= self._max_workers:
                idle = next((each for each, other in self._workers.items() if not other.busy), None)
                if idle is None:
                    raise ToolError(
                        f"all {count_text(len(self._workers), 'Python')} are in use: try again later"
                    )
                self._forget(idle, "the old one was ended to make room for others")
            worker = Worker(self._sandbox, self._python, self._sandbox.roots[0])
            self._workers[key] = worker
            return worker, True

    def _drop(self, key: _Key) -> None:
        with self._lock:
            worker = self._workers.get(key)
            if worker is not None and worker.busy:
                raise ToolError("python is still running an earlier call: wait for its result")
            worker = self._workers.pop(key, None)
            self._ended.pop(key, None)
        if worker is not None:
            worker.close()

    def _forget(self, key: _Key, reason: str) -> None:
        self._workers.pop(key).close()
        self._ended[key] = f"{reason}, its variables are lost"
        while len(self._ended) > 1000:
            self._ended.popitem(last=False)


def _close_all(workers: OrderedDict[_Key, Worker]) -> None:
    while workers:
        worker = workers.popitem()[1]
        if worker.busy:
            worker.kill()
        else:
            worker.close()


def _file_notes(reply: Reply) -> list[str]:
    files = [f"{shown(name)} ({size_text(size)})" for name, size in reply.files]
    notes = [f"files written: {', '.join(files)}"] if files else []
    return (
        notes if reply.files_complete else [*notes, "there may be more files written: not all were looked at"]
    )


def _result(output: HeadTail, notes: Sequence[str], reply: Reply) -> ToolResult:
    text = output.text().rstrip("\n")
    lines = ([text] if text else []) + [f"[{note}]" for note in notes]
    told = "\n".join(lines) or "[no output]"
    images = [Image(data=data, mime_type="image/png") for data in reply.figures]
    content: str | list[Content] = [Text(text=told), *images] if images else told
    details = {
        "error": reply.error,
        "output_bytes": output.size,
        "files": [{"path": name, "size": size} for name, size in reply.files],
    }
    return ToolResult(content=content, details=details, is_error=bool(reply.error))
