"""ripgrep changes the speed of ``grep`` and nothing else; and it dies with the search."""

import importlib
import os
import random
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.errors import ToolError
from unspool.tools import Root
from unspool.tools.files import grep
from unspool.tools.files.grep import grep_tool
from unspool.tools.files.ripgrep import Listing, find_ripgrep
from unspool.tools.files.search_pattern import SearchPattern

RIPGREP = find_ripgrep()
regex: Any = importlib.import_module("regex")
needs_ripgrep = pytest.mark.skipif(RIPGREP is None, reason="ripgrep is not installed")


@pytest.fixture
def program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits_for_ripgrep: None
) -> Callable[[str], Path]:
    """Puts a shell script in the place of ripgrep."""

    def put(script: str) -> Path:
        path = tmp_path / "rg"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(grep, "find_ripgrep", lambda: str(path))
        return path

    return put


def listing(program: str, place: Path, expression: str = "needle") -> frozenset[str] | None:
    fd = os.open(place, os.O_RDONLY)
    try:
        with Listing(program, fd, expression, skipped={".git"}, obeys=True, max_file=1 << 20) as run:
            until(lambda: run.has_ended)
            return run.names()
    finally:
        os.close(fd)


# --- the looser pattern ----------------------------------------------------------------------------

INSIDE = {
    "needle": b"needle",
    r"class \w+Error\(": b"class ",
    "^import (os|sys)$": b"import ",
    r"\bself\.(?=_)_lock": b"self._lock",
    "a|needle": b"",
    "(needle)x": b"x",
    "needles?": b"needle",
    "ne{2}dle": b"dle",
    "needle+s": b"needle",
    r"a\.b\t": b"a.b\t",
    "[abc]needle[^x]": b"needle",
    "(?P<n>a)?b{,3}c*+d": b"d",
    "é": "é".encode(),
    r"\AC\Z": b"C",
    "(?>ab)(?<!b)x{2,}?": b"x",
    "{x}": b"{x}",
}
OUTSIDE = [
    r"(a)\1",
    r"(?P<n>a)(?P=n)",
    "(?i)a",
    "(?i:a)",
    r"\p{L}",
    r"\x41",
    "[[:alpha:]]",
    r"\Ka",
    r"\1a",
    "a\ufffd",
    "a\nb",
]


@pytest.mark.parametrize(("pattern", "needle"), INSIDE.items())
def test_patterns_in_the_subset(pattern: str, needle: bytes) -> None:
    loosened = SearchPattern(pattern, literal=False, ignore_case=False).loosened
    assert loosened is not None
    assert loosened.needle == needle


@pytest.mark.parametrize("pattern", OUTSIDE)
def test_patterns_outside_of_it(pattern: str) -> None:
    try:
        assert SearchPattern(pattern, literal=False, ignore_case=False).loosened is None
    except ToolError:
        assert "1" in pattern  # no such group


def test_letters_that_are_others_in_some_case() -> None:
    others = "".join(map(chr, [*range(0x80, 0xD800), *range(0xE000, 0x110000)]))
    assert regex.findall("[a-z]", others, regex.IGNORECASE) == ["\u0130", "\u017f", "\u212a"]


ATOMS = [
    *(
        "a",
        "b",
        "k",
        "s",
        "i",
        "é",
        "K",
        "_",
        "1",
        " ",
        "-",
        r"\.",
        ".",
        r"\w",
        r"\W",
        r"\d",
        r"\s",
        r"\S",
        r"\b",
    ),
    *(
        r"\B",
        "^",
        "$",
        "|",
        "[ab]",
        "[^a]",
        "[é-ü]",
        r"[\s-]",
        "[]a]",
        "(a|b)",
        "(?:ab|k)",
        "(s",
        "i)",
        r"\t",
    ),
    *(
        "x{e}",
        "{",
        "}",
        r"\D",
        "(?P<n>b)",
        "\ufeff",
        "]",
        "İ",
        "(?=a)",
        "(?!b)",
        "(?<=a)",
        r"\A",
        r"\Z",
        "(?>a|ab)",
    ),
]
REPEATS = ["", "", "", "", "*", "+", "?", "*?", "{2}", "{1,2}", "{,2}", "{0}", "+?", "{2,}", "*+", "++", "?+"]
PIECES = [
    *(b"a", b"b", b"k", b"s", b"i", b"x", b"A", b"I", b"S", b"1", b"_", b" ", b"-", b".", b"{", b"}", b"\t"),
    *(b"\n", b"\n", b"\r\n", b"\r", b"\xe9", b"\xe2\x82", b"\xff", b"\xf0\x90\x80"),
    *(text.encode() for text in ("é", "É", "\u212a", "\u017f", "İ", "ı", "\ufeff", "١", "\u00a0", "😀")),
]


