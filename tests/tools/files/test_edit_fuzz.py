"""Properties of edits and patches, for texts with every kind of newline and look-alike.

``UNSPOOL_FUZZ`` is how many examples each property is tried with, if not 150.
"""

import difflib
import os
import re
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from unspool.kernel.errors import ToolError
from unspool.tools.files.apply_patch import parse_patch
from unspool.tools.files.diffing import diff_texts
from unspool.tools.files.editing import edit_text
from unspool.tools.files.newlines import View, split_lines
from unspool.tools.files.patching import patch_text

EXAMPLES = int(os.environ.get("UNSPOOL_FUZZ", "150"))
SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much)
FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=SLOW)

LETTERS = "ab{ \t’\"'–-é\u0301\u00a0\u2028\f\udcffＡﬁ中"
NEWLINES = ["\n", "\r\n", "\r"]
words = st.text(LETTERS, max_size=6)
any_text = st.lists(st.tuples(words, st.sampled_from(["", *NEWLINES])), max_size=12).map(
    lambda lines: "".join(word + newline for word, newline in lines)
)
names = st.sampled_from(
    ["a", "b", "", " b", "c ", "x = 1", "\t}", "é", "-- d", "++ e", "@@ f", "\\ g", "h\r i"]
)


def uniform_texts(newline: str) -> st.SearchStrategy[str]:
    return st.lists(names, max_size=14).map(lambda lines: newline.join(lines))


@st.composite
def slices(draw: st.DrawFn) -> tuple[str, int, int]:
    text = draw(any_text)
    start = draw(st.integers(0, len(text)))
    return text, start, draw(st.integers(start, len(text)))


@FUZZ
@given(slices(), any_text, st.booleans())
@example(("a\r\nb\rc\n", 1, 4), "x\ny", False)
def test_nothing_outside_the_slice_changes(slice: tuple[str, int, int], new: str, replace_all: bool) -> None:
    text, start, end = slice
    assume(text[end - 1 : end + 1] != "\r\n")  # half a newline is something else
    start -= text[start - 1 : start + 1] == "\r\n"  # a \n in old text stands for all of it
    try:
        edited = edit_text(text, text[start:end], new, replace_all=replace_all)
    except ToolError:
        return
    if edited.matcher != "exact" or len(edited.lines) > 1:
        return
    assert edited.text.startswith(text[:start])
    assert edited.text.endswith(text[end:])
    assert len(edited.text) >= start + len(text) - end


@FUZZ
@given(slices(), st.sampled_from("\n\r"), st.booleans())
def test_edit_and_back(slice: tuple[str, int, int], newline: str, crlf: bool) -> None:
    text, start, end = slice
    if newline == "\n":  # one kind of newline; with a lone \r in lines, or nothing but those
        text = re.sub("\r*\n", "\r\n" if crlf else "\n", text)
    else:
        text = text.replace("\r\n", "\r").replace("\n", "\r")
    old = text[start:end]
    assume(old and View(text).shown.count(View(text).plain(old)) == 1)
    token = "<new>\nand more"
    try:
        there = edit_text(text, old, token)
    except ToolError as error:  # another place overlaps
        assert "overlapping" in str(error)
        return
    assert edit_text(there.text, token, old).text == text


@FUZZ
@given(any_text, any_text, any_text)
def test_inexact_edits_touch_only_their_lines(above: str, below: str, middle: str) -> None:
    """Lines with a mark that old text can't fit stay as they are, whatever the matcher."""
    shouldered = f"{above}<top>\n{middle}\n<end>{below}"
    old = middle.replace("’", "'").replace("–", "-").replace("\u00a0", " ").replace("é", "e\u0301")
    try:
        edited = edit_text(shouldered, f"<top>\n{old}\n<end>", "<top>\nnew\n<end>")
    except ToolError:
        return
    assert edited.text.startswith(f"{above}<top>")
    assert edited.text.endswith(f"<end>{below}")


def test_the_marks_are_found() -> None:
    """The property above is not empty."""
    assert edit_text("x<top>\na’b \n<end>y", "<top>\na'b\n<end>", "<top>\nnew\n<end>").matcher == "fuzzy"


