"""What file tools cost beside the programs and the bare operations they stand for.

    python benchmarks/tools.py [--json] [--quick] [--tree DIR]

``grep`` is measured with ripgrep and without, beside ripgrep alone; ``glob`` beside ``find``; reading and editing a file beside
the same with nothing but the system's calls. All wall time, the best of several alternated laps; every search finds all its hits,
the limits of the tools are lifted. ``benchmarks/README.md`` says how to read it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple, cast
from unittest.mock import patch

from laps import calibration

from unspool.kernel.ports import ToolContext
from unspool.tools.files import glob, grep, hit_list
from unspool.tools.files.edit_file import edit_file_tool
from unspool.tools.files.glob import glob_tool
from unspool.tools.files.grep import grep_tool
from unspool.tools.files.read_file import read_file_tool
from unspool.tools.files.ripgrep import find_ripgrep
from unspool.tools.files.root import Root
from unspool.tools.files.sweep import IGNORED
from unspool.tools.files.workspace import Workspace

Job = Callable[[], object]
Row = dict[str, float]
ALL = 1 << 40
GREPS: dict[str, dict[str, Any]] = {
    "a word, many hits": {"pattern": "timeout"},
    "a class, some hits": {"pattern": r"class \w+Error\("},
    "no hit": {"pattern": "there is no such line"},
    "any case": {"pattern": "runtimeerror", "ignore_case": True},
}
GLOB = "*.py"
LINES = 2000
EDITED = 400  # lines of the file that is edited


class Sizes(NamedTuple):
    """How much is measured."""

    laps: int = 5
    slow_laps: int = 2  # of what takes seconds
    calls: int = 50  # readings and edits in one lap


class Context:
    """As much of a ``ToolContext`` as the file tools look at."""

    agent = ("bench",)
    session = "bench"
    cancelled = False

    def __init__(self) -> None:
        self.clock = self

    def monotonic(self) -> float:
        return 0.0


CTX = cast(ToolContext, Context())


def fastest(jobs: dict[str, Job], laps: int) -> Row:
    """Seconds of the best lap of each job; laps alternate."""
    found = dict.fromkeys(jobs, float("inf"))
    for _ in range(laps):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            found[name] = min(found[name], time.perf_counter() - start)
    return found


def by_ripgrep(program: str, tree: str, pattern: str, ignore_case: bool = False) -> bytes:
    """The same search by ripgrep alone, with the same files left out; what it prints."""
    flags = ["--hidden", "--no-require-git", "--no-ignore-parent", "--max-filesize=8M", "--line-number"]
    flags += [f"--glob=!{name}/" for name in sorted(IGNORED)] + (["--ignore-case"] if ignore_case else [])
    command = [program, "--no-config", *flags, f"--regexp={pattern}", "--", "./"]
    return subprocess.run(command, cwd=tree, capture_output=True, check=False).stdout


def by_find(program: str, tree: str, pattern: str) -> list[bytes]:
    """The same files by ``find``, newest first."""
    skipped = [part for name in sorted(IGNORED) for part in ("-name", name, "-o")][:-1]
    command = [program, ".", "-type", "d", "(", *skipped, ")", "-prune", "-o", "-name", pattern]
    found = subprocess.run([*command, "-printf", r"%T@ %P\0"], cwd=tree, capture_output=True, check=True)
    return sorted(found.stdout.split(b"\0"), reverse=True)[:200]


def grep_rows(tree: str, sizes: Sizes, program: str) -> dict[str, Row]:
    tool = grep_tool(Root(tree))

    def ours(found: str | None, args: dict[str, Any]) -> str:
        with patch.multiple(grep, find_ripgrep=lambda: found):
            return tool(ctx=CTX, limit=ALL, **args)

    rows: dict[str, Row] = {}
    for name, args in GREPS.items():
        jobs: dict[str, Job] = {
            "ours": partial(ours, program, args),
            "bare": partial(by_ripgrep, program, tree, **args),
        }
        row = fastest(jobs, sizes.laps) | fastest({"alone": partial(ours, None, args)}, sizes.slow_laps)
        rows[f"grep, {name}, ms"] = {key: value * 1e3 for key, value in row.items()}
    args = GREPS["a word, many hits"]
    with patch.multiple(grep, MAX_MATCHES=100):
        row = fastest({"ours": partial(ours, program, args), "alone": partial(ours, None, args)}, sizes.laps)
    row = {key: value * 1e3 for key, value in row.items()}
    rows["the first 100 of a word, ms"] = row | {"bare": rows["grep, a word, many hits, ms"]["bare"]}
    return rows


def glob_row(tree: str, sizes: Sizes, program: str) -> Row:
    tool = glob_tool(Root(tree))
    jobs: dict[str, Job] = {
        "ours": lambda: tool(ctx=CTX, pattern=GLOB),
        "bare": partial(by_find, program, tree, GLOB),
    }
    return {key: value * 1e3 for key, value in fastest(jobs, sizes.laps).items()}


def read_row(folder: str, sizes: Sizes) -> Row:
    path = os.path.join(folder, "read.py")
    with open(path, "w") as file:
        file.write("".join(f"    line {number} of a file\n" for number in range(LINES)))
    tool = read_file_tool(Workspace(folder))

    def bare() -> str:
        with open(path, "rb") as file:
            data = file.read()
        sha256(data)
        return "\n".join(f"{n}\t{line}" for n, line in enumerate(data.decode().splitlines(), 1))

    return per_call({"ours": lambda: tool(ctx=CTX, path="read.py"), "bare": bare}, sizes)


def edit_row(folder: str, sizes: Sizes) -> Row:
    paths = {name: os.path.join(folder, name) for name in ("ours", "bare")}
    for path in paths.values():
        with open(path, "w") as file:
            file.write("".join(f"value_{number} = {number}\n" for number in range(EDITED)) + "flag = 0\n")
    workspace = Workspace(folder)
    read_file_tool(workspace)(ctx=CTX, path="ours")
    tool = edit_file_tool(workspace)
    states = dict.fromkeys(paths, 0)

    def texts(name: str) -> tuple[str, str]:
        states[name] += 1
        return f"flag = {states[name] - 1}\n", f"flag = {states[name]}\n"

    def ours() -> None:
        old, new = texts("ours")
        tool(ctx=CTX, path="ours", old_string=old, new_string=new)

    def bare() -> None:
        old, new = texts("bare")
        path = paths["bare"]
        with open(path, "rb") as file:
            text = file.read().decode()
        with open(f"{path}.new", "wb") as file:
            file.write(text.replace(old, new).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)

    return per_call({"ours": ours, "bare": bare}, sizes)


def per_call(jobs: dict[str, Job], sizes: Sizes) -> Row:
    """µs of one call."""

    def many(job: Job) -> None:
        for _ in range(sizes.calls):
            job()

    found = fastest({name: partial(many, job) for name, job in jobs.items()}, sizes.laps)
    return {name: value / sizes.calls * 1e6 for name, value in found.items()}


def measure(tree: str, sizes: Sizes) -> dict[str, Any]:
    before = calibration()
    rows: dict[str, Row] = {}
    ripgrep, find = find_ripgrep(), shutil.which("find")
    with (
        patch.multiple(grep, MAX_MATCHES=ALL),
        patch.multiple(hit_list, MAX_OUTPUT=ALL, MAX_LINE=ALL),
        patch.multiple(glob, MAX_HITS=ALL),
    ):
        if ripgrep is not None:
            rows |= grep_rows(tree, sizes, ripgrep)
        if find is not None:
            rows[f"glob {GLOB}, ms"] = glob_row(tree, sizes, find)
    with tempfile.TemporaryDirectory() as folder:
        rows[f"read_file, {LINES} lines, µs"] = read_row(folder, sizes)
        rows["edit_file, a line, µs"] = edit_row(folder, sizes)
    files = sum(len(names) for _, _, names in os.walk(tree))
    return {"tree": tree, "files": files, "rows": rows, "calibration, µs": [before, calibration()]}


def report(result: dict[str, Any]) -> str:
    lines = [
        f"{result['tree']}: {result['files']} files",
        f"\n{'':34}{'ours':>10}{'bare':>10}{'× bare':>8}{'no rg':>10}{'× bare':>8}",
    ]
    for name, row in result["rows"].items():
        line = f"{name:34}{row['ours']:10.1f}{row['bare']:10.1f}{row['ours'] / row['bare']:8.1f}"
        if "alone" in row:
            line += f"{row['alone']:10.1f}{row['alone'] / row['bare']:8.1f}"
        lines.append(line)
    if not any(name.startswith("grep") for name in result["rows"]):
        lines.append("ripgrep is not installed: grep was not measured")
    before, after = result["calibration, µs"]
    lines.append(f"\ncalibration {before:.0f} µs before, {after:.0f} µs after")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--quick", action="store_true", help="few laps in a small tree: to see that it works")
    parser.add_argument("--tree", default="", help="what is searched; all that is installed, if not given")
    options = parser.parse_args()
    small = os.path.join(sysconfig.get_path("stdlib"), "asyncio")
    tree = options.tree or (small if options.quick else sysconfig.get_path("purelib"))
    result = measure(tree, Sizes(1, 1, 5) if options.quick else Sizes())
    print(json.dumps(result) if options.json else report(result))


if __name__ == "__main__":
    main()
