"""``read_file``: ranges, cuts, encodings, and what a model is told."""

import io
import os
import tracemalloc
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from unspool.kernel.errors import LogError, ToolError
from unspool.kernel.ports import ToolContext, ToolResult
from unspool.tools import Root, file_tools
from unspool.tools.files.read_file import read_file_tool
from unspool.tools.files.text_range import TextRange
from unspool.tools.files.workspace import Workspace

Call = Callable[..., Awaitable[str]]
pytestmark = pytest.mark.anyio


def numbered(first: int, last: int) -> str:
    return "".join(f"{n}\tline {n}\n" for n in range(first, last + 1))


def lines(count: int) -> bytes:
    return "".join(f"line {n}\n" for n in range(1, count + 1)).encode()


GOES_ON = "\n[line 1 goes on: offset=1 limit=1 column=2001]"

CASES: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "small": (b"a\nb\n", {}, "1\ta\n2\tb\n[end of the file: 2 lines]"),
    "no newline at the end": (b"a\nb", {}, "1\ta\n2\tb\n[end of the file: 2 lines]"),
    "one line": (b"a", {}, "1\ta\n[end of the file: 1 line]"),
    "blank lines": (b"\n\n", {}, "1\t\n2\t\n[end of the file: 2 lines]"),
    "empty": (b"", {}, "[the file is empty: 0 lines]"),
    "2500 lines": (lines(2500), {}, numbered(1, 2000) + "[lines 1-2000 of 2500; next: offset=2001]"),
    "the rest of them": (
        lines(2500),
        {"offset": 2001},
        numbered(2001, 2500) + "[lines 2001-2500, end of the file: 2500 lines]",
    ),
    "offset": (lines(100), {"offset": 51}, numbered(51, 100) + "[lines 51-100, end of the file: 100 lines]"),
    "limit": (lines(100), {"limit": 10}, numbered(1, 10) + "[lines 1-10 of 100; next: offset=11]"),
    "both": (
        lines(100),
        {"offset": 41, "limit": 20},
        numbered(41, 60) + "[lines 41-60 of 100; next: offset=61]",
    ),
    "limit at the end": (lines(3), {"limit": 3}, numbered(1, 3) + "[end of the file: 3 lines]"),
    "limit before a last line without newline": (
        b"line 1\nline 2",
        {"limit": 1},
        numbered(1, 1) + "[lines 1-1 of 2; next: offset=2]",
    ),
    "zeros are defaults": (
        lines(2),
        {"offset": 0, "limit": 0},
        numbered(1, 2) + "[end of the file: 2 lines]",
    ),
    "limit above the most": (
        lines(2001),
        {"limit": 9999},
        numbered(1, 2000) + "[lines 1-2000 of 2001; next: offset=2001]",
    ),
    "past the end": (lines(3), {"offset": 100}, "error: offset 100 is past the end: the file has 3 lines"),
    "just past the end": (lines(3), {"offset": 4}, "error: offset 4 is past the end: the file has 3 lines"),
    "past an unfinished end": (
        b"a\nb",
        {"offset": 3},
        "error: offset 3 is past the end: the file has 2 lines",
    ),
    "past an empty file": (b"", {"offset": 2}, "error: offset 2 is past the end: the file has 0 lines"),
    "negative": (b"a", {"offset": -1}, "error: offset and column must not be negative: they start at 1"),
    "CRLF": (b"a\r\nb\r\n", {}, "1\ta\n2\tb\n[end of the file: 2 lines]"),
    "BOM": (b"\xef\xbb\xbfa\n", {}, "1\ta\n[end of the file: 1 line]"),
    "BOM, later lines": (b"\xef\xbb\xbfa\nb", {"offset": 2}, "2\tb\n[lines 2-2, end of the file: 2 lines]"),
    "UTF-8": ("é€😀\n".encode(), {}, "1\té€😀\n[end of the file: 1 line]"),
    "not UTF-8": (
        b"caf\xe9\n",
        {},
        (
            "1\tcaf\ufffd\n[end of the file: 1 line]\n"
            "[the file is not all UTF-8 text: bytes that are not are shown as \ufffd]"
        ),
    ),
    "U+FFFD in the file": ("\ufffd\n".encode(), {}, "1\t\ufffd\n[end of the file: 1 line]"),
    "long line": (
        b"x" * 2500 + b"\nnext\n",
        {},
        f"1\t{'x' * 2000}… (line cut: 500 bytes more)\n2\tnext\n[end of the file: 2 lines]{GOES_ON}",
    ),
    "very long line": (
        b"x" * 3_000_000 + b"\r\nnext",
        {},
        f"1\t{'x' * 2000}… (line cut: 2998000 bytes more)\n2\tnext\n[end of the file: 2 lines]{GOES_ON}",
    ),
    "a line of exactly the most": (b"x" * 2000, {}, f"1\t{'x' * 2000}\n[end of the file: 1 line]"),
    "the most, in four bytes each": (
        "😀".encode() * 2000 + b"\n",
        {},
        f"1\t{'😀' * 2000}\n[end of the file: 1 line]",
    ),
    "one more": (
        "😀".encode() * 2001,
        {},
        f"1\t{'😀' * 2000}… (line cut: 4 bytes more)\n[end of the file: 1 line]{GOES_ON}",
    ),
    "cut within a character": (
        b"x" + "€".encode() * 4000,
        {},
        f"1\tx{'€' * 1999}… (line cut: 6003 bytes more)\n[end of the file: 1 line]{GOES_ON}",
    ),
    "binary": (b"\x7fELF\0\0\0", {}, "error: f is a binary file, not text: ELF program or library, 7 B"),
    "control characters": (
        bytes(range(1, 32)) * 9,
        {},
        "error: f is a binary file, not text: unknown type, 279 B",
    ),
    "a NUL far from the start": (
        b"x" * 9000 + b"\0\n",
        {"column": 8999},
        (
            "1\txx\ufffd\n[end of the file: 1 line]\n"
            "[the file is not all UTF-8 text: bytes that are not are shown as \ufffd]"
        ),
    ),
    "binary behind a header of ASCII": (
        b"# header\n" * 133 + bytes(range(256)) * 8,
        {},
        "error: f is a binary file, not text: unknown type, 3.2 KB",
    ),
    "binary behind a text": (
        b"%header\n" * 1500 + bytes(range(256)) * 400,
        {},
        "error: f is a binary file, not text: unknown type, 111.7 KB",
    ),
    "column": (b"abcdef\n", {"column": 3}, "1\tcdef\n[end of the file: 1 line]"),
    "column of lines that are shorter": (
        b"abcdef\nx\n",
        {"column": 3},
        "1\tcdef\n2\t\n[end of the file: 2 lines]",
    ),
    "column past the end": (
        b"a\nb\n",
        {"offset": 2, "column": 3},
        "error: column 3 is past the end of line 2",
    ),
    "column past all ends": (b"a\nb\n", {"column": 3}, "error: column 3 is past the end of lines 1-2"),
    "column in characters": ("é€😀x\n".encode(), {"column": 3}, "1\t😀x\n[end of the file: 1 line]"),
    "long from a column on": (
        b"x" * 2000 + b"y" * 12_000,
        {"column": 2001, "limit": 1},
        (
            f"1\t{'y' * 10_000}… (line cut: 2000 bytes more)\n[end of the file: 1 line]\n"
            "[line 1 goes on: offset=1 limit=1 column=12001]"
        ),
    ),
    "a character in two chunks": (
        b"x" * ((1 << 20) - 1) + "é!".encode(),
        {"column": 1 << 20},
        "1\té!\n[end of the file: 1 line]",
    ),
    "escape sequences are text": (
        b"\x1b[1mbold\x1b[0m",
        {},
        "1\t\x1b[1mbold\x1b[0m\n[end of the file: 1 line]",
    ),
    "UTF-16": (
        b"\xff\xfe" + "é\r\nb\n".encode("utf-16-le"),
        {},
        "1\té\n2\tb\n[end of the file: 2 lines]\n[the file is UTF-16-LE, and stays so when it is changed]",
    ),
    "a line of UTF-32": (
        b"\0\0\xfe\xff" + "a\nb\nc".encode("utf-32-be"),
        {"offset": 2, "limit": 1},
        "2\tb\n[lines 2-2 of 3; next: offset=3]\n[the file is UTF-32-BE, and stays so when it is changed]",
    ),
    "begins like UTF-16": (b"\xff\xfea", {}, "error: f begins like UTF-16 text and is not valid"),
}


