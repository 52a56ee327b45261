"""How a command gets into its shell, and the shell's state out of it: through one unnamed file.

A command may be longer than an argument can be, and a path would not exist in a sandbox: so the shell reads the file
by its descriptor, runs the command, and writes where it is and what it exports behind it.

1. Exported variables of the session come first: a sandbox clears the environment.
2. The state is saved after the command, not by a trap: the command's own EXIT trap is left alone. A command that ends
   its shell (``exit 3``, ``exec``, ``set -e``, a signal) saves nothing, and the state stays as before.

Read with: ``bash.py`` (the caller), ``session.py`` (the state).
"""

import os
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

FD = 187  # in the shell: below the usual limit of 256, and not one that scripts use
MAX_STATE = 512 << 10  # bytes; no more fits into the environment of a process, nearly
_VOLATILE = frozenset({"_", "SHLVL", "PWD"})
_READ = f'IFS= builtin read -r -d "" -u {FD} __unspool'
_SCRIPT = "; ".join(  # one line: errors then name the command's own lines
    (
        f'while {_READ} && [[ $__unspool ]]; do builtin export "$__unspool" 2>/dev/null; done',
        _READ,
        'builtin eval "$__unspool"',
        "{ __unspool=$?",
        "builtin set +exv",
        "builtin trap - DEBUG ERR",
        'builtin printf "\\0"',
        "builtin pwd -P",
        'builtin printf "\\0"',
        f'command -p env -0 && builtin printf "\\0"; }} 2>/dev/null >&{FD}',
        'builtin exit "$__unspool"',
    )
)


class Left(NamedTuple):
    """Where a shell was at its end, ``""`` where that directory was deleted, and what it exported.

    None where that was too much to be passed on, by us or to any process.
    """

    cwd: str
    env: dict[str, str] | None


class Exchange:
    """The file between us and one shell.

    Raises:
        OSError: there is no place for a temporary file.
    """

    def __init__(self, command: str, exported: Mapping[str, str]) -> None:
        pairs = [f"{name}={value}" for name, value in exported.items()]
        data = b"".join(os.fsencode(item) + b"\0" for item in (*pairs, ""))
        data += command.encode("utf-8", "replace") + b"\0"
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # closed by ``close``
        self._begin = len(data)
        self._file.write(data)
        self._file.seek(0)

    @property
    def fd(self) -> int:
        return self._file.fileno()

    @staticmethod
    def argv(shell: str) -> list[str]:
        """The shell that reads the file as descriptor ``FD``; the command sees ``bash`` as its name."""
        return [shell, "--norc", "--noprofile", "-c", _SCRIPT, "bash"]

    def left(self) -> Left | None:
        """The state that the shell left; None where it left none."""
        data = os.pread(self.fd, MAX_STATE + 1, self._begin)
        items = data.split(b"\0")
        if len(items) < 3 or items[0]:
            return None
        cwd = os.fsdecode(items[1].removesuffix(b"\n"))
        if len(data) > MAX_STATE or len(items) < 5 or items[-2:] != [b"", b""]:
            return Left(cwd, None)
        pairs = (os.fsdecode(item).partition("=") for item in items[2:-2])
        return Left(cwd, {name: value for name, _, value in pairs if name and name not in _VOLATILE})

    def close(self) -> None:
        """Let the file go; again, without effect."""
        self._file.close()
