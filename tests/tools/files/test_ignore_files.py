"""``.gitignore``: a table of git's rules, and random trees against git itself and against ripgrep."""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from unspool.tools.files.ignore_files import IgnoreFile, Ignores
from unspool.tools.files.ripgrep import find_ripgrep

GIT = shutil.which("git")
RIPGREP = find_ripgrep()

# the lines of a file, paths that are left out, paths that are not; directories end in /
RULES: dict[str, tuple[str, list[str], list[str]]] = {
    "a name at any depth": ("foo", ["foo", "a/foo", "foo/"], ["foobar", "a/xfoo"]),
    "only directories": ("foo/", ["foo/", "a/foo/"], ["foo", "a/foo"]),
    "a slash in front anchors": ("/foo", ["foo", "foo/"], ["a/foo"]),
    "a slash inside anchors": ("a/foo", ["a/foo"], ["b/a/foo", "foo"]),
    "a slash at the end does not": ("foo/", ["x/y/foo/"], []),
    "star": ("*.py", ["a.py", "x/.py"], ["a.pyc"]),
    "star stops at slashes": ("a/*", ["a/b"], ["a/b/c"]),
    "question mark": ("a?c", ["abc"], ["ac", "a/c", "abbc"]),
    "any directories in front": ("**/foo", ["foo", "a/foo", "a/b/foo"], ["a/foox"]),
    "any directories in front of a path": ("**/a/foo", ["a/foo", "b/a/foo"], ["foo"]),
    "all below": ("a/**", ["a/b", "a/b/c"], ["a/", "b/a/c"]),
    "any directories between": ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "x/a/b"]),
    "two stars in a name are one": ("/a**b", ["axb", "ab"], ["a/b"]),
    "class": ("[ab].txt", ["a.txt"], ["c.txt", "ab.txt"]),
    "class turned around": ("[!a].txt", ["b.txt"], ["a.txt"]),
    "class turned around, as a shell does": ("[^a].txt", ["b.txt"], ["a.txt"]),
    "class with a bracket": ("[]a]x", ["]x", "ax"], ["bx"]),
    "class with a range": ("[a-c-]x", ["bx", "-x"], ["dx"]),
    "class by name": ("[[:digit:]x]", ["3", "x"], ["a", ":"]),
    "class without an end": ("[a", [], ["a", "[a"]),
    "braces are plain": ("{a,b}", ["{a,b}"], ["a"]),
    "comment": ("#foo", [], ["#foo", "foo"]),
    "no comment": (r"\#foo", ["#foo"], ["foo"]),
    "taken back": ("*.log\n!keep.log", ["a.log"], ["keep.log", "x/keep.log"]),
    "the last one counts": ("!a\na", ["a"], []),
    "no mark": (r"\!foo", ["!foo"], ["foo"]),
    "escaped star": (r"a\*", ["a*"], ["ab"]),
    "backslash at the end": ("a\\", [], ["a", "a\\"]),
    "spaces at the end": ("a  ", ["a"], ["a  "]),
    "spaces that are kept": ("a\\ ", ["a "], ["a"]),
    "spaces inside": ("a b", ["a b"], ["a"]),
    "CRLF": ("a\r\nb\r\n", ["a", "b"], []),
    "BOM": ("\ufeffa", ["a"], []),
    "only a slash": ("/", [], ["a", "a/"]),
    "only a mark": ("!", [], ["a"]),
    "letters beyond ASCII": ("é*", ["é1"], ["e1"]),
    "upper and lower case": ("A", ["A"], ["a"]),
}


def names(path: str) -> tuple[list[bytes], bool]:
    return os.fsencode(path.rstrip("/")).split(b"/"), path.endswith("/")


@pytest.mark.parametrize(("text", "ignored", "kept"), RULES.values(), ids=RULES)
def test_rules(text: str, ignored: list[str], kept: list[str]) -> None:
    file = IgnoreFile(text.encode())
    assert [path for path in ignored + kept if file.decides(*names(path))] == ignored


def test_nearer_files_go_first() -> None:
    top = Ignores().within(0, IgnoreFile(b"*.log\n/a/x\n"), is_repository=True)
    below = top.within(1, IgnoreFile(b"!keep.log\n/b\n"), is_repository=False)
    table = {"a/keep.log": False, "a/other.log": True, "a/b": True, "a/c/b": False, "a/x": True}
    assert {path: below.leave_out(*names(path)) for path in table} == table
    inner = below.within(2, None, is_repository=True)
    assert not inner.leave_out(*names("a/repo/other.log"))