@pytest.mark.parametrize(("content", "args", "output"), CASES.values(), ids=CASES)
async def test_reading(root: Path, call: Call, content: bytes, args: dict[str, Any], output: str) -> None:
    (root / "f").write_bytes(content)
    assert await call("read_file", path="f", **args) == output


async def test_output_is_bounded_by_bytes(root: Path, call: Call) -> None:
    (root / "f").write_text("".join(f"{n:03} {'x' * 200}\n" for n in range(1, 501)))
    output = await call("read_file", path="f")
    *body, note = output.splitlines()
    assert note == f"[lines 1-{len(body)} of 500; next: offset={len(body) + 1}]"
    assert 50 * 1024 - 300 < len("\n".join(body)) <= 50 * 1024
    rest = await call("read_file", path="f", offset=len(body) + 1)
    assert rest.startswith(f"{len(body) + 1}\t{len(body) + 1:03} ")


async def test_other_paths(root: Path, call: Call) -> None:
    for name in ("README.md", "readme.txt", "main.py", "main_test.py", "x"):
        (root / name).write_text("")
    for path, near in (
        ("readme.rst", "; near it: README.md, readme.txt"),
        ("main.p", "; near it: main.py, main_test.py"),
        ("mian.py", "; near it: main.py, main_test.py"),
        (f"{root}/mian.py", "; near it: main.py, main_test.py"),
        ("qqqqqqq", ""),
        ("none/main.py", ""),
    ):
        assert await call("read_file", path=path) == f"error: there is no {path}{near}"