def unified(before: str, after: str, context: int = 3) -> str:
    """A diff as ``diff -u`` makes it."""
    lines = difflib.unified_diff(split_lines(before), split_lines(after), "a/f", "b/f", n=context)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def v4a(before: str, after: str, context: int) -> str:
    """A patch in V4A form, made of a unified diff: hunks without numbers."""
    body = [line for line in unified(before, after, context).split("\n")[2:-1] if line[:1] != "\\"]
    lines = ["@@" if line.startswith("@@ -") else line for line in body]
    return "\n".join(["*** Begin Patch", "*** Update File: f", *lines, "*** End Patch"])


@FUZZ
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@given(data=st.data(), context=st.integers(1, 4))
def test_a_unified_diff_gives_the_new_text(newline: str, data: st.DataObject, context: int) -> None:
    before, after = data.draw(uniform_texts(newline)), data.draw(uniform_texts(newline))
    assume(before != after)
    [patch] = parse_patch(unified(before, after, context))
    done = patch_text(before, patch.hunks)
    assert (done.text, done.fuzz) == (after, 0)


@FUZZ
@given(data=st.data(), shift=st.integers(-5, 5), more=st.integers(-2, 2))
def test_wrong_numbers_never_lead_to_a_wrong_place(data: st.DataObject, shift: int, more: int) -> None:
    """With numbers that are off, a diff of lines that are all different gives the new text or an error."""
    numbers = data.draw(st.lists(st.integers(0, 30), min_size=3, max_size=20, unique=True))
    before = "".join(f"line {n}\n" for n in numbers)
    after = "".join(f"line {n}\n" for n in data.draw(st.permutations(numbers))[:-1])
    wrong = []
    for line in unified(before, after).split("\n"):
        if line.startswith("@@"):
            old, new = (part.partition(",") for part in line.split()[1:3])
            first = max(int(old[0][1:]) + shift, 1)
            line = (
                f"@@ -{first},{max(int(old[2] or 1) + more, 0)} +{first},{max(int(new[2] or 1) + more, 0)} @@"
            )
        wrong.append(line)
    [patch] = parse_patch("\n".join(wrong))
    assert patch_text(before, patch.hunks).text == after


@FUZZ
@given(data=st.data())
def test_the_diff_that_is_shown_is_a_patch(data: st.DataObject) -> None:
    lines = st.lists(names.filter(lambda line: "\r" not in line), max_size=40).map("\n".join)
    before, after = data.draw(lines), data.draw(lines)
    assume(before != after)
    [patch] = parse_patch(diff_texts(before, after, "f").text)
    assert patch_text(before, patch.hunks).text == after


@FUZZ
@given(data=st.data(), newline=st.sampled_from(["\n", "\r\n"]), context=st.integers(1, 20))
def test_a_v4a_patch_gives_the_new_text(data: st.DataObject, newline: str, context: int) -> None:
    """The new text, or an error where the context is not enough to tell places apart.

    The form says nothing of newlines: those of the file are taken, and its end stays as it is.
    """
    names_but_headers = names.filter(lambda line: not line.startswith("@@"))
    lines = st.lists(names_but_headers, max_size=14).map("\n".join)
    before, after = data.draw(lines), data.draw(lines)
    assume("\n" in before and before != after and before.endswith("\n") == after.endswith("\n"))
    [patch] = parse_patch(v4a(before, after, context))
    try:
        done = patch_text(before.replace("\n", newline), patch.hunks)
    except ToolError as error:
        assert context < 20
        assert "several places" in str(error) or "only adds lines" in str(error)
        return
    assert (done.text, done.fuzz) == (after.replace("\n", newline), 0)


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git to compare with")
@settings(FUZZ, max_examples=min(EXAMPLES, 1000) // 5)
@given(texts=st.tuples(any_text, any_text))
def test_git_apply_gives_the_same(tmp_path_factory: pytest.TempPathFactory, texts: tuple[str, str]) -> None:
    """Clean diffs of texts with mixed newlines, lone \\r and bytes that are not UTF-8."""
    before, after = texts
    assume(before and after and before != after)
    diff = unified(before, after)
    directory = tmp_path_factory.mktemp("git")
    (directory / "f").write_bytes(before.encode("utf-8", "surrogateescape"))
    command = ["git", "apply", "--unsafe-paths", "--whitespace=nowarn", "-"]
    data = diff.encode("utf-8", "surrogateescape")
    done = subprocess.run(command, cwd=directory, input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    [patch] = parse_patch(diff)
    ours = patch_text(before, patch.hunks).text.encode("utf-8", "surrogateescape")
    assert ours == (directory / "f").read_bytes()
