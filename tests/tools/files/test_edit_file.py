"""``edit_file``: exact bytes before and after, what is said, shown before and refused, and edits at one time."""

import itertools
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from unspool.kernel.conformance_tool import check_tool
from unspool.kernel.errors import ToolError
from unspool.kernel.function_tool import FunctionTool
from unspool.kernel.ports import DecidesTraits, Refused, ToolContext, ToolResult
from unspool.tools.files.apply_patch import apply_patch_tool
from unspool.tools.files.edit_file import edit_file_tool
from unspool.tools.files.multi_edit import TextEdit, multi_edit_tool
from unspool.tools.files.read_file import read_file_tool
from unspool.tools.files.saving import sha256
from unspool.tools.files.workspace import Workspace

from .conftest import FakeContext

SHARED = Path(os.environ.get("UNSPOOL_SHARED") or Path(__file__).parents[4] / "shared")
BOM = b"\xef\xbb\xbf"
Edit = FunctionTool[..., ToolResult]


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root, read_before_write=False)


@pytest.fixture
def edit(workspace: Workspace) -> Edit:
    return edit_file_tool(workspace)


def said(result: ToolResult) -> str:
    assert isinstance(result.content, str)
    return result.content


BYTES: dict[str, tuple[bytes, dict[str, Any], bytes | str]] = {
    "LF": (b"a\nb\n", {"old_string": "b", "new_string": "c\nd"}, b"a\nc\nd\n"),
    "CRLF": (b"a\r\nb\r\nc\r\n", {"old_string": "b\nc", "new_string": "x\ny\nz"}, b"a\r\nx\r\ny\r\nz\r\n"),
    "mixed newlines": (b"a\r\nb\nc\rd\r\n", {"old_string": "b\n", "new_string": "B\n"}, b"a\r\nB\nc\rd\r\n"),
    "lone CR": (b"a\rb\nc\n", {"old_string": "c", "new_string": "d"}, b"a\rb\nd\n"),
    "BOM": (
        BOM + b"import os\nx\n",
        {"old_string": "import os", "new_string": "import sys"},
        BOM + b"import sys\nx\n",
    ),
    "BOM and CRLF": (BOM + b"a\r\nb\r\n", {"old_string": "a\nb", "new_string": "c\nd"}, BOM + b"c\r\nd\r\n"),
    "tabs": (b"\ta\n\t\tb\n", {"old_string": "\t\tb", "new_string": "\tb"}, b"\ta\n\tb\n"),
    "Unicode normalisation": (
        "cafe\u0301 = 1\ne\u0301\n".encode(),
        {"old_string": "café = 1", "new_string": "café = 2"},
        "café = 2\ne\u0301\n".encode(),
    ),
    "look-alikes elsewhere": (
        "s = “a”; t=‘old’  \n—\u00a0—\n".encode(),
        {"old_string": "t='old'", "new_string": "t='new'"},
        "s = “a”; t='new'  \n—\u00a0—\n".encode(),
    ),
    "not unique": (
        b"x\nx\n",
        {"old_string": "x", "new_string": "y"},
        "Found 2 occurrences of old_string, in lines 1, 2",
    ),
    "all of them": (b"x\r\nx\n", {"old_string": "x", "new_string": "y", "replace_all": True}, b"y\r\ny\n"),
    "overlapping": (b"aaa\n", {"old_string": "aa", "new_string": "b"}, "occurs several times, overlapping"),
    "empty old text": (b"x\n", {"old_string": "", "new_string": "y"}, "old_string is empty"),
    "empty old text, everywhere": (
        b"x\n",
        {"old_string": "", "new_string": "y", "replace_all": True},
        "old_string is empty",
    ),
    "empty file": (b"", {"old_string": "", "new_string": "y"}, "use write_file"),
    "the same": (b"aaa\n", {"old_string": "aaa", "new_string": "aaa"}, "nothing to change"),
    "last line without newline": (b"a\nb", {"old_string": "b", "new_string": "c"}, b"a\nc"),
    "last line without newline, old text with one": (
        b"a\nb",
        {"old_string": "b\n", "new_string": "c\n"},
        b"a\nc",
    ),
    "binary": (b"a\0b\n", {"old_string": "a", "new_string": "b"}, "is a binary file, not text"),
    "form feed and U+2028": (
        "a\fb\u2028c\nd\n".encode(),
        {"old_string": "d", "new_string": "e"},
        "a\fb\u2028c\ne\n".encode(),
    ),
    "bytes that are not UTF-8": (
        b"\xff\xe9\r\nx\n",
        {"old_string": "x", "new_string": "y"},
        b"\xff\xe9\r\ny\n",
    ),
    "U+FEFF in the middle": (
        "a\n\ufeffb\n".encode(),
        {"old_string": "a", "new_string": "c"},
        "c\n\ufeffb\n".encode(),
    ),
    "UTF-16": (
        "a\r\nb\r\n".encode("utf-16"),
        {"old_string": "b", "new_string": "c"},
        "a\r\nc\r\n".encode("utf-16"),
    ),
    "not found": (b"a\n", {"old_string": "zz", "new_string": "y"}, "old_string was not found"),
    "10 MB": (
        b"line\n" * 2_000_000 + b"end",
        {"old_string": "line\nend", "new_string": "last"},
        b"line\n" * 1_999_999 + b"last",
    ),
}


