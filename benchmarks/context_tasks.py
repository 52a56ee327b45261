"""Long transcripts of coding agents, made by scripts over real files with the output of real commands.

Six kinds of work over copies of the standard library, installed packages and this project's folders: renaming,
mending planted bugs, type hints, documentation, naming literals, review. A transcript depends on its seed and
on the sources that are copied, on nothing else: the same seed gives the same bytes.

    python benchmarks/context_tasks.py [--count N] [--cache DIR]

tells how long they are. Read with: ``context_session.py`` (the agent), ``context_demands.py`` (what it needs again).
"""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
from context_bugs import mend
from context_edits import extract, rename
from context_hints import hints
from context_prompt import SYSTEM, TOOLS
from context_reading import document, review
from context_session import Session
from context_sources import Source, files_of, installed, library, project
from context_workspace import Workspace

from unspool.kernel import Message, ToolSpec

CALLS = range(220, 400)  # model calls of one transcript, before the last piece of work is finished


class Task(NamedTuple):
    """A transcript. ``messages`` have the ids ``m1``, ``m2``, …; it ends with the agent's last answer."""

    name: str
    seed: int
    system: str
    tools: tuple[ToolSpec, ...]
    messages: list[Message]


class Kind(NamedTuple):
    """A kind of work, the folders it can be done in, and what else must be there."""

    name: str
    work: Callable[[Session, str], None]
    places: tuple[tuple[str, Callable[[], list[Source]]], ...]


def _tested(*modules: str) -> list[Source]:
    """Modules of the standard library with their tests, which draw no random numbers."""
    files = [name for module in modules for name in (f"{module}.py", f"test/test_{module}.py")]
    return library(*files, "test/__init__.py", "test/support")


KINDS = (
    Kind(
        "rename",
        rename,
        (
            ("anyio", lambda: installed("anyio", "httpx")),
            ("asyncio", lambda: library("asyncio", "concurrent", "selectors.py")),
            ("httpcore", lambda: installed("httpcore", "httpx", "h11")),
            ("kernel", lambda: project("kernel", "trajectory")),
        ),
    ),
    Kind(
        "mend",
        mend,
        (
            (".", lambda: _tested("cmd", "csv", "fractions", "getopt", "textwrap")),
            (".", lambda: _tested("fileinput", "gettext", "netrc", "optparse", "string")),
            (".", lambda: _tested("colorsys", "copy", "fractions", "getopt", "quopri", "textwrap")),
            (".", lambda: _tested("cmd", "copy", "csv", "getopt", "optparse", "string")),
        ),
    ),
    Kind(
        "hints",
        hints,
        (
            ("email", lambda: library("email", "mailbox.py", "smtplib.py")),
            (".", lambda: library("xml", "html", "http", "plistlib.py", "ftplib.py")),
            ("multiprocessing", lambda: library("multiprocessing", "concurrent", "queue.py")),
            (".", lambda: library("logging", "urllib", "wsgiref", "ctypes", "socketserver.py", "zipfile.py")),
        ),
    ),
    Kind(
        "document",
        document,
        (
            ("kernel", lambda: project("kernel")),
            ("pydantic", lambda: installed("pydantic")),
            ("hypothesis", lambda: installed("hypothesis")),
            (".", lambda: library("importlib", "json", "email", "collections")),
        ),
    ),
    Kind(
        "extract",
        extract,
        (
            ("pydantic", lambda: installed("pydantic")),
            ("llm", lambda: project("llm", "kernel")),
            ("hypothesis", lambda: installed("hypothesis")),
            ("httpx", lambda: installed("httpx", "httpcore", "anyio", "h11")),
        ),
    ),
    Kind(
        "review",
        review,
        (
            ("unittest", lambda: library("unittest", "logging", "json")),
            ("hypothesis", lambda: installed("hypothesis")),
            ("trajectory", lambda: project("trajectory", "tools", "kernel")),
            ("asyncio", lambda: library("asyncio", "concurrent")),
        ),
    ),
)


def make(number: int, calls: int | None = None) -> Task:
    """Transcript ``number``, which is also its seed; of about ``calls`` model calls, where given."""
    kind = KINDS[number % len(KINDS)]
    folder, sources = kind.places[number // len(KINDS) % len(kind.places)]
    rand = Random(number)
    root = Path(tempfile.mkdtemp(prefix="trajectory-"))
    try:
        workspace = Workspace(root / "checkout", sources(), rand)
        session = Session(workspace, rand, calls or rand.choice(CALLS))
        kind.work(session, folder)
    finally:
        shutil.rmtree(root)
    place = "" if folder == "." else f"-{folder}"
    return Task(f"{kind.name}{place}-{number}", number, SYSTEM, TOOLS, session.messages)


def tasks(count: int = 24, cache: Path | None = None, first: int = 0) -> list[Task]:
    """Transcripts ``first`` to ``first + count - 1``, each kind as often as the others.

    ``cache``: a folder in which they are kept for as long as neither the scripts nor the sources change.
    """
    kept = cache and cache / f"trajectories-{first}-{count}-{_digest()[:16]}.json"
    if kept and kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=list[Task])
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the commands take most of the time
        made = list(pool.map(make, range(first, first + count)))
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(msgspec.json.encode(made))
    return made


def call_points(task: Task) -> list[int]:
    """The length of the transcript at each model call: what is before the reply is what the call can be sent."""
    return [at for at, message in enumerate(task.messages) if message.role == "assistant"]


def _digest() -> str:
    """Of what transcripts depend on."""
    digest = hashlib.sha256(sys.version.encode())
    for name in ("bugs", "edits", "hints", "prompt", "reading", "session", "sources", "tasks", "workspace"):
        digest.update((Path(__file__).parent / f"context_{name}.py").read_bytes())
    sources = {source for kind in KINDS for _, found in kind.places for source in found()}
    for source in sorted(sources):
        for name, path in files_of(source):
            digest.update(f"{name} {path.stat().st_size} {path.stat().st_mtime_ns}".encode())
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    started = time.perf_counter()
    made = tasks(options.count, options.cache)
    print(f"{len(made)} transcripts in {time.perf_counter() - started:.1f} s")
    for task in made:
        size = sum(len(message.text) for message in task.messages)
        turns = sum(message.role == "user" for message in task.messages)
        print(f"{task.name:28}{len(call_points(task)):5} calls{turns:4} user turns{size // 1000:7} KB")


if __name__ == "__main__":
    main()
