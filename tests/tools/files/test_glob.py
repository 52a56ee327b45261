"""``glob``: patterns, order, caps; and random trees against a simple reference."""

import fnmatch
import itertools
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.kernel.errors import ToolError
from unspool.kernel.ports import ToolContext
from unspool.tools import Root
from unspool.tools.files.glob import glob_tool
from unspool.tools.files.patterns import Glob
from unspool.tools.files.sweep import Sweep

Call = Callable[..., Awaitable[str]]
anyio = pytest.mark.anyio

MATCHES: dict[str, tuple[list[str], list[str]]] = {
    "*.py": (["a.py", "x/y/a.py", ".py"], ["a.pyc", "a.py/b"]),
    "*": (["a", "x/a", ".hidden"], []),
    "src/*.py": (["src/a.py"], ["a.py", "src/x/a.py", "x/src/a.py"]),
    "./src/*.py": (["src/a.py"], ["src/x/a.py"]),
    "**/*.py": (["a.py", "x/y/a.py"], ["a.txt"]),
    "src/**": (["src/a", "src/x/y"], ["a", "xsrc/a"]),
    "src/**/test_*.py": (["src/test_a.py", "src/x/y/test_a.py"], ["test_a.py", "src/a.py"]),
    "**/x/**/y/*": (["x/y/a", "q/x/q/q/y/a"], ["y/x/a", "x/y"]),
    "a?c": (["abc", "x/a.c"], ["ac", "abbc"]),
    "[ab].txt": (["a.txt", "b.txt"], ["c.txt", "ab.txt"]),
    "[!a].txt": (["b.txt"], ["a.txt"]),
    "*.{ts,tsx}": (["a.ts", "x/a.tsx"], ["a.js"]),
    "{src,test}/**/*.py": (["src/a.py", "test/x/a.py"], ["lib/a.py"]),
    "{a,b{c,d}}": (["a", "bc", "x/bd"], ["b", "bcd"]),
    "{a": (["{a"], ["a"]),
    "{a}": (["{a}"], ["a"]),
    "a,b}": (["a,b}"], ["a"]),
    "x{,y}": (["x", "xy"], ["y"]),
    "a**b": (["ab", "axxb"], ["a/b"]),
    "A.py": (["A.py"], ["a.py"]),
    "a b": (["a b"], []),
    "[": (["["], []),
}


