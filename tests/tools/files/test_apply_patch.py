"""``apply_patch``: both forms, where hunks belong, exact bytes, and all files or none."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool
from unspool.kernel.ports import Refused, ToolContext, ToolResult
from unspool.tools.files.apply_patch import apply_patch_tool, parse_patch
from unspool.tools.files.change import Change
from unspool.tools.files.saving import sha256
from unspool.tools.files.workspace import Workspace

Tree = dict[str, bytes]
BOM = b"\xef\xbb\xbf"
PY = b"class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n"


@pytest.fixture
def patch(root: Path) -> FunctionTool[..., ToolResult]:
    return apply_patch_tool(Workspace(root, read_before_write=False))


def put(root: Path, tree: Tree) -> None:
    for name, data in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def tree(root: Path) -> Tree:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def v4a(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def unified(*lines: str) -> str:
    return "\n".join(["--- a/f", "+++ b/f", *lines]) + "\n"


V4A: dict[str, tuple[Tree, str, Tree]] = {
    "update": (
        {"f": b"a\nb\nc\n"},
        v4a("*** Update File: f", "@@", " a", "-b", "+x", " c"),
        {"f": b"a\nx\nc\n"},
    ),
    "without @@": ({"f": b"a\nb\n"}, v4a("*** Update File: f", "-b", "+x"), {"f": b"a\nx\n"}),
    "add": ({}, v4a("*** Add File: d/e/f", "+a", "+", "", "+b"), {"d/e/f": b"a\n\n\nb\n"}),
    "add two files in a new directory": (
        {},
        v4a("*** Add File: d/a", "+1", "*** Add File: d/b", "+2"),
        {"d/a": b"1\n", "d/b": b"2\n"},
    ),
    "add an empty file": ({}, v4a("*** Add File: f"), {"f": b""}),
    "delete": ({"f": b"a\n", "g": b"b\n"}, v4a("*** Delete File: f"), {"g": b"b\n"}),
    "move": ({"f": b"a\n"}, v4a("*** Update File: f", "*** Move to: d/g"), {"d/g": b"a\n"}),
    "move and update": (
        {"f": b"a\nb\n"},
        v4a("*** Update File: f", "*** Move to: g", "@@", "-b", "+c"),
        {"g": b"a\nc\n"},
    ),
    "move that changes only the case": (
        {"readme.md": b"a\n"},
        v4a("*** Update File: readme.md", "*** Move to: README.md", "-a", "+b"),
        {"README.md": b"b\n"},
    ),
    "move to where it is": (
        {"f": b"a\n"},
        v4a("*** Update File: f", "*** Move to: ./f", "-a", "+b"),
        {"f": b"b\n"},
    ),
    "with the names of a unified diff": (
        {"f": b"a\nb\n"},
        v4a("*** Update File: f", "--- a/f", "+++ b/f", "@@ -1,2 +1,2 @@", " a", "-b", "+x"),
        {"f": b"a\nx\n"},
    ),
    "lines that look like those names": (
        {"f": b"-- f\n"},
        v4a("*** Update File: f", "--- f", "+++ f"),
        {"f": b"++ f\n"},
    ),
    "several files": (
        {"f": b"a\n", "g": b"b\n", "h": b"c\n"},
        v4a("*** Update File: f", "-a", "+x", "", "*** Delete File: g", "*** Add File: i", "+y"),
        {"f": b"x\n", "h": b"c\n", "i": b"y\n"},
    ),
    "in a heredoc": (
        {"f": b"a\n"},
        "apply_patch <<'EOF'\n" + v4a("*** Update File: f", "-a", "+x") + "\nEOF\n",
        {"f": b"x\n"},
    ),
    "in a code fence": (
        {"f": b"a\n"},
        "```diff\n" + v4a("*** Update File: f", "-a", "+x") + "\n```",
        {"f": b"x\n"},
    ),
    "with CRLF itself": (
        {"f": b"a\nb\n"},
        v4a("*** Update File: f", " a", "-b", "+x").replace("\n", "\r\n"),
        {"f": b"a\nx\n"},
    ),
    "two hunks": (
        {"f": b"a\nb\nc\nd\n"},
        v4a("*** Update File: f", "@@", "-a", "+1", "@@", "-d", "+4"),
        {"f": b"1\nb\nc\n4\n"},
    ),
    "a header above": (
        {"f": PY},
        v4a(
            "*** Update File: f", "@@ class B:", "     def f(self):", "-        return 1", "+        return 2"
        ),
        {"f": PY[:-2] + b"2\n"},
    ),
    "headers one below the other": (
        {"f": PY},
        v4a(
            "*** Update File: f",
            "@@ class B:",
            "@@     def f(self):",
            "-        return 1",
            "+        return 2",
        ),
        {"f": PY[:-2] + b"2\n"},
    ),
    "the only one after the hunk before": (
        {"f": b"a\nx\nb\nx\n"},
        v4a("*** Update File: f", "@@", "-b", "+c", "@@", "-x", "+y"),
        {"f": b"a\nx\nc\ny\n"},
    ),
    "hunks out of order": (
        {"f": b"a\nb\nc\n"},
        v4a("*** Update File: f", "@@", "-c", "+3", "@@", "-a", "+1"),
        {"f": b"1\nb\n3\n"},
    ),
    "the end of the file": (
        {"f": b"x\ny\nx\n"},
        v4a("*** Update File: f", "@@", "-x", "+z", "*** End of File"),
        {"f": b"x\ny\nz\n"},
    ),
    "a blank line without its blank": (
        {"f": b"a\n\nb\n"},
        v4a("*** Update File: f", " a", "", "-b", "+c", "", ""),
        {"f": b"a\n\nc\n"},
    ),
    "lines added below a header": (
        {"f": b"a\nb\n"},
        v4a("*** Update File: f", "@@ a", "+x"),
        {"f": b"a\nx\nb\n"},
    ),
    "lines added at the end": (
        {"f": b"a\nb\n"},
        v4a("*** Update File: f", "@@", "+x", "*** End of File"),
        {"f": b"a\nb\nx\n"},
    ),
    "lines added to an empty file": ({"f": b""}, v4a("*** Update File: f", "+x"), {"f": b"x\n"}),
    "lines with numbers": (
        {"f": b"x\nx\nx\n"},
        v4a("*** Update File: f", "@@ -2,1 +2,1 @@", "-x", "+y"),
        {"f": b"x\ny\nx\n"},
    ),
    "lines of dashes": (
        {"f": b"-- a\n--- b\n"},
        v4a("*** Update File: f", "--- a", "---- b", "+++ c"),
        {"f": b"++ c\n"},
    ),
    "CRLF": (
        {"f": b"a\r\nb\r\n"},
        v4a("*** Update File: f", " a", "-b", "+x", "+y"),
        {"f": b"a\r\nx\r\ny\r\n"},
    ),
    "mixed newlines": (
        {"f": b"a\r\nb\nc\r\nd\re\n"},
        v4a("*** Update File: f", " a", "-b", "+x", " c", "+y"),
        {"f": b"a\r\nx\nc\r\ny\r\nd\re\n"},
    ),
    "BOM": ({"f": BOM + b"a\n"}, v4a("*** Update File: f", "-a", "+x"), {"f": BOM + b"x\n"}),
    "bytes that are not UTF-8": (
        {"f": b"\xff\r\na\n"},
        v4a("*** Update File: f", "-a", "+x"),
        {"f": b"\xff\r\nx\n"},
    ),
    "form feed and U+2028 in lines": (
        {"f": "a\fb\u2028c\nd\n".encode()},
        v4a("*** Update File: f", " a\fb\u2028c", "-d", "+e"),
        {"f": "a\fb\u2028c\ne\n".encode()},
    ),
    "the last line without newline": (
        {"f": b"a\nb"},
        v4a("*** Update File: f", " a", "-b", "+x"),
        {"f": b"a\nx"},
    ),
    "lines after a last line without newline": (
        {"f": b"a\nb"},
        v4a("*** Update File: f", " b", "+x"),
        {"f": b"a\nb\nx"},
    ),
    "the last line without newline removed": (
        {"f": b"a\nb"},
        v4a("*** Update File: f", " a", "-b"),
        {"f": b"a\n"},
    ),
    "all lines removed": ({"f": b"a\n"}, v4a("*** Update File: f", "-a"), {"f": b""}),
}
UNIFIED: dict[str, tuple[Tree, str, Tree]] = {
    "update": ({"f": b"a\nb\nc\n"}, unified("@@ -1,3 +1,3 @@", " a", "-b", "+x", " c"), {"f": b"a\nx\nc\n"}),
    "without a and b": (
        {"d/f": b"a\n"},
        "--- d/f\t2026-01-01 00:00:00\n+++ d/f\t2026-01-01 00:00:01\n@@ -1 +1 @@\n-a\n+x\n",
        {"d/f": b"x\n"},
    ),
    "new": (
        {},
        "--- /dev/null\n+++ b/d/f\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n",
        {"d/f": b"a\nb"},
    ),
    "deleted": ({"f": b"a\nb\n"}, "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n", {}),
    "git": (
        {"f": b"a\nb\n", "gone": b"x\n", "old name": b"1\n2\n3\n", "same": b"s"},
        """\