def test_hostile_patterns_never_explode() -> None:
    file = IgnoreFile(b"\n".join([b"*a" * 200 + b"b", b"**/a/" * 200 + b"b", b"a*" * 100 + b"/**/x"]))
    assert file.decides([b"a" * 255] * 200, False) is None


# --- against git and ripgrep -----------------------------------------------------------------------

NAMES = ["a", "b", "ab", "a.py", "b.log", ".x", "c c", "#d", "!e", "a*", "[a]", "é", "{a,b}", "a\\b", "d "]
PARTS = [
    *(
        "a",
        "b",
        "*",
        "**",
        "*.py",
        "?",
        "[ab]",
        "[!a]*",
        "a*",
        "*b*",
        "\\#d",
        "\\!e",
        "a\\*",
        "c c",
        "c\\ c",
        "é",
    ),
    *(
        "??",
        "[a-c]",
        "***",
        "**b",
        "{a,b}",
        "[[:alpha:]]",
        "[]a]",
        "[^b]",
        "\\[a\\]",
        "[a",
        "a\\",
        "*.l?g",
        ".*",
    ),
    *("d\\ ", "d ", "[a\\]]", "#d", "a\\\\b", "[!/]", "[z-a]", "[-a]", "[a-]"),
]


def make_tree(chance: random.Random, top: Path) -> None:
    for _ in range(chance.randint(2, 14)):
        path = top.joinpath(*chance.choices(NAMES, k=chance.randint(1, 4)))
        if not any(parent.is_file() for parent in path.parents) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x")
    below = [Path(place) for place, _, _ in os.walk(top) if ".git" not in Path(place).parts]
    for place in [top, *chance.sample(below, min(len(below), chance.randint(0, 2)))]:
        rules = [pattern(chance) for _ in range(chance.randint(1, 4))]
        (place / ".gitignore").write_bytes(chance.choice(["\n", "\r\n"]).join(rules).encode())


def pattern(chance: random.Random) -> str:
    parts = "/".join(chance.choices(PARTS, k=chance.choice([1, 1, 1, 2, 2, 3])))
    return "".join(
        [
            chance.choice(["", "", "", "!"]),
            chance.choice(["", "", "/"]),
            parts,
            chance.choice(["", "", "/"]),
            chance.choice(["", "", "", " "]),
        ]
    )


def kept_files(top: Path) -> tuple[set[bytes], bool]:
    """The files that are not left out, and whether all rules are ones that other programs read alike."""
    is_common = True

    def walk(place: Path, above: list[bytes], ignores: Ignores) -> Iterator[bytes]:
        nonlocal is_common
        rules = place / ".gitignore"
        file = IgnoreFile(rules.read_bytes()) if rules.exists() else None
        is_common = is_common and (file is None or file.is_common)
        ignores = ignores.within(len(above), file, is_repository=False)
        for inner in place.iterdir():
            path = [*above, os.fsencode(inner.name)]
            if inner.name == ".git" or ignores.leave_out(path, inner.is_dir()):
                continue
            if inner.is_dir():
                yield from walk(inner, path, ignores)
            else:
                yield b"/".join(path)

    return set(walk(top, [], Ignores())), is_common


def run(*command: str, cwd: Path) -> set[bytes]:
    output = subprocess.run(command, cwd=cwd, capture_output=True, check=False).stdout
    return {name.removeprefix(b"./") for name in output.split(b"\0")[:-1]}


@pytest.mark.skipif(GIT is None, reason="git is not installed")
def test_random_trees(tmp_path: Path) -> None:
    chance = random.Random(7)
    for number in range(40):
        top = tmp_path / str(number)
        top.mkdir()
        subprocess.run([str(GIT), "init", "-q", str(top)], check=True, capture_output=True)
        make_tree(chance, top)
        kept, is_common = kept_files(top)
        by_git = run(str(GIT), "ls-files", "-o", "--exclude-per-directory=.gitignore", "-z", cwd=top)
        assert kept == by_git, (top / ".gitignore").read_bytes()
        if RIPGREP is not None and is_common:
            command = [
                RIPGREP,
                "--no-config",
                "--files",
                "--hidden",
                "-0",
                "--no-ignore-parent",
                "-g",
                "!.git",
            ]
            assert kept <= run(*command, cwd=top), (top / ".gitignore").read_bytes()