DIRECTORY: dict[str, tuple[dict[str, Any], str]] = {
    "whole": (
        {},
        "d/.env  1 B\nd/A.txt  1 B\nd/b.txt  1 B\nd/node_modules/\nd/sub/\n[end of the directory: 5 entries]",
    ),
    "a part": (
        {"offset": 2, "limit": 2},
        "d/A.txt  1 B\nd/b.txt  1 B\n[entries 2-3 of 5; next: offset=4]",
    ),
    "the rest": ({"offset": 5}, "d/sub/\n[end of the directory: 5 entries]"),
    "past the end": ({"offset": 6}, "error: offset 6 is past the end: the directory has 5 entries"),
    "empty": ({"path": "d/sub"}, "[the directory is empty]"),
}


@pytest.mark.parametrize(("args", "output"), DIRECTORY.values(), ids=DIRECTORY)
async def test_directories(root: Path, call: Call, args: dict[str, Any], output: str) -> None:
    (root / "d" / "sub").mkdir(parents=True)
    (root / "d" / "node_modules").mkdir()
    for name in ("b.txt", "A.txt", ".env"):
        (root / "d" / name).write_text("x")
    assert await call("read_file", **{"path": "d", **args}) == output


async def test_a_directory_is_bounded_by_bytes(root: Path, call: Call) -> None:
    for number in range(300):
        (root / f"{'n' * 240}{number:03}").write_text("")
    *body, note = (await call("read_file", path=".")).splitlines()
    assert 50 * 1024 <= len("\n".join(body)) + 1 < 50 * 1024 + 300
    assert note == f"[entries 1-{len(body)} of 300; next: offset={len(body) + 1}]"


# --- what hosts and writing tools are told -------------------------------------------------------


DETAILS: dict[str, tuple[bytes, dict[str, Any], bool, dict[str, Any] | None]] = {
    "whole": (lines(3), {}, False, None),
    "empty": (b"", {}, False, None),
    "whole by parameters": (lines(3), {"offset": 1, "limit": 3}, False, None),
    "from the middle": (lines(3), {"offset": 2}, True, None),
    "up to the middle": (lines(3), {"limit": 2}, True, None),
    "too many lines": (
        lines(2500),
        {},
        True,
        {"by": "lines", "shown_lines": 2000, "total_lines": 2500},
    ),
    "too many bytes": (
        (b"x" * 999 + b"\n") * 60,
        {},
        True,
        {"by": "bytes", "shown_lines": 51, "total_lines": 60},
    ),
    "a line too long": (
        b"x" * 2001,
        {},
        True,
        {"by": "columns", "shown_lines": 1, "total_lines": 1},
    ),
    "from a column on": (
        b"xyz",
        {"column": 2},
        True,
        {"by": "columns", "shown_lines": 1, "total_lines": 1},
    ),
}


@pytest.mark.parametrize(("content", "args", "partial", "truncated"), DETAILS.values(), ids=DETAILS)
async def test_details(
    root: Path,
    ctx: ToolContext,
    content: bytes,
    args: dict[str, Any],
    partial: bool,
    truncated: dict[str, Any] | None,
) -> None:
    (root / "f").write_bytes(content)
    result = await read_file_tool(Root(root)).execute({"path": "f", **args}, ctx)
    assert isinstance(result, ToolResult)
    file = {"path": "f", "sha256": sha256(content).hexdigest(), "partial": partial}
    assert result.details == {"file": file, **({"truncated": truncated} if truncated else {})}