From 1234 Mon Sep 17 00:00:00 2001
Subject: a mail
--- not a header

diff --git a/f b/f
index 111..222 100644
--- a/f
+++ b/f
@@ -1,2 +1,2 @@ def f():
 a
-b
+x
diff --git a/empty b/empty
new file mode 100644
index 000..000
diff --git a/gone b/gone
deleted file mode 100644
index 111..000
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/old name b/new name
similarity index 60%
rename from old name
rename to new name
index 111..222 100644
--- a/old name
+++ b/new name
@@ -1,3 +1,3 @@
 1
-2
+two
 3
diff --git a/same b/moved
similarity index 100%
rename from same
rename to moved
--\x20
2.43.0

""",
        {"f": b"a\nx\n", "empty": b"", "new name": b"1\ntwo\n3\n", "moved": b"s"},
    ),
    "quoted names": (
        {"é\t": b"a\n"},
        'diff --git "a/\\303\\251\\t" "b/\\303\\251\\t"\n--- "a/\\303\\251\\t"\n+++ "b/\\303\\251\\t"\n@@ -1 +1 @@\n-a\n+x\n',
        {"é\t": b"x\n"},
    ),
    "in a code fence": (
        {"f": b"a\n"},
        "```diff\n" + unified("@@ -1 +1 @@", "-a", "+x") + "```\n",
        {"f": b"x\n"},
    ),
    "numbers that are off": (
        {"f": b"1\n2\n3\n4\n5\n"},
        unified("@@ -40,3 +41,3 @@", " 3", "-4", "+x", " 5"),
        {"f": b"1\n2\n3\nx\n5\n"},
    ),
    "off by the same for both": (
        {"f": b"0\nx\ny\nx\ny\n1\nx\ny\n"},
        unified("@@ -4 +4 @@", "-1", "+one", "@@ -5,2 +5,2 @@", "-x", "+z", " y"),
        {"f": b"0\nx\ny\nx\ny\none\nz\ny\n"},
    ),
    "counts that are too small": (
        {"f": b"a\nb\nc\n"},
        unified("@@ -1,1 +1,1 @@", " a", "-b", "+x", " c"),
        {"f": b"a\nx\nc\n"},
    ),
    "counts that are too large": (
        {"f": b"a\nb\n", "g": b"c\n"},
        unified("@@ -1,9 +1,9 @@", " a", "-b", "+x") + "--- a/g\n+++ b/g\n@@ -1,5 +1,5 @@\n-c\n+y\n",
        {"f": b"a\nx\n", "g": b"y\n"},
    ),
    "no numbers": ({"f": b"a\nb\n"}, unified("@@ ... @@", " a", "-b", "+x"), {"f": b"a\nx\n"}),
    "a header for numbers": (
        {"f": PY},
        unified("@@ class B: @@", "     def f(self):", "-        return 1"),
        {"f": PY[:-17]},
    ),
    "lines that look like headers": (
        {"f": b"-- a\n++ b\n@@ c\n"},
        unified("@@ -1,3 +1,3 @@", "--- a", "+-- x", " ++ b", " @@ c"),
        {"f": b"-- x\n++ b\n@@ c\n"},
    ),
    "the right one of the same": (
        {"f": b"x\nx\nx\n"},
        unified("@@ -1,3 +1,3 @@", " x", "-x", "+y", " x"),
        {"f": b"x\ny\nx\n"},
    ),
    "newline added at the end": (
        {"f": b"a\nb"},
        unified("@@ -1,2 +1,2 @@", " a", "-b", "\\ No newline at end of file", "+b"),
        {"f": b"a\nb\n"},
    ),
    "newline removed at the end": (
        {"f": b"a\nb\n"},
        unified("@@ -1,2 +1,2 @@", " a", "-b", "+b", "\\ No newline at end of file"),
        {"f": b"a\nb"},
    ),
    "no newline, and nothing said of it": (
        {"f": b"a\nb"},
        unified("@@ -1,2 +1,2 @@", " a", "-b", "+x"),
        {"f": b"a\nx"},
    ),
    "CRLF, as a model writes it": (
        {"f": b"a\r\nb\r\n"},
        unified("@@ -1,2 +1,3 @@", " a", "-b", "+x", "+y"),
        {"f": b"a\r\nx\r\ny\r\n"},
    ),
    "CRLF, as diff writes it": (
        {"f": b"a\r\nb\r\n"},
        unified("@@ -1,2 +1,3 @@", " a\r", "-b\r", "+x\r", "+y"),
        {"f": b"a\r\nx\r\ny\n"},
    ),
    "CRLF of the patch": (
        {"f": b"a\nb\n"},
        unified("@@ -1,2 +1,2 @@", " a", "-b", "+x").replace("\n", "\r\n"),
        {"f": b"a\nx\n"},
    ),
    "with the byte order mark, as git writes it": (
        {"f": BOM + b"a\nb\n"},
        unified("@@ -1,2 +1,3 @@", "-\ufeffa", "+\ufeffx", "+y", " b"),
        {"f": BOM + b"x\ny\nb\n"},
    ),
    "with the mark in a line that stays": (
        {"f": BOM + b"a\nb\n"},
        unified("@@ -1,2 +1,2 @@", " \ufeffa", "-b", "+x"),
        {"f": BOM + b"a\nx\n"},
    ),
    "to an empty file": ({"f": b""}, unified("@@ -0,0 +1 @@", "+a"), {"f": b"a\n"}),
}


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        pytest.param(*case, id=f"{form}: {name}")
        for form, cases in (("V4A", V4A), ("unified", UNIFIED))
        for name, case in cases.items()
    ],
)
def test_bytes(
    root: Path, patch: FunctionTool[..., ToolResult], ctx: ToolContext, before: Tree, text: str, after: Tree
) -> None:
    put(root, before)
    result = patch(patch=text, ctx=ctx)
    assert tree(root) == after
    assert result.details["fuzz"] == 0


FUZZY: dict[str, tuple[bytes, str, bytes, int, str]] = {
    "blanks at line ends": (
        b"a  \nb\t\nc \n",
        v4a("*** Update File: f", " a", "-b", "+x", " c"),
        b"a  \nx\nc \n",
        1,
        "f: hunk 1: fits apart from blanks at line ends (fuzz 1)",
    ),
    "indentation": (
        b"\tif a:\n\t\tb\n\t\tc\n",
        v4a("*** Update File: f", " if a:", "-    b", "+    if d:", "+        b", "     c"),
        b"\tif a:\n\t\tif d:\n\t\t\tb\n\t\tc\n",
        100,
        "f: hunk 1: fits apart from indentation or look-alikes (fuzz 100)",
    ),
    "look-alikes": (
        "s = ‘a’\nb\n".encode(),
        unified("@@ -1,2 +1,2 @@", " s = 'a'", "-b", "+c"),
        "s = ‘a’\nc\n".encode(),
        100,
        "f: hunk 1: fits apart from indentation or look-alikes (fuzz 100)",
    ),
    "a header that is not there": (
        b"a\nb\n",
        v4a("*** Update File: f", "@@ def f():", "-b", "+c"),
        b"a\nc\n",
        0,
        "f: hunk 1: its header def f(): was not found",
    ),
    "not at the end": (
        b"a\nb\n",
        v4a("*** Update File: f", "-a", "+c", "*** End of File"),
        b"c\nb\n",
        0,
        "f: hunk 1: it is not at the end of the file",
    ),
    "a mode": (
        b"a\n",
        "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
        b"b\n",
        0,
        "f: file modes can't be changed: that part was left out",
    ),
}


@pytest.mark.parametrize(("before", "text", "after", "fuzz", "note"), FUZZY.values(), ids=FUZZY)
def test_what_does_not_fit_exactly_is_told(
    root: Path,
    patch: FunctionTool[..., ToolResult],
    ctx: ToolContext,
    before: bytes,
    text: str,
    after: bytes,
    fuzz: int,
    note: str,
) -> None:
    put(root, {"f": before})
    result = patch(patch=text, ctx=ctx)
    assert tree(root) == {"f": after}
    assert result.details["fuzz"] == fuzz
    assert isinstance(result.content, str)
    assert result.content.split("\n")[2] == f"[{note}]"


TWICE = b"x\ny\nz\nx\ny\n"
REFUSED: dict[str, tuple[Tree, str, str]] = {
    "nothing": ({}, "", "this is not a patch"),
    "prose": ({}, "change a to b", "this is not a patch"),
    "cut off": (
        {"f": b"a\n"},
        "*** Begin Patch\n*** Update File: f\n-a\n+b",
        "must end with one line *** End Patch",
    ),
    "no begin": (
        {"f": b"a\n"},
        "*** Update File: f\n-a\n+b\n*** End Patch",
        "must have one line *** Begin Patch",
    ),
    "no file": ({}, v4a(), "the patch names no file"),
    "an unknown section": (
        {},
        v4a("*** Rename File: f"),
        "line 2 of the patch, *** Rename File: f: expected",
    ),
    "no path": ({}, v4a("*** Add File: "), "expected *** Add File:"),
    "a line without mark": (
        {"f": b"a\nb\n"},
        v4a("*** Update File: f", " a", "-b", "c"),
        "line 5 of the patch, c: a line of a hunk must begin with a blank, - or +",
    ),
    "a line of a new file without mark": (
        {},
        v4a("*** Add File: f", "+a", "b"),
        "line 4 of the patch, b: each line",
    ),
    "no change": (
        {"f": b"a\nb\n"},
        v4a("*** Update File: f", "@@", "-a", "+x", "@@", " b"),
        "hunk 2 of f changes nothing: mark",
    ),
    "no change, unified": ({"f": b"a\n"}, unified("@@ -1 +1 @@", " a"), "hunk 1 of f changes nothing: mark"),
    "no hunk": ({"f": b"a\n"}, v4a("*** Update File: f"), "the patch changes nothing in it"),
    "no effect": ({"f": b"a\n"}, v4a("*** Update File: f", "-a", "+a"), "f: the patch changes nothing in it"),
    "not found": (
        {"f": b"a\nb\nlong line\n"},
        v4a("*** Update File: f", " b", "-long lime", "+x"),
        (
            "f: hunk 1 of 1: its lines are not in the file: b (and 1 more). Most like it, did you mean one of these "
            "candidates?\nlines 2-3"
        ),
    ),
    "a part of a line": (
        {"f": b"abc\n"},
        v4a("*** Update File: f", "-b", "+x"),
        "its lines are not in the file: b;",
    ),
    "several places": (
        {"f": TWICE},
        v4a("*** Update File: f", "-x", "+X", " y"),
        "f: hunk 1 of 1: its lines are in several places, at lines 1, 4: give more lines around the change",
    ),
    "several places apart from blanks": (
        {"f": b"x \nx\t\n"},
        v4a("*** Update File: f", "-x", "+X"),
        "its lines are in several places, at lines 1, 2",
    ),
    "several headers": (
        {"f": PY},
        v4a("*** Update File: f", "@@ def f(self):", "-        return 1"),
        "its header def f(self): is in several places, at lines 2, 6",
    ),
    "several places, and no header as given": (
        {"f": TWICE},
        v4a("*** Update File: f", "@@ def f():", "-x", "+X"),
        "in several places, at lines 1, 4",
    ),
    "numbers that are off, and several places": (
        {"f": TWICE},
        unified("@@ -2,2 +2,2 @@", "-x", "+X", " y"),
        "in several places, at lines 1, 4",
    ),
    "numbers that contradict the lines, and several places": (
        {"f": TWICE},
        unified("@@ -1,3 +1,3 @@", "-x", "+X", " y"),
        "in several places, at lines 1, 4",
    ),
    "numbers that contradict each other, and several places": (
        {"f": TWICE},
        unified("@@ -1,2 +4,2 @@", "-x", "+X", " y"),
        "in several places, at lines 1, 4",
    ),
    "the same lines in two hunks": (
        {"f": b"a\nb\n"},
        v4a("*** Update File: f", "@@", "-a", "+x", "@@", "-a", "+y"),
        "f: hunk 2 of 2: its lines are not in the file",
    ),
    "only new lines": (
        {"f": b"a\n"},
        v4a("*** Update File: f", "+x"),
        "it only adds lines: give at least one unchanged line around them",
    ),
    "only new lines, with a number": ({"f": b"a\n"}, unified("@@ -1,0 +2 @@", "+x"), "it only adds lines"),
    "indentation that differs within": (
        {"f": b"a\n  b\n"},
        v4a("*** Update File: f", "   a", "-  b", "+  c"),
        "its lines are not in the file",
    ),
    "no newline at the end, in the middle": (
        {"f": b"a\nb\nc\n"},
        unified("@@ -1,2 +1,2 @@", " a", "-b", "+x", "\\ No newline at end of file"),
        "it says that the file ends there without a newline, but the lines are not at the end of the file",
    ),
    "a line that belongs to nothing": (
        {"f": b"a\nb\n"},
        unified("@@ -1 +1 @@", "-a", "+x", "b", "+c"),
        "line 6 of the patch, b: it belongs to no hunk",
    ),
    "a line that belongs to nothing, counts that are off": (
        {"f": b"a\nb\n"},
        unified("@@ -1,7 +1,7 @@", "-a", "+x", "b", "+c"),
        "line 6 of the patch, b: a line of a hunk must begin with a blank, - or +",
    ),
    "a copy": ({"f": b"a"}, "diff --git a/f b/g\ncopy from f\ncopy to g\n", "copies are not possible"),
    "binary": (
        {"f": b"a"},
        "diff --git a/f b/f\nBinary files a/f and b/f differ\n",
        "binary files can't be patched",
    ),
    "a binary file": ({"f": b"a\0\n"}, v4a("*** Update File: f", "-a", "+x"), "f is a binary file"),
    "there already": ({"f": b"a\n"}, v4a("*** Add File: f", "+b"), "f exists already"),
    "moved onto a file": (
        {"f": b"a\n", "g": b"b\n"},
        v4a("*** Update File: f", "*** Move to: g"),
        "g exists already: nothing can be moved there",
    ),
    "missing": ({}, v4a("*** Update File: f", "-a", "+b"), "there is no f"),
    "missing, to be deleted": ({}, v4a("*** Delete File: f"), "there is no f"),
    "deleted with more lines": (
        {"f": b"a\nb\n"},
        "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
        "f has more lines than the patch removes",
    ),
    "a new file with context": (
        {},
        "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n a\n+b\n",
        "f is new: all its lines must",
    ),
    "twice": (
        {"f": b"a\nb\n"},
        v4a("*** Update File: f", "-a", "+x", "*** Update File: ./f", "-b", "+y"),
        "./f is in the patch twice",
    ),
    "names that differ only in case": (
        {"f": b"a\n", "F": b"b\n"},
        v4a("*** Update File: f", "-a", "+x", "*** Update File: F", "-b", "+y"),
        "F is in the patch twice, or under names that differ only in case",
    ),
    "moved onto itself": (
        {"f": b"a\n"},
        v4a("*** Update File: f", "*** Move to: ./f"),
        "f: the patch changes nothing in it",
    ),
    "moved onto one that is moved": (
        {"f": b"a\n", "g": b"b\n"},
        v4a("*** Update File: f", "*** Move to: g", "*** Update File: g", "*** Move to: h"),
        "g is in the patch twice",
    ),
    "moved onto one that is added": (
        {"f": b"a\n"},
        v4a("*** Update File: f", "*** Move to: g", "*** Add File: g", "+x"),
        "g is in the patch twice",
    ),
    "outside": ({}, v4a("*** Add File: ../f", "+x"), "../f is outside"),
    "the second does not fit": (
        {"f": b"a\n", "g": b"b\n"},
        v4a("*** Update File: f", "-a", "+x", "*** Add File: h", "+y", "*** Update File: g", "-zzz", "+y"),
        (
            "g: hunk 1 of 1: its lines are not in the file: zzz; read the file again and copy the lines exactly\n"
            "nothing was changed"
        ),
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("before", "text", "problem"), REFUSED.values(), ids=REFUSED)
async def test_refused(
    root: Path,
    read_all: Callable[[], Workspace],
    ctx: ToolContext,
    before: Tree,
    text: str,
    problem: str,
) -> None:
    put(root, before)
    patch = apply_patch_tool(read_all())
    with pytest.raises(ToolError) as caught:
        patch(patch=text, ctx=ctx)
    assert problem in str(caught.value)
    assert tree(root) == before
    assert patch.validate is not None
    assert isinstance(await patch.validate({"patch": text}, ctx), Refused)
    assert tree(root) == before


@pytest.mark.anyio
async def test_what_is_said_and_shown(
    root: Path, patch: FunctionTool[..., ToolResult], ctx: ToolContext
) -> None:
    before: Tree = {"f": b"a\nb\n", "g": b"x\n", "h": b"y\n"}
    put(root, before)
    text = v4a(
        *["*** Update File: f", "-b", "+c", "*** Delete File: g", "*** Add File: n", "+1"],
        *["*** Update File: h", "*** Move to: i", "-y", "+z"],
    )
    diff = (
        "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n--- n\n+++ n\n@@ -0,0 +1 @@\n+1\n"
        "--- h\n+++ h\n@@ -1 +1 @@\n-y\n+z"
    )
    assert patch.preview is not None
    files = ["M f", "D g", "A n", "R h -> i"]
    assert await patch.preview({"patch": text}, ctx) == {"text": diff, "files": files}
    assert tree(root) == before
    result = patch(patch=text, ctx=ctx)
    assert result.content == "\n".join(["patched 4 files:", *files, diff])
    assert result.details == {
        "files": [
            {"path": "f", "sha256": sha256(b"a\nc\n"), "partial": False},
            {"path": "g", "deleted": True},
            {"path": "n", "sha256": sha256(b"1\n"), "partial": False},
            {"path": "h", "deleted": True},
            {"path": "i", "sha256": sha256(b"z\n"), "partial": False},
        ],
        "diff": diff,
        "fuzz": 0,
    }
    assert patch.spec_for({"patch": text}).activity == "patching f, g, n and 1 more"
    assert (
        patch(patch=v4a("*** Update File: i", "*** Move to: j"), ctx=ctx).content
        == "patched 1 file:\nR i -> j"
    )


def test_files_must_have_been_read(root: Path, ctx: ToolContext) -> None:
    workspace = Workspace(root)
    patch = apply_patch_tool(workspace)
    put(root, {"f": b"a\n", "g": b"b\n"})
    workspace.saw("f", sha256(b"a\n"), partial=False, ctx=ctx)
    both = v4a("*** Update File: f", "-a", "+x", "*** Delete File: g")
    with pytest.raises(ToolError, match="g exists and you have not read it"):
        patch(patch=both, ctx=ctx)
    assert tree(root) == {"f": b"a\n", "g": b"b\n"}
    workspace.saw("g", sha256(b"b\n"), partial=False, ctx=ctx)
    patch(patch=both, ctx=ctx)
    assert tree(root) == {"f": b"x\n"}
    patch(patch=v4a("*** Update File: f", "-x", "+y"), ctx=ctx)  # its own changes are known
    assert tree(root) == {"f": b"y\n"}


MANY: Tree = {
    "a": BOM + b"a\r\n",
    "b": b"b\n",
    "c": b"c\n",
    "d": BOM + b"d\r\n\xff",
    "e": b"e\n",
}
ALL_OF_MANY = v4a(
    *[
        "*** Delete File: d",
        "*** Delete File: e",
        "*** Update File: a",
        "-a",
        "+A",
        "*** Add File: n/new",
        "+n",
    ],
    *["*** Update File: b", "*** Move to: m", "-b", "+B", "*** Update File: c", "*** Move to: k"],
)


def failing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Lets the change of that number fail, counted over writes, moves and deletions."""
    count = 0

    def fail(name: str) -> None:
        real = getattr(Change, name)

        def run(self: Change, *args: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                raise ToolError("the disk is full")
            return real(self, *args)

        monkeypatch.setattr(Change, name, run)

    for name in ("write", "move_to", "delete"):
        fail(name)


@pytest.mark.parametrize("number", range(1, 8))
def test_all_is_undone_if_one_fails(
    root: Path,
    patch: FunctionTool[..., ToolResult],
    ctx: ToolContext,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
) -> None:
    put(root, MANY)
    failing(monkeypatch, number)
    with pytest.raises(ToolError, match="could not be changed: the disk is full\nnothing was changed"):
        patch(patch=ALL_OF_MANY, ctx=ctx)
    assert tree(root) == MANY
    monkeypatch.undo()
    patch(patch=ALL_OF_MANY, ctx=ctx)
    assert tree(root) == {"a": BOM + b"A\r\n", "n/new": b"n\n", "m": b"B\n", "k": b"c\n"}


def test_a_link_is_deleted_wherever_it_leads(
    root: Path, patch: FunctionTool[..., ToolResult], ctx: ToolContext
) -> None:
    (root.parent / "outside").write_text("secret")
    put(root, {"f": b"a\n", "target": b"b\n"})
    for name, to in {"in": "target", "out": "../outside", "nowhere": "none"}.items():
        (root / name).symlink_to(to)
    deleted = [f"*** Delete File: {name}" for name in ("in", "out", "nowhere")]
    text = v4a("*** Update File: f", "-a", "+x", *deleted)
    result = patch(patch=text, ctx=ctx)
    assert str(result.content).split("\n")[:5] == ["patched 4 files:", "M f", "D in", "D out", "D nowhere"]
    gone = [{"path": name, "deleted": True} for name in ("in", "out", "nowhere")]
    assert result.details["files"][1:] == gone
    assert sorted(os.listdir(root)) == ["f", "target"]
    assert (root.parent / "outside").read_text() == "secret"


def test_a_deleted_link_is_put_back(
    root: Path, patch: FunctionTool[..., ToolResult], ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").symlink_to("../outside")
    (root / "b").symlink_to("none")
    real, count = os.unlink, itertools.count()

    def unlink(*args: Any, **named: Any) -> None:
        if next(count) == 1:
            raise PermissionError(13, "Permission denied")
        real(*args, **named)

    monkeypatch.setattr(os, "unlink", unlink)
    with pytest.raises(ToolError, match=r"b could not be changed: .*\nnothing was changed"):
        patch(patch=v4a("*** Delete File: a", "*** Delete File: b"), ctx=ctx)
    assert {name: os.readlink(root / name) for name in os.listdir(root)} == {"a": "../outside", "b": "none"}


def test_what_stands_is_told_where_it_cant_be_undone(
    root: Path, patch: FunctionTool[..., ToolResult], ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root, {"a": b"a\n", "b": b"b\n"})
    real = Change.write
    count = 0

    def write(self: Change, text: str) -> int:
        nonlocal count
        count += 1
        if count > 1:
            raise ToolError("the disk is full")
        return real(self, text)

    monkeypatch.setattr(Change, "write", write)
    with pytest.raises(ToolError) as caught:
        patch(patch=v4a("*** Update File: a", "-a", "+A", "*** Update File: b", "-b", "+B"), ctx=ctx)
    assert str(caught.value) == (
        "b could not be changed: the disk is full\na stays changed: the disk is full"
    )
    assert tree(root) == {"a": b"A\n", "b": b"b\n"}


def test_changed_by_somebody_else_in_between(
    root: Path, patch: FunctionTool[..., ToolResult], ctx: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second file changes after it was read: the first one is put back."""
    put(root, {"a": b"a\n", "b": b"b\n"})
    real = Change.write

    def write(self: Change, text: str) -> int:
        if text == "A\n":
            (root / "b").write_text("somebody's\n")
        return real(self, text)

    monkeypatch.setattr(Change, "write", write)
    with pytest.raises(ToolError, match="b was changed by somebody else"):
        patch(patch=v4a("*** Update File: a", "-a", "+A", "*** Update File: b", "-b", "+B"), ctx=ctx)
    assert tree(root) == {"a": b"a\n", "b": b"somebody's\n"}


def test_too_many_files() -> None:
    with pytest.raises(ToolError, match="changes 201 files, at most 200"):
        parse_patch(v4a(*(f"*** Delete File: {n}" for n in range(201))))


CLEAN = (
    *(
        "update",
        "new",
        "deleted",
        "git",
        "quoted names",
        "lines that look like headers",
        "the right one of the same",
    ),
    *("newline added at the end", "newline removed at the end", "CRLF, as diff writes it"),
)
COMMANDS = {"git": ["git", "apply", "--whitespace=nowarn"], "patch": ["patch", "-p1", "--binary", "-s"]}


@pytest.mark.parametrize("program", COMMANDS)
@pytest.mark.parametrize("name", CLEAN)
def test_as_other_programs(root: Path, program: str, name: str) -> None:
    """The table above says of clean diffs what ``git apply`` and ``patch`` do."""
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program} to compare with")
    if (program, name) == ("patch", "git"):
        pytest.skip("patch can't rename files or make empty ones without asking")
    before, text, after = UNIFIED[name]
    command = COMMANDS[program]
    put(root, before)
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    done = subprocess.run(
        command, cwd=root, input=text.encode(), capture_output=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert tree(root) == after
