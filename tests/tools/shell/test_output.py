"""What is kept of an output, and what is shown of it."""

import os
import random
from pathlib import Path

import pytest

from unspool.tools.shell.output import MAX_LINES, OutputBuffer, plain_text
from unspool.tools.shell.spill import OutputFiles
from unspool.tools.text import MAX_OUTPUT

PLAIN: dict[str, tuple[bytes, str]] = {
    "text": (b"a\tb\n", "a\tb\n"),
    "not UTF-8": (b"ok \xff\xf0 end", "ok \ufffd\ufffd end"),
    "cut character": (b"x\xe2\x82", "x\ufffd"),
    "NUL": (b"a\0b", "a␀b"),
    "bell, form feed, DEL": (b"\a\f\x7f", "␇␌␡"),
    "colours": (b"\x1b[1;31mred\x1b[0m", "red"),
    "cursor": (b"\x1b[2K\x1b[1Gx\x1b[?25l", "x"),
    "title": (b"\x1b]0;title\x07x", "x"),
    "link": (b"\x1b]8;;http://h\x1b\\text\x1b]8;;\x1b\\", "text"),
    "device string": (b"\x1bPq#0\x1b\\x", "x"),
    "unfinished escape": (b"x\x1b[3", "x"),
    "title without an end does not take the next line": (b"\x1b]0;t\nx", "\nx"),
    "progress": (b"10%\r50%\r99%\nend", "99%\nend"),
    "progress in colour": (b"\x1b[31m10%\x1b[0m\r99%\n", "99%\n"),
    "progress that stands at the start": (b"10%\r99%\r", "99%"),
    "CRLF": (b"a\r\nb\r\n", "a\nb\n"),
    "CR CR LF": (b"a\r\r\nb", "a\nb"),
    "overstruck": (b"N\bNA\bAME", "NAME"),
}


@pytest.mark.parametrize("case", PLAIN)
def test_plain_text(case: str) -> None:
    data, text = PLAIN[case]
    assert plain_text(data) == text


def filled(data: bytes, files: OutputFiles | None = None, chunk: int = 1 << 16) -> OutputBuffer:
    buffer = OutputBuffer(files)
    for at in range(0, len(data), chunk):
        buffer.add(data[at : at + chunk])
    buffer.finish()
    return buffer


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7, 64])
def test_any_chunks_give_the_same(chunk: int) -> None:
    data = "Zahl 1 €, 𝄞, é\r\n\x1b[31mrot\x1b[0m\n".encode() * 20
    assert filled(data, chunk=chunk).shown() == filled(data).shown()
    buffer, text, at = OutputBuffer(), "", 0
    for start in range(0, len(data), chunk):
        buffer.add(data[start : start + chunk])
        piece = buffer.since(at)
        text, at = text + piece.text, piece.next
        assert "\ufffd" not in text
    assert at == len(data)


def test_the_limits_of_what_is_shown_whole() -> None:
    lines = b"x\n" * MAX_LINES
    assert filled(lines).shown() == (lines.decode(), "")
    assert filled(lines[:-1]).shown() == (lines[:-1].decode(), "")
    assert filled(lines + b"y").shown().note != ""
    line = b"x" * MAX_OUTPUT
    assert filled(line).shown() == (line.decode(), "")
    assert filled(line + b"y").shown().note != ""


def test_head_and_tail_of_many_lines() -> None:
    data = b"".join(b"%d\n" % number for number in range(1, 100_001))
    text, note = filled(data).shown()
    lines = text.split("\n")
    assert lines[:3] == ["1", "2", "3"] and lines[-3:] == ["99999", "100000", ""]
    gap = next(at for at, line in enumerate(lines) if line.startswith("[…"))
    assert lines[gap] == "[… lines 401-98400 left out …]"
    assert (lines[gap - 1], lines[gap + 1]) == ("400", "98401")  # what is said is what is missing
    assert note.startswith("lines 401-98400 left out of 100000 lines, 575.1 KB")


def test_one_long_line() -> None:
    data = b"a" * 300_000 + b"z"
    text, note = filled(data).shown()
    head, gap, tail = text.split("\n")
    assert head == "a" * 10240 + "…" and tail == "…" + "a" * 40959 + "z"
    assert gap == "[… 243.0 KB left out …]" and "of 1 line, 293.0 KB" in note