STAMPS: dict[str, tuple[list[dict[str, Any]], str | None]] = {
    "whole": ([{}], None),
    "never": ([], "have not read it"),
    "a part": ([{"limit": 2}], "only a part"),
    "both parts": ([{"limit": 2}, {"offset": 3}], None),
    "parts with a gap": ([{"limit": 1}, {"offset": 3}], "only a part"),
    "from a column on": ([{"column": 3}], "only a part"),
}


@pytest.mark.parametrize(("readings", "objection"), STAMPS.values(), ids=STAMPS)
async def test_a_workspace_notes_what_was_read(
    root: Path, ctx: ToolContext, readings: list[dict[str, Any]], objection: str | None
) -> None:
    (root / "f").write_bytes(lines(3))
    workspace = Workspace(root)
    read_file = read_file_tool(workspace)
    for args in readings:
        result = await read_file.execute({"path": f"{root}/f", **args}, ctx)
        assert isinstance(result, ToolResult)
        assert result.details["file"]["path"] == "f"
    refused = workspace.check("f", ctx, must_exist=True)
    assert (refused is None) if objection is None else (refused is not None and objection in refused.message)


async def test_several_roots(tmp_path: Path, ctx: ToolContext) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f.txt").write_text(f"needle {name}\n")
    path = str(tmp_path / "two")
    tools = {tool.spec.name: tool for tool in file_tools(Workspace(tmp_path / "one", tmp_path / "two"))}
    for name, args, output in (
        ("read_file", {"path": "f.txt"}, "1\tneedle one\n[end of the file: 1 line]"),
        ("read_file", {"path": f"{path}/f.txt"}, "1\tneedle two\n[end of the file: 1 line]"),
        ("list_dir", {"path": path}, f"{path}/f.txt  11 B"),
        ("glob", {"pattern": "*.txt", "path": path}, f"{path}/f.txt"),
        ("grep", {"pattern": "needle", "path": path}, f"{path}/f.txt:1:needle two"),
    ):
        result = await tools[name].execute(args, ctx)
        assert (result.content if isinstance(result, ToolResult) else result) == output


# --- paths ---------------------------------------------------------------------------------------

ON_DISK = {
    "cafe\u0301.txt": "café.txt",
    "Bob\u2019s notes.txt": "Bob's notes.txt",
    "Shot at 9.41\u202fAM.txt": "Shot at 9.41 AM.txt",
    "d\u2019e\u0301te\u0301.txt": "d'été.txt",
    "a\u00a0b.txt": "a b.txt",
    "plain.txt": "@plain.txt",
}


@pytest.mark.parametrize(("name", "asked"), ON_DISK.items())
async def test_names_that_look_alike(root: Path, call: Call, name: str, asked: str) -> None:
    (root / name).write_text("found")
    assert (await call("read_file", path=asked)).startswith("1\tfound")
    assert (await call("read_file", path=f"{root}/{name}")).startswith("1\tfound")


async def test_home_is_not_looked_up(call: Call) -> None:
    for path in ("~", "~/x"):
        assert "is not expanded" in await call("read_file", path=path)


async def test_at_most_three_names_are_suggested(root: Path, call: Call) -> None:
    for number in range(9):
        (root / f"part{number}.txt").write_text("")
    output = await call("read_file", path="part")
    assert output == "error: there is no part; near it: part0.txt, part1.txt, part2.txt"


BLOB = "0123456789abcdef" * 4
NONE_STORED = "can't be opened, no texts are stored here: make the call again that gave it"
NO_NAME = "names no stored text: give blob: and all 64 hexadecimal digits, as the shortened text has them"
STORED: dict[str, tuple[dict[str, Any], bytes | None, str]] = {
    "whole": ({"path": f"blob:{BLOB}"}, lines(3), numbered(1, 3) + "[end of the file: 3 lines]"),
    "a part": (
        {"path": f"blob:{BLOB}", "offset": 2, "limit": 1},
        lines(3),
        numbered(2, 2) + "[lines 2-2 of 3; next: offset=3]",
    ),
    "no more lines than of a file": (
        {"path": f"blob:{BLOB}"},
        lines(2500),
        numbered(1, 2000) + "[lines 1-2000 of 2500; next: offset=2001]",
    ),
    "past its end": (
        {"path": f"blob:{BLOB}", "offset": 9},
        lines(3),
        "error: offset 9 is past the end: the file has 3 lines",
    ),
    "another one": (
        {"path": f"blob:{'f' * 64}"},
        lines(3),
        f"error: there is no stored text blob:{'f' * 64}: make the call again that gave it",
    ),
    "cut short": ({"path": "blob:0123"}, lines(3), f"error: blob:0123 {NO_NAME}"),
    "in capitals": ({"path": f"blob:{BLOB.upper()}"}, lines(3), f"error: blob:{BLOB.upper()} {NO_NAME}"),
    "a way out": ({"path": "blob:../../x"}, lines(3), f"error: blob:../../x {NO_NAME}"),
    "without a store": ({"path": f"blob:{BLOB}"}, None, f"error: blob:{BLOB} {NONE_STORED}"),
}