@needs_ripgrep
def test_nothing_is_missed(tmp_path: Path) -> None:
    """Random patterns over random bytes: whatever the pattern finds, the looser one and its bytes find."""
    chance = random.Random(11)
    texts = {}
    for number in range(400):
        texts[str(number)] = b"".join(chance.choices(PIECES, k=chance.randint(1, 14)))
        (tmp_path / str(number)).write_bytes(texts[str(number)])
    tried = 0
    while tried < 60:
        pattern = "".join(chance.choice(ATOMS) + chance.choice(REPEATS) for _ in range(chance.randint(1, 4)))
        ignore_case, literal = chance.random() < 0.4, chance.random() < 0.1
        try:
            search = SearchPattern(pattern, literal=literal, ignore_case=ignore_case)
        except ToolError:
            continue
        if search.loosened is None:
            continue
        tried += 1
        found = listing(str(RIPGREP), tmp_path, search.loosened.expression)
        assert found is not None, pattern
        wanted = regex.compile(
            re.escape(pattern) if literal else pattern.replace("x{e}", r"x\{e\}"),
            regex.IGNORECASE if ignore_case else 0,
        )
        for name, data in texts.items():
            text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
            lines = text.removesuffix("\n").split("\n") if text else []
            numbers = [number for number, line in enumerate(lines) if wanted.search(line)]
            assert not numbers or (name in found and search.may_be_in(data)), (pattern, data)
            assert [hit.number for hit in search.hits(text, lambda: False)] == numbers, (pattern, data)


# --- the program -------------------------------------------------------------------------------------


