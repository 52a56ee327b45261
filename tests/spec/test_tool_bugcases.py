"""Faults of file and shell tools that were reported against other libraries: what comes of each in a run of an agent.

Inputs are those of the shared cases; where a case is told in words, each of its words has an entry in a table here.
"""

import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.tools.shell.conftest import Processes

from unspool.kernel import Agent, Message, Tool, ToolExecEnd
from unspool.llm.scripted import ScriptedModel, call
from unspool.tools.files import file_tools
from unspool.tools.files.apply_patch import apply_patch_tool
from unspool.tools.files.edit_file import edit_file_tool
from unspool.tools.files.multi_edit import multi_edit_tool
from unspool.tools.files.workspace import Workspace
from unspool.tools.files.write_file import write_file_tool
from unspool.tools.shell import bash_tool
from unspool.trajectory import MemoryLog

_CASES_DIR = Path(os.environ.get("UNSPOOL_SHARED") or Path(__file__).parents[3] / "shared") / "bugcases"
_FILE = _CASES_DIR / "cases.jsonl"
_CASES: dict[str, dict[str, Any]] = {}
if _FILE.is_file():  # split on bytes: some lines hold U+2028
    _CASES = {case["id"]: case for case in map(json.loads, _FILE.read_bytes().strip().split(b"\n"))}
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not _CASES, reason="the shared cases are not here (UNSPOOL_SHARED)"),
]
BOM = b"\xef\xbb\xbf"


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "ws"
    path.mkdir()
    return path


class Coder:
    """An agent whose model makes the calls that a test says. The log goes on from one run to the next."""

    def __init__(self, tools: list[Tool], name: str = "coder") -> None:
        self.log = MemoryLog(session="s")
        self._model = ScriptedModel()
        self._agent = Agent(self._model, tools=tools, log=self.log, name=name)
        self._count = 0

    async def __call__(self, name: str, /, **args: Any) -> str:
        """What the model is told of one call; errors with ``error: `` before them."""
        [told] = await self.batch((name, args))
        return told

    async def batch(self, *calls: tuple[str, dict[str, Any]]) -> list[str]:
        """The same of several calls in one reply."""
        ids = [f"c{self._count + number}" for number in range(len(calls))]
        self._count += len(calls)
        self._model.add([call(id, name, **args) for id, (name, args) in zip(ids, calls, strict=True)], "done")
        result = await self._agent.run("go")
        texts = {
            m.tool_call_id: m.text for m in result.messages if isinstance(m, Message) and m.role == "tool"
        }
        return [texts[id] if self.end(id).outcome == "ok" else f"error: {texts[id]}" for id in ids]

    def end(self, id: str = "") -> ToolExecEnd:
        """How a call ended, the last one if none is given."""
        ends = [fact for fact in self.log.facts if isinstance(fact, ToolExecEnd) and id in ("", fact.call_id)]
        return ends[-1]


def coder_in(root: Path, *, name: str = "coder", workspace: Workspace | None = None) -> Coder:
    """One with all tools for files."""
    workspace = workspace or Workspace(root)
    makers = (write_file_tool, edit_file_tool, multi_edit_tool, apply_patch_tool)
    return Coder([*file_tools(workspace), *(make(workspace) for make in makers)], name)


def trigger_of(id: str) -> dict[str, Any]:
    trigger: dict[str, Any] = _CASES[id]["trigger"]
    return trigger


async def edited(root: Path, edit: dict[str, Any], before: bytes) -> tuple[str, bytes]:
    """A file read and edited: what is told of the edit, and the bytes after it."""
    (root / "f").write_bytes(before)
    coder = coder_in(root)
    await coder("read_file", path="f")
    everywhere = edit.get("replace_all", False)
    told = await coder(
        "edit_file", path="f", old_string=edit["old"], new_string=edit["new"], replace_all=everywhere
    )
    return told, (root / "f").read_bytes()


# --- files -------------------------------------------------------------------------------------


