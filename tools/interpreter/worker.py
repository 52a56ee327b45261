"""The program that runs inside the sandbox and executes code; it knows nothing of unspool.

It is given as text to a Python, which need not be the one of the host. Requests are lines of JSON on
standard input: ``{"code": …}`` or ``{"interrupt": true}``. What the code prints goes to standard output
and standard error, which are one pipe. At the start, and when the code is done, a reply is written to a descriptor of its
own: four bytes of length, then JSON.

Nothing that it says is to be trusted: the code it runs may write to any of its descriptors.
Read with: ``process.py`` (the other end).
"""

from __future__ import annotations  # the Python of the sandbox may be an older one

import ast
import asyncio
import base64
import inspect
import io
import json
import linecache
import os
import queue
import signal
import stat
import struct
import sys
import threading
import time
import traceback
import types
from collections.abc import Iterator
from typing import Any, TextIO

MAX_FILES = 20  # told of those that a call made or changed
MAX_ENTRIES = 5000  # looked at to find them
MAX_FIGURES = 8
MAX_FIGURE = 2 << 20  # bytes
MAX_FRAMES = 20
COARSE = 5  # CLOCK_REALTIME_COARSE of Linux: what files are stamped with; it lags behind the fine one
HIDDEN = ("<string>", ast.__file__)  # frames of this program
SKIPPED = frozenset({".git", ".hg", ".venv", "node_modules", "__pycache__", ".ipynb_checkpoints"})


class ErrorStream(io.TextIOWrapper):
    """Standard error, kept in order with standard output."""

    def write(self, text: str) -> int:
        sys.stdout.flush()
        count = super().write(text)
        self.flush()
        return count


