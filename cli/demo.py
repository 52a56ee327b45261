"""``unspool demo``: a run without a key and without a network, over files that are really there.

The model plays a script; before it begins, the folder is looked through for a file that the script
can read. Everything else is as in any run: the tools, the files, the events, the log.

Read with: ``run.py``, ``unspool.llm.scripted``.
"""

import re
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from unspool.kernel.errors import ToolError
from unspool.llm.scripted import Part, Say, ScriptedModel, Wait, call
from unspool.tools import Root

PROMPT: Final = "What is in this folder?"
NOTICE: Final = "demo: the model is scripted (no key, no network); the tools and the files are real"

_IGNORED: Final = frozenset(
    {".git", ".unspool", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"}
)
_ENTRIES: Final = 2000  # looked at, at most
_SECONDS: Final = 1.0  # spent looking, at most
_SAMPLE: Final = 4096  # bytes
_WORD: Final = re.compile(r"[A-Za-z]{4,20}")
_RANKED: Final = (".md", ".rst", ".txt", ".toml", ".py")
_CHUNK: Final = 16  # characters the scripted model says at a time


class Find(NamedTuple):
    """A text file and a word in it."""

    path: str
    word: str

    @property
    def pattern(self) -> str:
        """A glob that finds the file."""
        name = self.path.rpartition("/")[2]
        stem, dot, ending = name.rpartition(".")
        return f"**/*.{ending}" if stem and dot else f"**/{name}"


def find_text(root: Root) -> Find | None:
    """A file worth reading, the likeliest first; None where there is none."""
    for path in sorted(_files(root), key=_rank)[:50]:
        try:
            with root.open_file(path) as file:
                sample = file.read(_SAMPLE).decode("utf-8", errors="ignore")
        except (ToolError, OSError):
            continue
        words = _WORD.findall(sample)
        if words and "\0" not in sample:
            return Find(path, max(words, key=len))
    return None


def _files(root: Root) -> Iterator[str]:
    deadline = time.monotonic() + _SECONDS
    entries = root.walk(depth=3, ignore=_IGNORED, stop=lambda: time.monotonic() > deadline)
    try:
        for entry, _ in zip(entries, range(_ENTRIES), strict=False):
            if entry.kind == "file" and 0 < entry.size < 1 << 20:
                yield entry.path
    except ToolError:
        return  # no time left, or not readable: the tools will say so


def _rank(path: str) -> tuple[int, int, int, str]:
    name = path.rpartition("/")[2].lower()
    ending = next((n for n, ending in enumerate(_RANKED) if name.endswith(ending)), len(_RANKED))
    return (not name.startswith("readme"), path.count("/"), ending, path)


def scripted_model(find: Find | None, delay_s: float = 0.0) -> ScriptedModel:
    """The model of the demo; it waits ``delay_s`` before each answer."""
    pause: list[Part] = [Wait(delay_s)] if delay_s else []
    answers = _tour(find) if find else _empty_tour()
    return ScriptedModel([Say([*pause, *parts], chunk=_CHUNK) for parts in answers], name="scripted/demo")


def _tour(find: Find) -> list[list[Part]]:
    return [
        [
            "I look around first.",
            call("call_1", "list_dir", path="."),
            call("call_2", "glob", pattern=find.pattern),
        ],
        [f"{find.path} looks worth reading.", call("call_3", "read_file", path=find.path, limit=20)],
        [
            f"Where else does {find.word!r} occur?",
            call("call_4", "grep", pattern=find.word, glob=find.pattern, literal=True, limit=5),
        ],
        [f"I listed the folder, read the beginning of {find.path} and searched for {find.word!r}."],
    ]


def _empty_tour() -> list[list[Part]]:
    return [
        [
            "I look around first.",
            call("call_1", "list_dir", path="."),
            call("call_2", "glob", pattern="**/*"),
        ],
        ["I listed the folder and found no text file to read."],
    ]