@pytest.mark.parametrize(
    ("before", "args", "after"), [pytest.param(*case, id=name) for name, case in BYTES.items()]
)
def test_bytes(
    root: Path, edit: Edit, ctx: ToolContext, before: bytes, args: dict[str, Any], after: bytes | str
) -> None:
    """Where ``after`` is a text it is in the error, and the file is as it was."""
    path = root / "f"
    path.write_bytes(before)
    if isinstance(after, bytes):
        edit(path="f", ctx=ctx, **args)
        assert path.read_bytes() == after
        return
    with pytest.raises(ToolError) as caught:
        edit(path="f", ctx=ctx, **args)
    assert after in str(caught.value)
    assert path.read_bytes() == before


def test_a_huge_file_is_not_read(root: Path, edit: Edit, ctx: ToolContext) -> None:
    with (root / "f").open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(ToolError, match="too large to be changed"):
        edit(path="f", old_string="a", new_string="b", ctx=ctx)


@pytest.mark.anyio
async def test_they_are_tools(tmp_path: Path) -> None:
    """They keep to the protocol, each on files of its own: a kit makes the same change several times."""
    count = itertools.count()

    def workspace() -> Workspace:
        root = tmp_path / str(next(count))
        root.mkdir()
        (root / "f").write_text("a\nb\n")
        return Workspace(root, read_before_write=False)

    one = {"old_string": "a", "new_string": "c"}
    await check_tool(
        lambda: edit_file_tool(workspace()),
        args=[{"path": "f", **one}, {"path": "f", **one, "replace_all": True}],
        bad_args=[{"path": "f"}, {"path": "f", "old_string": 1, "new_string": "b"}],
        failing_args=[{"path": "f", "old_string": "", "new_string": "b"}, {"path": "g", **one}],
    )
    await check_tool(
        lambda: multi_edit_tool(workspace()),
        args={"path": "f", "edits": [one]},
        bad_args=[{"path": "f", "edits": [{}]}, {"path": "f", "edits": "a"}],
        failing_args=[{"path": "f", "edits": []}, {"path": "f", "edits": [one, one]}],
    )
    await check_tool(
        lambda: apply_patch_tool(workspace()),
        args={"patch": "*** Begin Patch\n*** Update File: f\n-a\n+c\n*** End Patch"},
        bad_args=[{"patch": 1}],
        failing_args=[{"patch": ""}, {"patch": "*** Begin Patch\n*** Delete File: g\n*** End Patch"}],
    )


def test_what_is_said(root: Path, edit: Edit, ctx: ToolContext) -> None:
    (root / "f.py").write_bytes(b"a\nb\nc\n")
    result = edit(path="f.py", old_string="b", new_string="x", ctx=ctx)
    diff = "--- f.py\n+++ f.py\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c"
    assert said(result) == f"edited f.py: replaced 1 occurrence (line 2)\n{diff}"
    assert result.details == {
        "file": {"path": "f.py", "sha256": sha256(b"a\nx\nc\n"), "partial": False},
        "diff": diff,
        "first_changed_line": 2,
        "matcher": "exact",
        "replacements": 1,
    }