class Worker:
    def __init__(self, requests: TextIO, replies: int, roots: list[str]) -> None:
        self.requests = requests
        self.replies = replies
        self.roots = roots
        self.codes: queue.Queue[str] = queue.Queue()
        self.running = False
        self.calls = 0
        self.asked = self.stopped = (
            0  # the number of the last call that was asked for, of the last that is to end
        )
        self.told: set[tuple[str, int]] = set()  # files of the last call, with their times
        self.outputs = os.dup(1), os.dup(2)
        self.main = types.ModuleType("__main__")
        sys.modules["__main__"] = self.main  # pickle and dataclasses look there
        self.main.__dict__["__builtins__"] = __builtins__

    def serve(self) -> None:
        signal.signal(signal.SIGINT, self.interrupted)
        threading.Thread(target=self.listen, daemon=True).start()
        own = os.getpid()
        self.reply({})  # it is up
        while True:
            reply = self.run(self.codes.get())
            if os.getpid() != own:
                os._exit(0)  # a fork that came out of the code
            self.reply(reply)

    def listen(self) -> None:
        thread = threading.main_thread().ident or 0
        for line in self.requests:
            request = json.loads(line)
            if "code" in request:
                self.asked += 1
                self.codes.put(request["code"])
            else:
                self.stopped = self.asked  # it may not have begun
                signal.pthread_kill(thread, signal.SIGINT)
        os._exit(0)  # the host is gone

    def interrupted(self, number: int, frame: object) -> None:
        if self.running:
            raise KeyboardInterrupt

    def reply(self, reply: dict[str, Any]) -> None:
        data = json.dumps(reply).encode()
        data = struct.pack(">I", len(data)) + data
        while data:
            data = data[os.write(self.replies, data) :]

    def run(self, source: str) -> dict[str, Any]:
        self.calls += 1
        began = time.clock_gettime(COARSE)
        reply: dict[str, Any] = {"error": ""}
        try:
            try:
                self.running = True
                if self.stopped >= self.calls:
                    raise KeyboardInterrupt
                self.execute(source, f"<call {self.calls}>")
            finally:
                self.running = False  # from here on no interrupt raises anything
        except SystemExit as error:
            reply["error"] = "SystemExit"
            print(f"SystemExit: {error.code}", file=sys.stderr)
        except BaseException as error:  # noqa: BLE001 (whatever the code raises is its result)
            self.running = False
            reply["error"] = type(error).__name__
            show(error)
        reply["figures"] = figures()
        reply["files"], reply["files_complete"] = self.changed(began)
        try:
            for fd, stream in ((1, sys.stdout), (2, sys.stderr)):
                stream.flush()
                os.fstat(fd)
        except Exception:  # noqa: BLE001 (the code closed it, or put something of its own there)
            reply["error"] = reply["error"] or "OutputClosed"
            os.dup2(self.outputs[0], 1)
            os.dup2(self.outputs[1], 2)
            open_outputs()
            print("the output was closed, and is open again", file=sys.stderr)
        return reply

    def execute(self, source: str, name: str) -> None:
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        tree = ast.parse(source, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body[-1].value)
            del tree.body[-1]
        self.evaluate(compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
        if last is not None:
            value = self.evaluate(compile(last, name, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
            if value is not None:
                self.main.__dict__["_"] = value
                print(repr(value))

    def evaluate(self, code: types.CodeType) -> object:
        value = eval(code, self.main.__dict__)
        return asyncio.run(value) if code.co_flags & inspect.CO_COROUTINE else value

    def changed(self, began: float) -> tuple[list[tuple[str, int]], bool]:
        """Files below the roots that were made or written since ``began``, and whether all were looked at."""
        found: list[tuple[str, int]] = []
        last, self.told = self.told, set()
        for seen, path in enumerate(files(self.roots)):
            if seen >= MAX_ENTRIES or len(found) >= MAX_FILES:
                return found, False
            try:
                info = os.lstat(path)
            except OSError:
                continue  # gone since
            stamp = (path, info.st_ctime_ns)
            if not stat.S_ISREG(info.st_mode) or max(info.st_mtime, info.st_ctime) < began:
                continue
            self.told.add(stamp)
            if stamp not in last:  # the clock is too coarse to tell the end of a call from the next one
                below = os.path.relpath(path, self.roots[0])
                found.append((path if below.startswith("..") else below, info.st_size))
        return found, True


def files(roots: list[str]) -> Iterator[str]:
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if name not in SKIPPED)
            yield from (os.path.join(folder, name) for name in sorted(names))


def show(error: BaseException) -> None:
    """Print a traceback from where the code begins."""
    try:
        told = traceback.TracebackException(type(error), error, error.__traceback__, limit=-MAX_FRAMES)
        own = [frame for frame in told.stack if frame.filename not in HIDDEN]
        told.stack = traceback.StackSummary.from_list(own)
        text = "".join(told.format())
    except Exception:  # noqa: BLE001 (an error whose own text can't be had)
        text = type(error).__name__ + "\n"
    sys.stdout.flush()
    print(text, end="", file=sys.stderr)


def figures() -> list[str]:
    """The open figures of matplotlib as PNG; they are closed."""
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None or not hasattr(plt, "get_fignums"):
        return []
    found = []
    try:
        for number in plt.get_fignums()[:MAX_FIGURES]:
            file = io.BytesIO()
            plt.figure(number).savefig(file, format="png", dpi=100)
            if file.tell() <= MAX_FIGURE:
                found.append(base64.b64encode(file.getvalue()).decode())
            else:
                print(f"figure {number} is too large to show: save it to a file", file=sys.stderr)
        plt.close("all")
    except Exception as error:  # noqa: BLE001 (the code's figures, told like its own errors)
        show(error)
    return found


def open_outputs() -> None:
    out, err = os.fdopen(1, "wb", closefd=False), os.fdopen(2, "wb", closefd=False)
    sys.stdout = io.TextIOWrapper(out, "utf-8", "backslashreplace", line_buffering=True)
    sys.stderr = ErrorStream(err, "utf-8", "backslashreplace")


def main() -> None:
    replies, *roots = sys.argv[1:]
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # the code reads nothing there
    os.close(null)
    os.set_inheritable(int(replies), False)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    open_outputs()
    sys.argv = [""]
    sys.path.insert(0, os.getcwd())
    os.environ.setdefault("MPLBACKEND", "Agg")
    Worker(requests, int(replies), roots).serve()


if __name__ == "__main__":
    main()
