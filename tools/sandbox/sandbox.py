"""A command's ``argv`` turned into one that runs it under bubblewrap.

1. A sandbox that can't be had is an error when it is made; nothing ever runs without it instead.
2. Own namespaces for users, processes, network, IPC, host name and cgroups, no capabilities, no way to gain
   any, no terminal. All its processes end with the first one, and that with whoever started it.
3. Only what ``policy.py`` says is visible. What is not a root is read-only, but for ``/tmp``, which is empty
   at the start of each command and forgotten with it.

Files that sandboxed code leaves in a root are still its own: what is run from there outside of the sandbox
later (the hooks of a repository, a build, a test suite) runs what it wrote, and a link left there may lead
anywhere. The file tools don't follow such a link out of their roots. A socket that a program of the host keeps
in a place that is shown can be reached.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from unspool.kernel.errors import ToolDefinitionError

from .bubblewrap import Bubblewrap, SandboxUnavailableError, find_bubblewrap, probe
from .limits import SandboxLimits, limited
from .policy import Place, place_mounts, places, python_places, system_mounts

PathLike: TypeAlias = str | os.PathLike[str]

_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_ENV = "/usr/bin/env"
_ISOLATED = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--hostname",
    "sandbox",
)


class Sandbox:
    """Runs commands in ``roots`` with no way out; ``wrap`` makes the ``argv`` that does it.

    ``roots`` are directories that commands may change. ``writable`` and ``readable`` are more paths to show, ``hidden`` are files
    and directories to leave empty (an ``.env`` in a root). Of two paths, one inside the other, the inner
    one decides. ``env`` is added to a small clean environment; it can be read in the list of processes, so
    it holds no secrets. ``network`` opens the host's network, its local services included. ``python``
    shows the Python that runs now, with its packages. ``bwrap`` is the program to use instead of the
    one that is found.

    A command must be started from a thread that outlives it: Linux ends the command with that thread.
    What kills the process that was started ends all of the sandbox at once, also with SIGTERM. Kill its group
    with it: while it begins, it has a child that does not know of its end yet.

    Raises:
        SandboxUnavailableError: this host can have no sandbox; the message says what to do.
        ToolDefinitionError: a path doesn't exist, or is one that can't be shown so.
    """

    def __init__(
        self,
        roots: PathLike | Iterable[PathLike],
        *,
        network: bool = False,
        writable: Iterable[PathLike] = (),
        readable: Iterable[PathLike] = (),
        hidden: Iterable[PathLike] = (),
        env: Mapping[str, str] | None = None,
        limits: SandboxLimits | None = None,
        python: bool = True,
        bwrap: PathLike | None = None,
    ) -> None:
        given = [roots] if isinstance(roots, str | os.PathLike) else list(roots)
        self.roots = tuple(place.path for place in places(given, "writable"))
        if not self.roots or not all(os.path.isdir(root) for root in self.roots):
            raise ToolDefinitionError("sandbox: it needs roots that are directories", roots=list(self.roots))
        self.network = network
        self._limits = limits or SandboxLimits()
        self._places: tuple[Place, ...] = (
            *places([*given, *writable], "writable"),
            *(python_places() if python else ()),
            *places(readable, "readable"),
            *places(hidden, "hidden"),
        )
        self._env = self._environment(env or {}, python=python)
        self._bwrap = self._choose(None if bwrap is None else os.path.abspath(bwrap))

    def __repr__(self) -> str:
        return f"Sandbox({', '.join(map(repr, self.roots))}, network={self.network})"

    def wrap(self, argv: Sequence[str], /) -> list[str]:
        """The ``argv`` that runs ``argv`` in the sandbox.

        It starts in the caller's working directory where that is visible, else in ``/tmp``. Its
        environment is the sandbox's, whatever the caller's.

        Raises:
            ToolDefinitionError: a path of the sandbox is gone or was exchanged.
        """
        return self._wrapped(self._bwrap, argv)

    def check(self) -> None:
        """Make sure that the sandbox still works; it was so when it was made.

        Raises:
            SandboxUnavailableError: it does not.
        """
        wrong = self._try(self._bwrap)
        if wrong:
            raise SandboxUnavailableError(f"sandbox: bwrap can't make one here: {wrong}")

    def _choose(self, given: str | None) -> Bubblewrap:
        wrong = ""
        for found in find_bubblewrap(given, self._is_out_of_reach):
            wrong = self._try(found)
            if not wrong:
                return found
        raise SandboxUnavailableError(f"sandbox: bwrap can't make one here: {wrong}")

    def _is_out_of_reach(self, program: str) -> bool:
        """Whether sandboxed code can't have put the program there."""
        return not any(os.path.realpath(program).startswith(f"{root}/") for root in self.roots)

    def _try(self, bwrap: Bubblewrap) -> str:
        return probe(self._wrapped(bwrap, ["/bin/sh", "-c", "exit 0"]))

    def _environment(self, extra: Mapping[str, str], *, python: bool) -> dict[str, str]:
        bin_folder = f"{os.path.dirname(sys.executable)}:" if python and sys.executable else ""
        return {
            "PATH": f"{bin_folder}{_PATH}",
            "HOME": "/tmp",
            "TMPDIR": "/tmp",
            "LANG": "C.UTF-8",
            "USER": "sandbox",
            **extra,
        }

    def _wrapped(self, bwrap: Bubblewrap, argv: Sequence[str]) -> list[str]:
        if not argv:
            raise ToolDefinitionError("sandbox: there is no command to run")
        size = str(self._limits.tmp_bytes)
        # bwrap stays, as process 1 of the sandbox, and what it was started with can be read from inside
        args = [_ENV, "-i", bwrap.path, *_ISOLATED]
        args += ["--disable-userns"] if bwrap.disables_userns else []
        args += [] if self.network else ["--unshare-net"]
        args += ["--clearenv"]
        for name, value in self._env.items():
            args += ["--setenv", name, value]
        for mount in system_mounts(network=self.network):
            args += mount.args
        # Linux lets the owner of /proc/sys write there, capabilities or not: for root that is the host's own
        args += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
        args += ["--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
        args += ["--size", size, "--perms", "1777", "--tmpfs", "/tmp"]
        for mount in place_mounts(self._places):
            args += mount.args
        return [*args, "--remount-ro", "/", "--", *limited(argv, self._limits)]