INEXACT = {
    "fuzzy": (
        "x = ‘a’\n",
        "x = 'a'",
        (
            "[not an exact match: old_string fits apart from blanks at line ends, or quotes, dashes, spaces and other "
            "characters that look alike. Replaced: x = ‘a’]"
        ),
    ),
    "escapes": (
        'say("a")\n',
        'say(\\"a\\")',
        (
            '[not an exact match: old_string fits apart from escapes such as \\n and \\", read as the characters they '
            'stand for, in new_string too. Replaced: say("a")]'
        ),
    ),
    "indentation": (
        "\ta\n\tb\n",
        "a\nb",
        (
            "[not an exact match: old_string fits apart from indentation; new_string was indented as the file is. "
            "Replaced: several lines: see the diff]"
        ),
    ),
    "block_anchor": (
        "{\n  one = two\n}\n",
        "{\n  one = too\n}",
        (
            "[not an exact match: old_string fits apart from some of the lines between its first and its last one, which "
            "fit. Replaced: several lines: see the diff]"
        ),
    ),
}


@pytest.mark.parametrize(
    ("matcher", "text", "old", "note"), [(matcher, *case) for matcher, case in INEXACT.items()], ids=INEXACT
)
def test_an_inexact_match_is_told(
    root: Path, edit: Edit, ctx: ToolContext, matcher: str, text: str, old: str, note: str
) -> None:
    (root / "f").write_text(text)
    result = edit(path="f", old_string=old, new_string="new", ctx=ctx)
    assert said(result).split("\n")[1] == note
    assert result.details["matcher"] == matcher


@pytest.mark.anyio
async def test_the_preview_writes_nothing(root: Path, edit: Edit, ctx: ToolContext) -> None:  # T127
    (root / "f").write_text("s = “a”; t=‘old’\n")
    before = (root / "f").stat()
    assert edit.preview is not None
    shown = await edit.preview({"path": "f", "old_string": "t='old'", "new_string": "t='new'"}, ctx)
    assert shown == {
        "text": "--- f\n+++ f\n@@ -1 +1 @@\n-s = “a”; t=‘old’\n+s = “a”; t='new'",
        "path": "f",
        "matcher": "fuzzy",
    }
    assert (root / "f").read_text() == "s = “a”; t=‘old’\n"
    assert (root / "f").stat().st_mtime_ns == before.st_mtime_ns


VALIDATED: dict[str, tuple[dict[str, Any], str | None]] = {
    "fine": ({"path": "f", "old_string": "a", "new_string": "b"}, None),
    "no file": ({"path": "g", "old_string": "a", "new_string": "b"}, "there is no g"),
    "not found": ({"path": "f", "old_string": "zz", "new_string": "b"}, "old_string was not found"),
    "twice": ({"path": "f", "old_string": "x", "new_string": "b"}, "Found 2 occurrences"),
    "everywhere": ({"path": "f", "old_string": "x", "new_string": "b", "replace_all": True}, None),
    "a directory": ({"path": ".", "old_string": "a", "new_string": "b"}, "directory"),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("args", "problem"), VALIDATED.values(), ids=VALIDATED)
async def test_validate(
    root: Path,
    read_all: Callable[[], Workspace],
    ctx: ToolContext,
    args: dict[str, Any],
    problem: str | None,
) -> None:
    (root / "f").write_text("a\nx\nx\n")
    edit = edit_file_tool(read_all())
    assert edit.validate is not None
    refused = await edit.validate(args, ctx)
    if problem is None:
        assert refused is None
    else:
        assert isinstance(refused, Refused)
        assert problem in refused.message
    assert (root / "f").read_text() == "a\nx\nx\n"