@pytest.mark.parametrize("pattern", MATCHES)
def test_patterns(pattern: str) -> None:
    hits, misses = MATCHES[pattern]
    compiled = Glob(pattern)
    assert [path for path in hits + misses if compiled.matches(path)] == hits


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "is empty"),
        ("/etc/*", "is absolute"),
        ("../*", "leaves the directory"),
        ("a/../../b", "leaves the directory"),
        ("{a,../b}", "leaves the directory"),
        ("x" * 2000, "too long"),
        ("{a,b}" * 7, "alternatives"),
        ("{a,b}" * 200, "alternatives"),
    ],
)
def test_bad_patterns(pattern: str, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        Glob(pattern)


@pytest.mark.parametrize(
    "pattern", ["*a" * 100 + "b", "**/a/" * 100 + "b", "**/*a*a*a*a*a*a*a*a*/" * 30 + "b"]
)
def test_patterns_never_explode(pattern: str) -> None:
    assert not Glob(pattern).matches("/".join(["a" * 200] * 200))


@anyio
async def test_newest_first(root: Path, call: Call) -> None:
    for name, mtime in (("old.py", 100), ("b.py", 300), ("a.py", 300), ("x/new.py", 400), ("n.txt", 500)):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("")
        os.utime(root / name, (mtime, mtime))
    assert (await call("glob", pattern="*.py")).split() == ["x/new.py", "a.py", "b.py", "old.py"]
    assert await call("glob", pattern="*.py", path="x") == "x/new.py"
    assert await call("glob", pattern="x/") == "x"
    assert await call("glob", pattern="*.rs") == "[nothing matches *.rs in .]"
    assert await call("glob", pattern="*", path="none") == "error: there is no none"
    assert await call("glob", pattern="*", path="a.py") == "error: a.py is a file, not a directory"


@anyio
async def test_at_most_200_files(root: Path, call: Call) -> None:
    for number in range(250):
        (root / f"{number:03}").write_text("")
        os.utime(root / f"{number:03}", (number, number))
    output = (await call("glob", pattern="*")).splitlines()
    assert output[:200] == [f"{number:03}" for number in range(249, 49, -1)]
    assert output[200:] == ["[the newest 200 of 250: use a narrower pattern or path]"]


@anyio
async def test_links_are_named_and_not_followed(root: Path, call: Call) -> None:
    (root.parent / "outside").mkdir()
    (root.parent / "outside" / "secret.py").write_text("")
    (root / "out").symlink_to("../outside")
    (root / "loop").symlink_to(".")
    (root / "a.py").write_text("")
    assert await call("glob", pattern="**/*.py") == "a.py"
    assert sorted((await call("glob", pattern="*")).split()) == ["a.py", "loop", "out"]


@anyio
async def test_what_is_left_out_is_told_unless_the_pattern_names_it(root: Path, call: Call) -> None:
    for path in ("node_modules/m/x.js", "x.js", "a/.venv/x.js"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
        os.utime(root / path, (1, 1))
    assert await call("glob", pattern="*.js") == "x.js\n[left out: a/.venv/, node_modules/]"
    assert await call("glob", pattern="node_modules/**/*.js") == "node_modules/m/x.js"
    assert await call("glob", pattern="*.js", path="node_modules") == "node_modules/m/x.js"
    assert (await call("glob", pattern="*.js", no_ignore=True)).split() == [
        "a/.venv/x.js",
        "node_modules/m/x.js",
        "x.js",
    ]


@anyio
async def test_hidden_files_and_gitignore(root: Path, call: Call) -> None:
    for path in (".hidden/.x", ".env", "a.log", "keep.log", "out/b", "sub/out/b", "sub/c"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
        os.utime(root / path, (1, 1))
    (root / ".gitignore").write_text("*.log\n!keep.log\n/out\n")
    os.utime(root / ".gitignore", (1, 1))
    assert (await call("glob", pattern="*")).splitlines() == [
        *(".env", ".gitignore", ".hidden/.x", "keep.log", "sub/c", "sub/out/b"),
        "[left out: a.log, out/]",
    ]
    assert await call("glob", pattern="*", path="out") == "out/b"
    assert len((await call("glob", pattern="*", no_ignore=True)).splitlines()) == 8


@anyio
async def test_gitignore_files_that_are_not_obeyed(root: Path, call: Call) -> None:
    (root / "rules").write_text("*")
    for name in ("link", "large"):
        (root / name).mkdir()
        (root / name / "x").write_text("")
    (root / "link" / ".gitignore").symlink_to("../rules")
    (root / "large" / ".gitignore").write_text("x\n" * 100_000)
    assert (await call("glob", pattern="x")).splitlines() == [
        "large/x",
        "link/x",
        "[not obeyed, a link or too large: large/.gitignore, link/.gitignore]",
    ]


def test_a_directory_that_is_swapped_on_the_way(root: Path, ctx: ToolContext) -> None:
    """It was listed as a directory, and is a link out of the tree when the walk comes to it."""
    for path in ("root/a", "root/sub/inside", "outside/secret"):
        (root.parent / path).parent.mkdir(exist_ok=True)
        (root.parent / path).write_text("")
    entries = Sweep(Root(root), ".", None, ("file",)).entries(ctx)
    assert next(entries).path == "a"
    (root / "sub").rename(root.parent / "moved")
    (root / "sub").symlink_to("../outside")
    assert [found.path for found in entries] == []


def test_a_file_that_is_swapped_on_the_way(root: Path, ctx: ToolContext) -> None:
    (root.parent / "secret").write_text("secret")
    (root / "a").write_text("")
    for found in Sweep(Root(root), ".", None, ("file",)).entries(ctx):
        (root / "a").unlink()
        (root / "a").symlink_to("../secret")
        with pytest.raises(OSError):
            found.open()


@anyio
async def test_a_tree_that_is_very_deep(root: Path, call: Call) -> None:
    deepest = root
    for _ in range(140):
        deepest = deepest / "d"
    deepest.mkdir(parents=True)
    (deepest / "x").write_text("")
    assert await call("glob", pattern="x") == f"[nothing matches x in .]\n[not readable: {'d/' * 128}]"
    assert await call("glob", pattern="x", path="d/" * 20) == "d/" * 140 + "x"


@anyio
async def test_no_descriptor_stays_open(root: Path, call: Call) -> None:
    (root / "a" / "b" / "c").mkdir(parents=True)
    (root / "a" / "b" / "c" / "x").write_text("needle\n" * 200)
    before = len(os.listdir("/proc/self/fd"))
    await call("glob", pattern="**/x")
    await call("grep", pattern="needle")
    await call("glob", pattern="x", path="none")
    assert len(os.listdir("/proc/self/fd")) == before


# --- against a reference -----------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "ab", "a.py", "b.py", ".a", "x.y"])
PATHS = st.lists(st.lists(NAMES, min_size=1, max_size=4).map("/".join), max_size=8)
PARTS = st.sampled_from(["**", "*", "*.py", "a*", "?", "[ab]", "a", "b", "*b*", ".a", "{a,b}", "{a.*,**}"])
PATTERNS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)


def reference(pattern: str, path: str) -> bool:
    """The definition, read aloud: braces first, then part by part, all ways of ``**``."""

    def parts_match(parts: list[str], names: list[str]) -> bool:
        if not parts:
            return not names
        if parts[0] == "**":
            return any(parts_match(parts[1:], names[n:]) for n in range(len(names) + 1))
        return bool(names) and fnmatch.fnmatchcase(names[0], parts[0]) and parts_match(parts[1:], names[1:])

    options = [part[1:-1].split(",") if part.startswith("{") else [part] for part in pattern.split("/")]
    prefix = [] if "/" in pattern else ["**"]
    return any(parts_match([*prefix, *parts], path.split("/")) for parts in itertools.product(*options))


@given(pattern=PATTERNS, paths=PATHS)
@settings(max_examples=80, deadline=None)
def test_a_random_tree(call_now: Callable[..., str], pattern: str, paths: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        for path in paths:
            if not any(Path(place, *path.split("/")[:n]).is_file() for n in range(1, path.count("/") + 2)):
                Path(place, path).parent.mkdir(parents=True, exist_ok=True)
                if not Path(place, path).exists():
                    Path(place, path).write_text("")
        files = [
            os.path.relpath(os.path.join(d, name), place) for d, _, names in os.walk(place) for name in names
        ]
        output = call_now(glob_tool(Root(place)), pattern=pattern)
        hits = [] if output.startswith("[") else output.split("\n")
        assert sorted(hits) == sorted(path for path in files if reference(pattern, path))
