"""``read_file``: ranges, cuts, encodings, and what a model is told."""

import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from unspool.kernel.errors import LogError, ToolError
from unspool.kernel.ports import ToolContext
from unspool.tools import Root, file_tools
from unspool.tools.files.read_file import _Range, read_file_tool

Call = Callable[..., Awaitable[str]]
pytestmark = pytest.mark.anyio


def numbered(first: int, last: int) -> str:
    return "".join(f"{n}\tline {n}\n" for n in range(first, last + 1))


def lines(count: int) -> bytes:
    return "".join(f"line {n}\n" for n in range(1, count + 1)).encode()


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
    "negative": (b"a", {"offset": -1}, "error: offset must not be negative: line numbers start at 1"),
    "CRLF": (b"a\r\nb\r\n", {}, "1\ta\n2\tb\n[end of the file: 2 lines]"),
    "BOM": (b"\xef\xbb\xbfa\n", {}, "1\ta\n[end of the file: 1 line]"),
    "BOM, later lines": (b"\xef\xbb\xbfa\nb", {"offset": 2}, "2\tb\n[lines 2-2, end of the file: 2 lines]"),
    "UTF-8": ("é€😀\n".encode(), {}, "1\té€😀\n[end of the file: 1 line]"),
    "not UTF-8": (
        b"caf\xe9\n",
        {},
        (
            "1\tcaf\ufffd\n[end of the file: 1 line]\n"
            "[the file is not all UTF-8: bytes that are not are shown as \ufffd]"
        ),
    ),
    "U+FFFD in the file": ("\ufffd\n".encode(), {}, "1\t\ufffd\n[end of the file: 1 line]"),
    "long line": (
        b"x" * 2500 + b"\nnext\n",
        {},
        f"1\t{'x' * 2000}… (line cut: 500 bytes more)\n2\tnext\n[end of the file: 2 lines]",
    ),
    "very long line": (
        b"x" * 3_000_000 + b"\r\nnext",
        {},
        f"1\t{'x' * 2000}… (line cut: 2998000 bytes more)\n2\tnext\n[end of the file: 2 lines]",
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
        f"1\t{'😀' * 2000}… (line cut: 4 bytes more)\n[end of the file: 1 line]",
    ),
    "cut within a character": (
        b"x" + "€".encode() * 4000,
        {},
        f"1\tx{'€' * 1999}… (line cut: 6003 bytes more)\n[end of the file: 1 line]",
    ),
    "binary": (b"\x7fELF\0\0\0", {}, "error: f is a binary file, not text"),
    "control characters": (bytes(range(1, 32)) * 9, {}, "error: f is a binary file, not text"),
    "escape sequences are text": (
        b"\x1b[1mbold\x1b[0m",
        {},
        "1\t\x1b[1mbold\x1b[0m\n[end of the file: 1 line]",
    ),
    "UTF-16": ("text".encode("utf-16"), {}, "error: f is UTF-16 text: only UTF-8 can be read"),
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
    (root / "dir").mkdir()
    for name in ("README.md", "readme.txt", "main.py", "main_test.py", "x"):
        (root / name).write_text("")
    assert await call("read_file", path="dir") == "error: dir is a directory: use list_dir"
    for path, near in (
        ("readme.rst", "; near it: README.md, readme.txt"),
        ("main.p", "; near it: main.py, main_test.py"),
        ("mian.py", "; near it: main.py, main_test.py"),
        (f"{root}/mian.py", "; near it: main.py, main_test.py"),
        ("qqqqqqq", ""),
        ("none/main.py", ""),
    ):
        assert await call("read_file", path=path) == f"error: there is no {path}{near}"
    assert await call("read_file", path="") == 'error: "" is a directory: use list_dir'


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
    output = _Range(file, lambda: False).render(1, 2)
    assert output.startswith("1\t0123456789abcde\n2\t0123456789abcde\n[lines 1-2 of more than ")
    assert raw.read_bytes < 70 << 20


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelling(root: Path, ctx: ToolContext) -> None:
    (root / "f").write_bytes(lines(10))
    ctx.cancelled = True  # type: ignore[misc]
    for offset in (1, 5):
        with pytest.raises(Exception, match="cancelled"):
            await read_file_tool(Root(root)).execute({"path": "f", "offset": offset}, ctx)
