"""File tools, as far as a check of the specification is shown nowhere else: what a model and a host are told.

``docs/deviations.md`` names the tests of the other checks, and where our tools do otherwise on purpose.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from play import Played, Player

from unspool.kernel import Tool, ToolExecEnd, make_call
from unspool.tools.files import file_tools

Use = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "root"
    path.mkdir()
    return path


@pytest.fixture
def tools(root: Path) -> list[Tool]:
    return file_tools(root)


@pytest.fixture
def run(play: Player, tools: list[Tool]) -> Callable[..., Played]:
    """One call in a run of its own; in real time, which a tool in a thread takes."""
    return lambda name, **args: play(
        [make_call("c1", name, json.dumps(args))], "done", tools=tools, real_time=True
    )


@pytest.fixture
def use(run: Callable[..., Played]) -> Use:
    """What the model is told of one call; errors with ``error: `` before them."""

    def told(name: str, **args: Any) -> str:
        played = run(name, **args)
        text = played.results()["c1"]
        return text if played.outcomes()["c1"] == "ok" else f"error: {text}"

    return told


# --- reading ------------------------------------------------------------------------------------


def lines(count: int, width: int = 0) -> str:
    return "".join(f"Line {number}{'x' * width}\n" for number in range(1, count + 1))


READ: dict[str, tuple[str, dict[str, Any], str, str]] = {  # the first and the last line of the result
    "T410: a small file": ("Hello\nthere", {}, "1\tHello", "[end of the file: 2 lines]"),
    "T412: over 2000 lines": (lines(2500), {}, "1\tLine 1", "[lines 1-2000 of 2500; next: offset=2001]"),
    "T413: over 50 KB": (
        lines(500, 200),
        {},
        f"1\tLine 1{'x' * 200}",
        "[lines 1-241 of 500; next: offset=242]",
    ),
    "T414: from a line on": (
        lines(100),
        {"offset": 51},
        "51\tLine 51",
        "[lines 51-100, end of the file: 100 lines]",
    ),
    "T415: some lines": (lines(100), {"limit": 10}, "1\tLine 1", "[lines 1-10 of 100; next: offset=11]"),
    "T416: some from a line on": (
        lines(100),
        {"offset": 41, "limit": 20},
        "41\tLine 41",
        "[lines 41-60 of 100; next: offset=61]",
    ),
    "T417: past the end": (
        lines(3),
        {"offset": 100},
        "error: offset 100 is past the end: the file has 3 lines",
        "",
    ),
}


@pytest.mark.parametrize(("content", "args", "first", "last"), READ.values(), ids=READ)
def test_reading(root: Path, use: Use, content: str, args: dict[str, Any], first: str, last: str) -> None:
    (root / "f").write_text(content)
    told = use("read_file", path="f", **args).split("\n")
    assert (told[0], told[-1]) == (first, last or first)


def test_a_missing_file(use: Use) -> None:  # T411
    assert use("read_file", path="none.txt") == "error: there is no none.txt"


def test_what_a_host_is_told_of_a_file_that_is_cut(
    root: Path, run: Callable[..., Played]
) -> None:  # T418, T410
    def details(content: str) -> dict[str, Any]:
        (root / "f").write_text(content)
        [end] = run("read_file", path="f").all_of(ToolExecEnd)
        return dict(end.details)

    told = details(lines(2500))
    assert told["truncated"] == {"by": "lines", "shown_lines": 2000, "total_lines": 2500}
    assert told["file"]["partial"]
    assert details("small").keys() == {"file"}


# --- searching --------------------------------------------------------------------------------


def test_searching_one_file(root: Path, use: Use) -> None:  # T425
    (root / "example.txt").write_text("first\nmatch line\nlast\nmatch again\n")
    assert use("grep", pattern="match line", path="example.txt") == "example.txt:2:match line"
    assert use("grep", pattern="match", path="example.txt", limit=1, context=1).split("\n") == [
        "example.txt-1-first",
        "example.txt:2:match line",
        "example.txt-3-last",
        "[stopped after 1 match: narrow the pattern, path or glob]",
    ]