def test_where_it_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("path", "python", "here"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rg").write_text("")
        (tmp_path / name / "rg").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python" / "python"))
    monkeypatch.chdir(tmp_path)
    for path, found in ((f"{tmp_path}/path", "path"), ("", "python"), ("here", "python")):
        monkeypatch.setenv("PATH", path)
        assert find_ripgrep() == str(tmp_path / found / "rg")
    (tmp_path / "python" / "rg").unlink()
    assert find_ripgrep() is None


@needs_ripgrep
def test_settings_of_the_user_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "f").write_text("needle")
    (tmp_path / "tree" / ".ignore").write_text("f")
    (tmp_path / "settings").write_text("--glob=!f\n--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "settings"))
    assert listing(str(RIPGREP), tmp_path / "tree") == frozenset({"f"})


@needs_ripgrep
def test_it_stays_in_the_directory_that_is_open(tmp_path: Path) -> None:
    for name in ("tree", "outside"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub" / name).write_text("needle")
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "outside")
    fd = os.open(tmp_path / "tree", os.O_RDONLY)
    (tmp_path / "tree").rename(tmp_path / "moved")
    (tmp_path / "tree").symlink_to("outside")
    with Listing(str(RIPGREP), fd, "needle", skipped=(), obeys=True, max_file=100) as run:
        until(lambda: run.has_ended)
        assert run.names() == frozenset({"sub/tree"})
    os.close(fd)


def test_what_it_says_of_other_places_is_not_believed(
    root: Path, program: Callable[[str], Path], call_now: Callable[..., str]
) -> None:
    (root.parent / "secret").write_text("needle")
    (root / "link").symlink_to("../secret")
    (root / "f").write_text("needle")
    program(r"printf '%s\0' ./link ../secret /etc/passwd ./f ./none")
    assert call_now(grep_tool(Root(root)), pattern="needle") == "f:1:needle"


@pytest.mark.parametrize("script", ["exit 2", "kill -9 $$", "echo 'no such flag' >&2; exit 64"])
def test_where_it_fails_everything_is_looked_at(
    root: Path, program: Callable[[str], Path], call_now: Callable[..., str], script: str
) -> None:
    (root / "f").write_text("needle")
    program(script)
    assert call_now(grep_tool(Root(root)), pattern="needle") == "f:1:needle"


def test_where_it_cannot_be_started(
    root: Path, program: Callable[[str], Path], call_now: Callable[..., str]
) -> None:
    (root / "f").write_text("needle")
    program("").write_bytes(b"\x7fELF of another machine")
    assert call_now(grep_tool(Root(root)), pattern="needle") == "f:1:needle"


@needs_ripgrep
def test_rules_that_it_reads_differently(
    root: Path, monkeypatch: pytest.MonkeyPatch, call_now: Callable[..., str], waits_for_ripgrep: None
) -> None:
    (root / "a").write_text("needle")
    (root / ".gitignore").write_text("{a,b}\n")  # ripgrep leaves out a and b, git a file of that name
    monkeypatch.setattr(grep, "find_ripgrep", lambda: RIPGREP)
    assert call_now(grep_tool(Root(root)), pattern="needle") == "a:1:needle"


def test_it_is_not_started_for_few_files(
    root: Path, ctx: Any, program: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (root / str(number)).write_text("needle")
    program('echo run >> "$0.runs"')
    for few, limit, runs in ((6, 100, 0), (4, 100, 1), (2, 2, 1), (2, 3, 2)):
        monkeypatch.setattr(grep, "FEW", few)
        output = grep_tool(Root(root))(ctx=ctx, pattern="needle", limit=limit)
        assert output.startswith("0:1:needle\n1:1:needle")
        written = tmp_path / "rg.runs"
        assert (len(written.read_text().splitlines()) if written.exists() else 0) == runs


# --- its end -----------------------------------------------------------------------------------------

WAITING = 'echo $$ > "$0.pid"; exec sleep 100'


@pytest.fixture
def waiting(root: Path, tmp_path: Path, ctx: Any, program: Callable[[str], Path], monkeypatch: Any) -> Any:
    """A context in which the search looks at a second file when ripgrep is under way, which doesn't end by itself."""
    for name in ("e", "f"):
        (root / name).write_text("needle")
    program(WAITING)
    monkeypatch.setattr(grep, "Listing", Listing)
    monotonic = ctx.monotonic

    def later() -> float:
        if ctx.looks > 3:
            until(lambda: pid_of(tmp_path) > 0)
            ctx.cancelled = ctx.cancelled or ctx.cancel_then
        return float(monotonic())

    ctx.cancel_then, ctx.monotonic = False, later
    return ctx


def test_a_search_ends_it(root: Path, tmp_path: Path, waiting: Any) -> None:
    """Nothing waits for it."""
    assert grep_tool(Root(root))(ctx=waiting, pattern="needle") == "e:1:needle\nf:1:needle"
    assert not os.path.exists(f"/proc/{pid_of(tmp_path)}")


def test_a_cancelled_search_ends_it(root: Path, tmp_path: Path, waiting: Any) -> None:
    waiting.cancel_then = True
    with pytest.raises(ToolError, match="cancelled"):
        grep_tool(Root(root))(ctx=waiting, pattern="needle")
    assert not os.path.exists(f"/proc/{pid_of(tmp_path)}")


def pid_of(tmp_path: Path) -> int:
    """The process of the waiting program, 0 before it has begun."""
    file = tmp_path / "rg.pid"
    return int(file.read_text() or 0) if file.exists() else 0


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@needs_ripgrep
@pytest.mark.usefixtures("waits_for_ripgrep")
def test_many_names_and_none_of_it_left(root: Path, monkeypatch: pytest.MonkeyPatch, call_now: Any) -> None:
    """More names than a pipe holds."""
    for number in range(500):
        (root / f"{'n' * 200}{number:03}").write_text("needle")
    monkeypatch.setattr(grep, "find_ripgrep", lambda: RIPGREP)
    before = len(os.listdir("/proc/self/fd"))
    output = call_now(grep_tool(Root(root)), pattern="needle")
    assert output.endswith("[stopped after 100 matches: narrow the pattern, path or glob]")
    assert len(os.listdir("/proc/self/fd")) == before
    assert "rg" not in children()


def children() -> list[str]:
    """The names of our processes, those that wait to be reaped among them."""
    names = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:  # gone meanwhile
            continue
        if rest.split()[1] == str(os.getpid()):
            names.append(name)
    return names
