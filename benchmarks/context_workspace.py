"""A copy of real sources in a folder of its own, with a history, and the tools of a coding agent on it.

What a tool says is what a real command or the real file says, cut as agents cut it, and the same bytes each
time: paths are relative to the copy, commits have fixed dates, and running times and addresses are replaced.

Read with: ``context_session.py`` (who calls the tools), ``context_sources.py`` (what is copied).
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from context_sources import Source, files_of

RESULT_BYTES = 16_000
_READ_LINES = 400
_GREP_LINES = 120
_SNIPPET = 5  # lines shown before and after an edit
_TICKETS = ("CORE", "IO", "API", "NET", "DOC")
_SUBJECTS = (
    "add {0}",
    "split {0} out of the old module",
    "make {0} keep the order of what it is given",
    "raise a clear error where {0} is misused",
    "rework {0} for the new parser",
    "speed up {0}",
    "drop the compatibility branch in {0}",
)


class Result(NamedTuple):
    """What a tool says, and whether the call failed."""

    text: str
    failed: bool = False


class Workspace:
    """The copy. ``tickets`` are those that its history and its comments name."""

    def __init__(self, root: Path, sources: Sequence[Source], rand: Random) -> None:
        self.root = root.resolve()
        self._commits = 0
        self._rand = rand
        self.tickets: list[str] = []
        root.mkdir(parents=True)
        self.sh("git init -q -b main .")
        (self.root / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
        files = [(name, path) for source in sources for name, path in files_of(source)]
        self._commit_in_parts(files)

    def _commit_in_parts(self, files: Sequence[tuple[str, Path]]) -> None:
        """Ten commits, each with some of the files; every tenth file has a note of a ticket in it."""
        size = -(-len(files) // 10)
        for start in range(0, len(files), size):
            part = files[start : start + size]
            for name, path in part:
                target = self.root / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                if self._rand.random() < 0.1:
                    self._note(target)
            subject = self._rand.choice(_SUBJECTS).format(Path(self._rand.choice(part)[0]).stem)
            self.commit(f"{self.ticket()}: {subject}")

    def _note(self, target: Path) -> None:
        lines = target.read_text(encoding="utf-8").splitlines(keepends=True)
        places = [number for number, line in enumerate(lines) if line.startswith(("def ", "class "))]
        if places:
            place = self._rand.choice(places)
            lines.insert(place, f"# TODO({self.ticket()}): this needs a second look before the release\n")
            target.write_text("".join(lines), encoding="utf-8")

    def ticket(self) -> str:
        """A new ticket."""
        name = f"{self._rand.choice(_TICKETS)}-{self._rand.randrange(1000, 9999)}"
        self.tickets.append(name)
        return name

    def commit(self, message: str) -> None:
        """Commit everything."""
        self.sh(f"git add -A && git commit -qm '{message}'")

    def sh(self, command: str) -> Result:
        """What a shell says to ``command``, both streams as one.

        Raises:
            subprocess.TimeoutExpired: it ran longer than 30 s.
        """
        if "git commit" in command:
            self._commits += 1
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.root,
            env=_environment(self._commits),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=30,
            check=False,
        )
        text = self._stable(done.stdout.decode(errors="replace"))
        if done.returncode and not text:
            text = f"(exit code {done.returncode})"
        return Result(text or "(no output)", done.returncode != 0)

    def _stable(self, text: str) -> str:
        text = text.replace(f"{self.root}/", "").replace(str(self.root), ".")
        text = text.replace(sys.prefix, "/venv").replace(sys.base_prefix, "/usr")
        text = re.sub(r"(Ran \d+ tests? in )[\d.]+s", r"\g<1>0.01s", text)
        text = re.sub(r"@test_\d+_tmp", "@test_1_tmp", text)  # the tests' own files, by process
        return re.sub(r" at 0x[0-9a-f]{6,}", " at 0x7f0000000000", text)

    def lines(self, path: str) -> list[str]:
        """The lines of a file as it is now."""
        return (self.root / path).read_text(encoding="utf-8").splitlines()

    def python_files(self, folder: str = ".") -> list[str]:
        """Paths of all modules under ``folder`` that have more than a line or two."""
        found = sorted(str(path.relative_to(self.root)) for path in (self.root / folder).rglob("*.py"))
        return [path for path in found if len(self.lines(path)) > 10]

    def call(self, name: str, args: Mapping[str, Any]) -> Result:
        """What tool ``name`` says."""
        match name:
            case "read_file":
                result = self._read(**args)
            case "edit_file":
                result = self._edit(**args)
            case "write_file":
                result = self._write(**args)
            case "grep":
                result = self._grep(**args)
            case "list_dir":
                result = self._list(**args)
            case "bash":
                result = self.sh(**args)
            case _:
                raise ValueError(f"there is no tool {name!r}")
        return Result(_cut(result.text), result.failed)

    def _read(self, path: str, start: int = 1, end: int | None = None) -> Result:
        if not (self.root / path).is_file():
            return Result(f"no such file: {path}", failed=True)
        lines = self.lines(path)
        last = min(end or start + _READ_LINES - 1, len(lines))
        shown = _numbered(lines, start, last)
        rest = "" if last == len(lines) else f"\n({len(lines)} lines in all; start={last + 1} reads on)"
        return Result(shown + rest if shown else "(no such lines)")

    def _edit(self, path: str, old: str, new: str) -> Result:
        target = self.root / path
        text = target.read_text(encoding="utf-8")
        found = text.count(old)
        if found != 1:
            return Result(
                f"{path}: `old` occurs {found} times, it must occur once; nothing changed", failed=True
            )
        at = text[: text.index(old)].count("\n") + 1
        target.write_text(text.replace(old, new), encoding="utf-8")
        shown = _numbered(self.lines(path), max(1, at - _SNIPPET), at + new.count("\n") + _SNIPPET)
        return Result(f"{path} is edited, it now reads\n{shown}")

    def _write(self, path: str, content: str) -> Result:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
        return Result(f"{path}: {len(content.splitlines())} lines written")

    def _grep(self, pattern: str, path: str = ".") -> Result:
        # grep walks in the order of the file system
        command = ["grep", "-rnHE", "--include=*.py", "--include=*.md", "-e", pattern, path.rstrip("/")]
        done = subprocess.run(
            command, cwd=self.root, env=_environment(0), capture_output=True, text=True, check=False
        )
        found = [line.removeprefix("./") for line in done.stdout.splitlines()]
        if not found:
            return Result(done.stderr.strip() or "(no matches)")
        found.sort(key=_place)
        more = [f"({len(found)} lines in all)"] if len(found) > _GREP_LINES else []
        return Result("\n".join([line[:300] for line in found[:_GREP_LINES]] + more))

    def _list(self, path: str = ".") -> Result:
        entries = sorted(os.scandir(self.root / path), key=lambda entry: entry.name)
        names = [entry.name + "/" * entry.is_dir() for entry in entries if entry.name != ".git"]
        return Result("\n".join(names) or "(empty)")


def numbered_hits(text: str) -> Iterator[tuple[str, int, str]]:
    """Path, line number and line of each line that grep gave."""
    for line in text.splitlines():
        found = re.match(r"([\w./-]+):(\d+):(.*)", line)
        if found:
            yield found[1], int(found[2]), found[3]


def _place(line: str) -> tuple[str, int]:
    path, _, rest = line.partition(":")
    number = rest.partition(":")[0]
    return path, int(number) if number.isdigit() else 0


def _numbered(lines: Sequence[str], first: int, last: int) -> str:
    return "\n".join(
        [f"{number:6}\t{lines[number - 1]}" for number in range(first, min(last, len(lines)) + 1)]
    )


def _cut(text: str) -> str:
    """At most RESULT_BYTES, the middle left out."""
    data = text.encode()
    if len(data) <= RESULT_BYTES:
        return text
    half = RESULT_BYTES // 2
    head, tail = data[:half].decode(errors="ignore"), data[-half:].decode(errors="ignore")
    return f"{head}\n[{len(data) - 2 * half} bytes left out]\n{tail}"


def _environment(commits: int) -> dict[str, str]:
    date = f"2026-01-{1 + commits // 1440:02}T{commits // 60 % 24:02}:{commits % 60:02}:00+0000"
    who = {"NAME": "Dev", "EMAIL": "dev@example.org", "DATE": date}
    return {
        "PATH": f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_PAGER": "cat",
        **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()},
    }