@pytest.mark.anyio
async def test_a_file_must_have_been_read(root: Path, ctx: ToolContext) -> None:
    workspace = Workspace(root)
    edit = edit_file_tool(workspace)
    (root / "f").write_text("one\n")
    args = {"path": "f", "old_string": "one", "new_string": "two"}
    assert edit.validate is not None
    assert (await edit.validate(args, ctx)) == Refused("f exists and you have not read it: read it first", 2)
    with pytest.raises(ToolError, match="not read it"):
        edit(ctx=ctx, **args)
    workspace.saw("f", sha256(b"one\n"), partial=False, ctx=ctx)
    edit(ctx=ctx, **args)
    edit(path="f", old_string="two", new_string="three", ctx=ctx)  # T462: its own edit is known
    (root / "f").write_text("three!\n")
    refused = await edit.validate({"path": "f", "old_string": "three", "new_string": "4"}, ctx)
    change = "@@ -1 +1 @@\n-three\n+three!"
    assert refused == Refused(f"f changed since you read it: read it again; the change:\n{change}", 3)
    with pytest.raises(ToolError, match="changed since"):
        edit(path="f", old_string="three", new_string="4", ctx=ctx)
    assert (root / "f").read_text() == "three!\n"


def test_a_cancelled_call_changes_nothing(root: Path, workspace: Workspace) -> None:
    (root / "f").write_text("a\n")
    ctx = FakeContext()
    ctx.cancelled = True
    calls: list[tuple[Edit, dict[str, Any]]] = [
        (edit_file_tool(workspace), {"old_string": "a", "new_string": "b", "path": "f"}),
        (multi_edit_tool(workspace), {"edits": [TextEdit("a", "b")], "path": "f"}),
        (
            apply_patch_tool(workspace),
            {"patch": "*** Begin Patch\n*** Update File: f\n-a\n+b\n*** End Patch"},
        ),
    ]
    for tool, args in calls:
        with pytest.raises(ToolError, match="cancelled: nothing was changed"):
            tool(ctx=cast(ToolContext, ctx), **args)
    assert (root / "f").read_text() == "a\n"


def test_the_traits(edit: Edit) -> None:
    spec = edit.spec
    assert (spec.read_only, spec.destructive, spec.concurrency_safe, spec.open_world) == (
        False,
        True,
        False,
        False,
    )
    assert isinstance(edit, DecidesTraits)
    assert edit.spec_for({"path": "a\nb"}).activity == 'editing "a\\nb"'


def test_edits_of_one_file_at_one_time(root: Path, workspace: Workspace, ctx: ToolContext) -> None:
    """Threads that begin together: every edit lands."""
    count = 8
    (root / "f").write_text("".join(f"line {n}\n" for n in range(count)))
    begin = threading.Barrier(count)
    errors: list[BaseException] = []

    def work(n: int) -> None:
        edit = edit_file_tool(workspace)
        begin.wait()
        try:
            for step in range(5):
                old = f"line {n}" if step == 0 else f"step {step - 1} of {n}"
                edit(
                    path="f" if n % 2 else "./f",
                    old_string=f"{old}\n",
                    new_string=f"step {step} of {n}\n",
                    ctx=ctx,
                )
        except BaseException as error:  # noqa: BLE001 (told by the test)
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert (root / "f").read_text() == "".join(f"step 4 of {n}\n" for n in range(count))


@pytest.mark.anyio
async def test_edits_of_one_file_in_tasks(root: Path, ctx: ToolContext) -> None:
    """Agents with workspaces of their own, in tasks: each edit lands or is refused, none is lost."""
    (root / "f").write_text("start\n")
    done: list[str] = []
    refused: list[str] = []

    async def work(name: str) -> None:
        edit = edit_file_tool(Workspace(root, read_before_write=False))
        for n in range(5):
            new = f"start\n{name} {n}"
            try:
                await edit.execute({"path": "f", "old_string": "start", "new_string": new}, ctx)
                done.append(f"{name} {n}")
            except ToolError as error:
                refused.append(str(error))

    async with anyio.create_task_group() as tasks:
        for name in ("a", "b"):
            tasks.start_soon(work, name)
    first, *lines = (root / "f").read_text().splitlines()
    assert first == "start"
    assert sorted(lines) == sorted(done)
    assert len(done) + len(refused) == 10