async def test_a_byte_order_mark(root: Path) -> None:  # B192
    trigger = trigger_of("B192")
    before, after, wide = ((_CASES_DIR / name).read_bytes() for name in trigger["data_files"])
    assert before == trigger["before"].encode()
    assert (await edited(root, trigger["edit"], before))[1] == after
    coder = coder_in(root)
    assert (await coder("read_file", path="f")).startswith("1\timport sys")
    told = await coder("write_file", path="f", content="all new\n")
    assert told.split("\n")[1:] == ["[its byte order mark was kept (UTF-8)]"]
    assert (root / "f").read_bytes() == BOM + b"all new\n"
    await coder("write_file", path="new", content="text\n")
    assert (root / "new").read_bytes() == b"text\n"
    (root / "wide").write_bytes(wide)
    assert (await coder("read_file", path="wide")).startswith("1\thi\n")  # not refused: it keeps its encoding
    await coder("edit_file", path="wide", old_string="there is no such text", new_string="x")
    assert (root / "wide").read_bytes() == wide
    await coder("edit_file", path="wide", old_string="hi", new_string="hé")
    assert (root / "wide").read_bytes() == wide[:2] + "hé\n".encode("utf-16-le")
    middle = "a\ufeffb\nc\n"
    assert (await edited(root, {"old": "c", "new": "d"}, middle.encode()))[1] == "a\ufeffb\nd\n".encode()


async def test_an_inexact_match_changes_no_other_byte(root: Path) -> None:  # B194
    trigger = trigger_of("B194")
    told, after = await edited(root, trigger["edit"], trigger["before"].encode())
    assert "[not an exact match: " in told
    assert after.decode() == trigger["before"].replace("n = “Al”", trigger["edit"]["new"])


WANTED = {  # how the case says it: what is told, and how often the new text is there then
    "error: 2 occurrences, lines 1 and 2; file unchanged": (
        "error: Found 2 occurrences of old_string, in lines 1, 2",
        0,
    ),
    "2 replaced": ("edited f: replaced 2 occurrences", 2),
    "error or documented non-overlapping count": ("error: old_string occurs several times, overlapping", 0),
    "error: no change": ("error: old_string and new_string are the same", 1),
}


async def test_a_text_that_is_there_twice(root: Path) -> None:  # B195
    trigger = trigger_of("B195")
    for edit in trigger["edits"]:
        start, count = WANTED[edit.get("want", "2 replaced")]
        told, after = await edited(root, edit, trigger["before"].encode())
        assert told.startswith(start)
        assert after.decode().count(edit["new"]) == count
        if told.startswith("error"):
            assert after.decode() == trigger["before"]


async def test_normalisation_forms(root: Path) -> None:  # B196
    trigger = trigger_of("B196")
    told, after = await edited(root, trigger["edit"], trigger["before"].encode())
    assert "[not an exact match: " in told
    assert after.decode() == trigger["edit"]["new"] + "\n"
    (root / "f").unlink()
    on_disk, asked = trigger["filename_on_disk"], trigger["requested"]
    assert on_disk != asked
    (root / on_disk).write_text("old")
    coder = coder_in(root)
    assert (await coder("write_file", path=asked, content="new")).startswith("error: ")
    assert (await coder("read_file", path=asked)).startswith("1\told")
    await coder("write_file", path=asked, content="new")
    assert {name: (root / name).read_text() for name in os.listdir(root)} == {on_disk: "new"}