class Stored:
    """A store that holds one text."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def put(self, data: bytes, /) -> str:
        raise NotImplementedError

    def get(self, digest: str, /) -> bytes:
        if digest != BLOB:
            raise LogError("log: a blob is missing", blob=digest)
        return self.data


@pytest.mark.parametrize(("args", "data", "output"), STORED.values(), ids=STORED)
async def test_stored_texts(
    root: Path, ctx: ToolContext, args: dict[str, Any], data: bytes | None, output: str
) -> None:
    tool = read_file_tool(Root(root), None if data is None else Stored(data))
    try:
        assert await tool.execute(args, ctx) == output
    except ToolError as error:
        assert f"error: {error}" == output


def test_a_model_hears_of_stored_texts_where_there_are_some(root: Path) -> None:
    plain, storing = (tools[0].spec for tools in (file_tools(root), file_tools(root, blobs=Stored(b""))))
    assert "blob:" not in plain.description and "blob:" in storing.description
    assert plain.schema == storing.schema


class Endless(io.RawIOBase):
    """A file of 5 GB that was never written; counts what is read."""

    def __init__(self, line: bytes) -> None:
        self._line = line
        self.read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.read_bytes >= 5 << 30:
            return 0
        size = len(buffer)
        buffer[:] = (self._line * (size // len(self._line) + 1))[:size]
        self.read_bytes += size
        return size


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_huge_file_is_counted_only_in_part() -> None:
    raw = Endless(b"0123456789abcde\n")
    file: BinaryIO = io.BufferedReader(raw, 1 << 20)
    output = TextRange(file, lambda: False).render(1, 2).text
    assert output.startswith("1\t0123456789abcde\n2\t0123456789abcde\n[lines 1-2 of more than ")
    assert raw.read_bytes < 70 << 20


async def test_a_gigantic_line(root: Path, call: Call) -> None:
    (root / "f").write_bytes(b"x" * 5_000_000 + b"\nsecond\n")
    first = await call("read_file", path="f", limit=1)
    assert first == (
        f"1\t{'x' * 2000}… (line cut: 4998000 bytes more)\n[lines 1-1 of 2; next: offset=2]\n"
        "[line 1 goes on: offset=1 limit=1 column=2001]"
    )
    assert len(await call("read_file", path="f")) < 2300
    assert (await call("read_file", path="f", offset=2)).startswith("2\tsecond\n")
    last = await call("read_file", path="f", limit=1, column=4_999_999)
    assert last == "1\txx\n[lines 1-1 of 2; next: offset=2]"


async def test_a_sparse_file_is_not_read_whole(root: Path, call: Call) -> None:
    """Nor kept in memory: each of the looks at it is short."""
    for start, kind in ((b"", "unknown type"), (b"text\n" * 4000, "unknown type")):
        (root / "f").write_bytes(start)
        os.truncate(root / "f", 2 << 30)
        tracemalloc.start()
        output = await call("read_file", path="f")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert output == f"error: f is a binary file, not text: {kind}, 2.0 GB"
        assert peak < 4 << 20


async def test_special_files_are_refused_without_waiting(root: Path, call: Call) -> None:
    os.mkfifo(root / "fifo")
    (root / "zero").symlink_to("/dev/zero")
    assert await call("read_file", path="fifo") == (
        "error: fifo is a pipe, device or socket: only regular files can be opened"
    )
    assert "outside the root" in await call("read_file", path="zero")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelling(root: Path, ctx: ToolContext) -> None:
    (root / "f").write_bytes(lines(10))
    ctx.cancelled = True  # type: ignore[misc]
    for offset in (1, 5):
        with pytest.raises(Exception, match="cancelled"):
            await read_file_tool(Root(root)).execute({"path": "f", "offset": offset}, ctx)