def test_agents_on_the_same_files(root: Path, agent: Callable[..., ToolContext]) -> None:
    """Eight agents, each with a line of its own in ten files that all of them change, some two at a time."""
    workspace = Workspace(root, read_before_write=False)
    edit, multi, patch = (make(workspace) for make in (edit_file_tool, multi_edit_tool, apply_patch_tool))
    agents, files, rounds = range(8), range(10), range(12)
    for file in files:
        (root / f"f{file}").write_text("".join(f"line {who} 0\n" for who in agents))
    read, wrong = read_file_tool(workspace), list[str]()

    def work(who: int) -> None:
        ctx, counts = agent(f"agent {who}"), dict.fromkeys(files, 0)

        def lines(file: int) -> tuple[str, str]:
            counts[file] += 1
            return f"line {who} {counts[file] - 1}\n", f"line {who} {counts[file]}\n"

        for round in rounds:
            for file in files:
                old, new = lines(file)
                match (round + file + who) % 3:
                    case 0:
                        edit(path=f"f{file}", old_string=old, new_string=new, ctx=ctx)
                    case 1:
                        there = [TextEdit(old, f"other {who}\n"), TextEdit(f"other {who}\n", new)]
                        multi(path=f"f{file}", edits=there, ctx=ctx)
                    case _:
                        parts = [f"*** Update File: f{file}\n-{old}+{new}"]
                        other = (file + 1 + who) % len(files)
                        if other != file:
                            old, new = lines(other)
                            parts.append(f"*** Update File: ./f{other}\n-{old}+{new}")
                        patch(patch=f"*** Begin Patch\n{''.join(parts)}*** End Patch", ctx=ctx)
                text = said(cast(ToolResult, read(path=f"f{file}", ctx=ctx)))
                if f"\tline {who} {counts[file]}\n" not in text or text.count("\tline ") != len(agents):
                    wrong.append(text)

    with ThreadPoolExecutor(len(agents)) as pool:
        for done in [pool.submit(work, who) for who in agents]:
            done.result(timeout=60)
    assert wrong == []
    assert sorted(os.listdir(root)) == [f"f{file}" for file in files]


def _cases() -> dict[str, dict[str, Any]]:
    file = SHARED / "bugcases" / "cases.jsonl"
    if not file.is_file():
        return {}
    cases = map(json.loads, file.read_bytes().strip().split(b"\n"))
    return {case["id"]: case for case in cases if case["area"] == "file-tools"}


CASES = _cases()
needs_cases = pytest.mark.skipif(not CASES, reason="the shared cases are not here (UNSPOOL_SHARED)")


@pytest.fixture
def run_case(root: Path, edit: Edit, ctx: ToolContext) -> Callable[[str], str]:
    """The text of a case's file after its edit."""

    def run(id: str) -> str:
        trigger = CASES[id]["trigger"]
        (root / "f").write_bytes(trigger["before"].encode())
        edit(path="f", old_string=trigger["edit"]["old"], new_string=trigger["edit"]["new"], ctx=ctx)
        return (root / "f").read_bytes().decode()

    return run


@needs_cases
def test_bug_case_bom(run_case: Callable[[str], str]) -> None:  # B192
    assert (
        run_case("B192").encode()
        == (SHARED / "bugcases" / CASES["B192"]["trigger"]["data_files"][1]).read_bytes()
    )


@needs_cases
def test_bug_case_other_bytes(run_case: Callable[[str], str]) -> None:  # B194
    before = CASES["B194"]["trigger"]["before"]
    after = run_case("B194")
    assert after == before.replace("n = “Al”", 'n = "Bo"')


@needs_cases
def test_bug_case_not_unique(root: Path, edit: Edit, ctx: ToolContext) -> None:  # B195
    trigger = CASES["B195"]["trigger"]
    results = []
    for each in trigger["edits"]:
        (root / "f").write_text(trigger["before"])
        try:
            all = each.get("replace_all", False)
            edit(path="f", old_string=each["old"], new_string=each["new"], replace_all=all, ctx=ctx)
            results.append((root / "f").read_text())
        except ToolError as error:
            assert (root / "f").read_text() == trigger["before"]
            results.append(str(error).partition(":")[0])
    assert results == [
        "Found 2 occurrences of old_string, in lines 1, 2",
        "x = 2\nx = 2\naaa\n",
        "old_string occurs several times, overlapping, from line 3",
        "old_string and new_string are the same",
    ]


@needs_cases
def test_bug_case_normalisation_forms(run_case: Callable[[str], str]) -> None:  # B196
    trigger = CASES["B196"]["trigger"]
    assert run_case("B196") == cast(str, trigger["edit"]["new"]) + trigger["before"][-1]