def test_what_is_shown_is_bounded_for_any_output() -> None:
    rng = random.Random(7)
    parts = [b"\n", b"x" * 3000, "€".encode() * 400, b"a\r", b"\x1b[1m", b"\xff", b"y\n" * 50]
    for _ in range(25):
        data = b"".join(rng.choice(parts) for _ in range(rng.randrange(400)))
        buffer = filled(data, chunk=rng.choice([100, 5000, 1 << 18]))
        text, note = buffer.shown()
        assert text.count("\n") <= MAX_LINES + 3
        assert len(text.encode()) <= MAX_OUTPUT + 200
        assert buffer.size == len(data)
        assert buffer.lines == len(data.splitlines()) if b"\r" not in data else True
        assert (note == "") == (text == plain_text(data))


def test_progress_bars_do_not_push_out_the_rest() -> None:
    bar = b"".join(b"\r%3d%%" % (n % 100) for n in range(20_000))
    assert filled(b"start\n" + bar + b"\nend\n").shown() == ("start\n 99%\nend\n", "")


def test_memory_is_bounded() -> None:
    buffer, chunk = OutputBuffer(), b"y\n" * (1 << 17)
    for _ in range(400):  # 100 MB
        buffer.add(chunk)
        assert len(buffer._head) + len(buffer._tail) <= 1 << 20
    assert (buffer.size, buffer.lines) == (400 << 18, 400 << 17)


def test_newest_line() -> None:
    buffer = OutputBuffer()
    assert buffer.newest_line() == ""
    for data, line in {
        b"one\ntwo\n": "two",
        b"\n  \n": "two",
        b"thr": "thr",
        b"ee": "three",
        b"\r 50%": " 50%",
        "\n€".encode()[:-1]: " 50%",  # a character that is not complete is not shown yet
        b"\xac" + b"x" * 9000: "x" * 200,
    }.items():
        buffer.add(data)
        assert buffer.newest_line() == line


def test_since() -> None:
    buffer = OutputBuffer()
    buffer.add(b"abc")
    assert buffer.since(0) == ("abc", 3, 0)
    assert buffer.since(3) == ("", 3, 0)
    buffer.add(b"d" * 1_000_000)
    text, at, skipped = buffer.since(3)
    assert skipped == 0 and at == 65536 and set(text) == {"d"}  # what is left of the head
    text, at, skipped = buffer.since(at)
    assert at == 1_000_003 and skipped == at - 65536 - len(text)


# --- on disk ----------------------------------------------------------------------------------------


def test_a_short_output_makes_no_file() -> None:
    files = OutputFiles()
    buffer = filled(b"hello\n", files)
    assert buffer.file is None and files._path is None


@pytest.mark.parametrize("data", [b"0123456789\n" * 20_000, b"x" * 60_000, b"\n" * 2001])
def test_a_long_output_is_on_disk_as_it_came(data: bytes, tmp_path: Path) -> None:
    files = OutputFiles(str(tmp_path))
    buffer = filled(data, files)
    assert buffer.file is not None and buffer.file.read_bytes() == data
    assert f"the output is in {buffer.file}: look" in buffer.shown().note
    assert files.path.stat().st_mode & 0o777 == 0o700
    directory = files.path
    files.close()
    assert not directory.exists()


def test_a_file_that_is_cut_says_so(tmp_path: Path) -> None:
    buffer = filled(b"x" * 300_000, OutputFiles(str(tmp_path), max_file=100_000))
    assert buffer.file is not None
    assert buffer.file.read_bytes() == b"x" * 100_000 + b"\n[cut: 100000 of 300000 bytes]\n"
    assert f"{buffer.file}, its first 97.7 KB" in buffer.shown().note


def test_all_files_together_are_bounded(tmp_path: Path) -> None:
    files = OutputFiles(str(tmp_path), max_file=100_000, max_files=250_000)
    kept = [filled(b"x" * 90_000, files).file for _ in range(5)]
    assert [path is not None and path.exists() for path in kept] == [False, False, False, True, True]


def test_the_directory_goes_with_its_store(tmp_path: Path) -> None:
    files = OutputFiles(str(tmp_path))
    path = files.path
    assert path.exists()
    del files
    assert not path.exists()


def test_a_disk_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    files = OutputFiles(str(tmp_path / "missing"))
    note = filled(b"x" * 70_000, files).shown().note
    assert "could not be kept: there is no place for temporary files" in note


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    files = OutputFiles()
    full = open("/dev/full", "wb", buffering=0)  # noqa: SIM115  # the buffer closes it
    monkeypatch.setattr(files, "create", lambda: (Path("/dev/full"), full))
    buffer = filled(b"x" * 700_000, files)
    assert buffer.file_error == "No space left on device"
    assert "could not be kept: No space left on device" in buffer.shown().note