async def test_the_border_of_a_workspace(tmp_path: Path, root: Path) -> None:  # B198
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "s").write_text("SECRET pattern")
    (root / "real").mkdir()
    for name in ("real/file", "a"):
        (root / name).write_text("inside pattern")
    links = {"esc": outside, "leaf.txt": outside / "s", "dangling": outside / "new", "in": root / "real"}
    for name, target in links.items():
        (root / name).symlink_to(target)
    (tmp_path / "lnk").symlink_to(root)
    coder = coder_in(tmp_path / "lnk")

    async def read(path: str) -> str:
        return await coder("read_file", path=path.replace("/lnk", str(tmp_path / "lnk")))

    async def write(path: str) -> str:
        return await coder("write_file", path=path, content="x")

    async def list_(path: str) -> str:
        return await coder("list_dir", path=path)

    async def grep(rest: str) -> str:
        return await coder("grep", pattern=rest.partition(" ")[0])

    async def delete(rest: str) -> str:
        path = rest.partition(" ")[0]
        return await coder("apply_patch", patch=f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch")

    do: dict[str, Callable[[str], Awaitable[str]]] = {
        "read": read, "write": write, "list": list_, "grep": grep, "delete": delete
    }  # fmt: skip
    told = {}
    for each in trigger_of("B198")["calls"]:
        verb, _, rest = each.partition(" ")
        told[each] = await do[verb](rest)
    refused = {each for each, text in told.items() if text.startswith("error: ")}
    assert refused == {
        *("read esc/s", "read leaf.txt", "write dangling", "write esc/new/deep.txt", "list esc"),
    }
    assert not any("SECRET" in text for text in told.values())
    assert told["grep pattern in ws"] == "a:1:inside pattern\nreal/file:1:inside pattern"
    assert told["read in/file"] == told["read /lnk/real/file"]
    assert not (root / "leaf.txt").is_symlink()
    assert os.listdir(outside) == ["s"]


def ascii_then_binary(path: Path) -> None:
    path.write_bytes(b"plain text\n" * 109 + b"x" + bytes(range(256)) * 20)


def picture(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\2\0\0\0" + b"\0" * 30)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 << 30)


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {  # how it is made, and how what is told begins
    "first 1200 bytes ASCII then binary": (
        ascii_then_binary,
        "error: f is a binary file, not text: unknown type, 6.2 KB",
    ),
    "PNG renamed .txt": (picture, "[image image/png, 1x1 pixels, 59 B]"),
    "latin-1 text with 0xE9": (lambda path: path.write_bytes(b"caf\xe9\n"), "1\tcaf\ufffd\n"),
    "UTF-8 with one bad byte": (
        lambda path: path.write_bytes("é\n".encode() + b"\xff\n"),
        "1\té\n2\t\ufffd\n",
    ),
    "empty file": (lambda path: path.write_bytes(b""), "[the file is empty: 0 lines]"),
    "2 GiB sparse file": (sparse, "error: f is a binary file, not text: unknown type, 2.0 GB"),
    "FIFO": (os.mkfifo, "error: f is a pipe, device or socket"),
    "/dev/zero link": (lambda path: path.symlink_to("/dev/zero"), "error: f is outside the root directory"),
}


async def test_what_is_not_text(root: Path) -> None:  # B200
    coder = coder_in(root)
    for kind in trigger_of("B200")["files"]:
        make, start = KINDS[kind]
        make(root / "f")
        began = time.monotonic()
        assert (await coder("read_file", path="f")).startswith(start), kind
        assert time.monotonic() - began < 2
        (root / "f").unlink()


async def test_a_gigantic_line(root: Path) -> None:  # B201
    (root / "f").write_text("x" * 5_000_000 + "\nsecond\n")
    coder = coder_in(root)
    told = await coder("read_file", path="f")
    assert len(told) < 3000
    assert "[line 1 goes on: offset=1 limit=1 column=2001]" in told
    assert (await coder("read_file", path="f", offset=1, limit=1, column=2001)).startswith("1\txxx")
    assert (await coder("read_file", path="f", offset=2)).startswith("2\tsecond\n")


async def test_a_file_that_changed_since_it_was_read(root: Path) -> None:  # B202
    workspace, (a, b, c, d) = Workspace(root), (root / name for name in "abcd")
    for file in (a, b, c, d):
        file.write_text("old\n")
    a.chmod(0o640)
    coder = coder_in(root, workspace=workspace)

    async def read(name: str, by: Coder = coder) -> str:
        return await by("read_file", path=name)

    async def write(name: str, text: str, by: Coder = coder) -> str:
        return await by("write_file", path=name, content=text)

    await read("a")
    a.write_text("by the user\n")
    refused = await write("a", "1")
    assert (
        refused.startswith("error: a changed since you read it: read it again") and "+by the user" in refused
    )
    assert await read("a") == "1\tby the user\n[end of the file: 1 line]"
    assert await write("a", "1") == await write("a", "2") == "overwrote a: 1 byte"
    os.utime(a, (1, 1))
    assert await write("a", "3") == "overwrote a: 1 byte"
    a.write_text("4")
    os.utime(a, (1, 1))
    assert (await write("a", "5")).startswith("error: a changed since")
    assert a.stat().st_mode & 0o777 == 0o640
    assert (await write("b", "1")).startswith("error: b exists and you have not read it")
    batch = await coder.batch(("read_file", {"path": "c"}), ("write_file", {"path": "c", "content": "new"}))
    assert batch[1] == "overwrote c: 3 bytes"
    first, second = (coder_in(root, name=name, workspace=workspace) for name in ("first", "second"))
    await read("d", first)
    await read("d", second)
    assert await write("d", "second's", second) == "overwrote d: 8 bytes"
    assert (await write("d", "first's", first)).startswith("error: d changed since")
    later = Workspace(root)  # in a process that takes the session up
    later.restore(coder.log.facts)
    again = coder_in(root, workspace=later)
    assert await write("c", "newer", again) == "overwrote c: 5 bytes"
    assert (await write("b", "1", again)).startswith("error: b exists and you have not read it")
    assert sorted(os.listdir(root)) == ["a", "b", "c", "d"]


# --- commands ----------------------------------------------------------------------------------


@pytest.fixture
def processes() -> Processes:
    return Processes()


@pytest.fixture
def shell(root: Path, processes: Processes) -> Coder:
    if not Path("/proc/self/environ").exists():
        pytest.skip("needs /proc")
    return Coder([bash_tool(root, env=processes.env)])


async def test_a_background_process_keeps_the_pipe_open(shell: Coder, processes: Processes) -> None:  # B203
    trigger = trigger_of("B203")
    for command, start in zip(trigger["commands"], ("done", "", "x"), strict=True):
        began = time.monotonic()
        told = await shell("bash", command=command, timeout=trigger["timeout_s"])
        assert time.monotonic() - began < 2
        assert told.startswith(start) and shell.end().details["exit_code"] == 0
        assert processes.alive() == []


async def test_the_end_of_a_command_ends_all_it_started(
    root: Path, shell: Coder, processes: Processes
) -> None:  # B206
    for command in trigger_of("B206")["commands"]:
        told = await shell("bash", command=command, timeout=1)
        assert told.split("\n")[0] in ("up", "ready") and "timed out" in told
        assert processes.alive() == []
        with anyio.move_on_after(0.3) as scope:
            await Coder([bash_tool(root, env=processes.env)])("bash", command=command)
        assert scope.cancelled_caught and processes.alive() == []


async def test_a_cancel_at_any_moment(root: Path, processes: Processes) -> None:  # B207
    command = trigger_of("B207")["do"].partition("command: ")[2]
    assert command

    async def cancelled_after(seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await Coder([bash_tool(root, env=processes.env)])("bash", command=command)

    async with anyio.create_task_group() as group:
        for number in range(25):
            group.start_soon(cancelled_after, number * 0.01)
    assert processes.alive() == []


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


async def test_large_output(shell: Coder, processes: Processes) -> None:  # B208
    before = resident()
    endings = []
    for command in trigger_of("B208")["commands"]:
        told = await shell("bash", command=command, timeout=2)
        assert len(told) < 65_000
        endings.append(shell.end().details["exit_code"] == 0)
        assert endings[-1] or "timed out" in told
        if command.endswith("echo end"):
            assert endings == [True] and "xend\n" in told
    assert not endings[2]  # ``yes`` alone never ends
    assert resident() - before < 50 << 20
    assert processes.alive() == []


async def test_output_that_is_not_text(shell: Coder) -> None:  # B209
    told = [await shell("bash", command=command) for command in trigger_of("B209")["commands"]]
    assert all(fact.details["exit_code"] == 0 for fact in shell.log.facts if isinstance(fact, ToolExecEnd))
    assert told[0] == "ok \ufffd\ufffd end"
    assert told[1].startswith("a") and told[1].endswith("b")
    assert "99%" in told[2] and "\x1b" not in told[2]
    assert told[3].endswith("\ufffd")
    assert not any("\0" in text for text in told)


async def test_no_output(shell: Coder) -> None:  # B211
    told = [await shell("bash", command=command) for command in trigger_of("B211")["commands"]]
    assert told == [f"[no output, exit code {code}]" for code in (0, 1, 1)]
