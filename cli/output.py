"""Where output goes: stdout for what was asked for, one line on stderr for what went wrong.

Read with: ``view.py``, ``reporting.py``.
"""

import os
import sys
from io import TextIOWrapper
from typing import BinaryIO, TextIO, cast

import msgspec
from rich.console import Console

from .view import PlainConsole, printable


def console() -> Console:
    """Stdout for people: colours only on a terminal, characters it lacks are escaped."""
    out = sys.stdout or _nowhere()
    if isinstance(out, TextIOWrapper):
        out.reconfigure(errors="backslashreplace")
    return PlainConsole(file=out, highlight=False, markup=False, emoji=False)


def raw_stdout() -> BinaryIO:
    """Stdout for bytes."""
    return cast(BinaryIO, (sys.stdout or _nowhere()).buffer)


def write_json(value: object) -> None:
    """One JSON object on a line of stdout, at once."""
    out = raw_stdout()
    out.write(msgspec.json.encode(value) + b"\n")
    out.flush()


def _nowhere() -> TextIO:
    """For a process that was started without stdout."""
    return open(os.devnull, "w", encoding="utf-8")


def stop_output() -> None:
    """Let what is still buffered go nowhere: the reader has left, or there is no room."""
    _to_nowhere(sys.stdout)


def _to_nowhere(stream: TextIO) -> None:
    try:
        fd = stream.fileno()
    except (AttributeError, OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, fd)
    os.close(nowhere)


def complain(text: str) -> None:
    """One line on stderr."""
    line = " ".join(printable(text).splitlines())
    if sys.stderr is None:  # closed: print would take stdout
        return
    try:
        print(f"unspool: {line}", file=sys.stderr)
    except (OSError, UnicodeError):
        _to_nowhere(sys.stderr)  # nobody can be told; what is buffered would fail once more at the end
