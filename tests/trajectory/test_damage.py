"""Every small damage to a real log: it is found, named and classified, and what is whole can be saved."""

import functools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec
import pytest

from unspool import (
    AgentContext,
    Codec,
    Fact,
    FakeClock,
    LogError,
    LoopConfig,
    MessageEnd,
    agent_loop,
    fold,
    tool,
    user_message,
)
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory import Head, JsonlLog, Parent, Report, load, salvage, verify
from unspool.trajectory.blobs import digest_of
from unspool.trajectory.header import make_header, seal_header
from unspool.trajectory.record import body_of, hash_of_record, seal

TORN = pytest.mark.filterwarnings("ignore:log. the last line is torn")


class Memory(Codec):
    """A codec that remembers, because one log is read thousands of times."""

    def __init__(self) -> None:
        super().__init__()
        self.decode = functools.cache(super().decode)  # type: ignore[method-assign]


class Whole(NamedTuple):
    """An undamaged log: its lines with their ends, its facts, its head."""

    lines: list[bytes]
    facts: list[Fact]
    head: Head
    codec: Codec

    @property
    def data(self) -> bytes:
        return b"".join(self.lines)

    def without(self, *seqs: int) -> list[Fact]:
        return [fact for fact in self.facts if fact.seq not in seqs]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The log of a run with ten calls."""
    path = tmp_path_factory.mktemp("whole") / "log"

    @tool
    def echo(x: int) -> int:
        """Give back."""
        return x

    async def main() -> Head:
        log = JsonlLog(path, session="s1")
        script: list[Any] = [*[[call(f"c{n}", "echo", x=n)] for n in range(10)], "done"]
        clock = FakeClock()
        config = LoopConfig(model=ScriptedModel(script, clock=clock), log=log, clock=clock)
        async with agent_loop("go", AgentContext(tools=[echo]), config) as run:
            await run.result()
        await log.aclose()
        return log.head

    head = anyio.run(main)
    codec = Memory()
    made = Whole(path.read_bytes().splitlines(keepends=True), load(path, codec), head, codec)
    assert len(made.facts) == head.seq >= 100
    return made


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hash of a line, which depends on nothing else, be worked out once."""
    remembering = functools.cache(hash_of_record)
    for name in ("damage", "jsonl_reading", "verify"):
        monkeypatch.setattr(sys.modules[f"unspool.trajectory.{name}"], "hash_of_record", remembering)


@pytest.fixture
def path() -> Iterator[Path]:
    """A file in memory where there is such a thing."""
    folder = Path("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp") / f"unspool-damage-{os.getpid()}"
    folder.mkdir()
    yield folder / "log"
    shutil.rmtree(folder)


def kinds(report: Report) -> list[str]:
    return [damage.kind for damage in report.damage]


def refuses(path: Path, codec: Codec | None = None) -> LogError:
    """What ``load`` says; it must not load."""
    with pytest.raises(LogError) as caught:
        load(path, codec)
    assert caught.value.details["path"] == str(path)
    return caught.value


def test_a_whole_log_is_ok(whole: Whole, path: Path) -> None:
    path.write_bytes(whole.data)
    assert verify(path, head=whole.head) == Report(
        path=str(path), session="s1", records=whole.head.seq, head=str(whole.head)
    )
    assert salvage(path) == (whole.facts, verify(path))
    assert verify(path, head=str(whole.head), repair=True).ok


# --- every one of a kind -----------------------------------------------------------------------


def flips(byte: int, offset: int) -> set[int]:
    """The byte with one bit flipped, and with the one that makes it a line's end."""
    flipped = {byte ^ 1 << bit for bit in range(8)}
    return {byte ^ 1 << offset % 8} | (flipped & {0x0A})


@pytest.mark.usefixtures("quick")
def test_every_flipped_bit_is_found(whole: Whole, path: Path) -> None:
    """Each record's in the log as it was a few records later, which halves the time."""
    offset = 0
    for seq, line in enumerate(whole.lines):  # the header is number 0
        path.write_bytes(b"".join(whole.lines[: seq + 5]))
        facts = whole.facts[: seq + 4]
        others = [fact for fact in facts if fact.seq != seq]
        with path.open("r+b", buffering=0) as file:
            for index, byte in enumerate(line):
                for flipped in flips(byte, offset + index):
                    os.pwrite(file.fileno(), bytes([flipped]), offset + index)
                    assert refuses(path, whole.codec).details["line"] == seq + 1
                    saved, report = salvage(path, whole.codec)
                    halves = {"changed"} if flipped == 0x0A else set()  # of the header: the second is a line
                    assert set(kinds(report)) == ({"header"} | halves if seq == 0 else {"changed"})
                    assert (report.damage[0].line, report.damage[0].offset) == (seq + 1, offset)
                    assert saved == (facts if byte == 0x0A else others)
                os.pwrite(file.fileno(), bytes([byte]), offset + index)
        assert load(path, whole.codec) == facts
        offset += len(line)


@pytest.mark.usefixtures("quick")
def test_every_deleted_record_is_found(whole: Whole, path: Path) -> None:
    for seq in range(whole.head.seq + 1):
        path.write_bytes(b"".join(whole.lines[:seq] + whole.lines[seq + 1 :]))
        report = verify(path, head=whole.head)
        if seq == whole.head.seq:
            assert load(path, whole.codec) == whole.without(seq)
            assert kinds(report) == ["shortened"]
        else:
            assert refuses(path, whole.codec).details["line"] == seq + 1
            assert [(damage.kind, damage.seq) for damage in report.damage] == [
                ("header", 0) if seq == 0 else ("missing", seq)
            ]
        assert salvage(path, whole.codec).facts == whole.without(seq)


@pytest.mark.usefixtures("quick")
def test_deleted_ranges_are_told_as_one(whole: Whole, path: Path) -> None:
    path.write_bytes(b"".join(whole.lines[:5] + whole.lines[9:20] + whole.lines[21:]))
    report = verify(path)
    assert [(d.kind, d.seq, d.last, d.line) for d in report.damage] == [
        ("missing", 5, 8, 6),
        ("missing", 20, 0, 17),
    ]


@pytest.mark.usefixtures("quick")
def test_every_swap_is_found(whole: Whole, path: Path) -> None:
    for first in range(whole.head.seq):
        for second in range(first + 1, whole.head.seq + 1):
            lines = list(whole.lines)
            lines[first], lines[second] = lines[second], lines[first]
            path.write_bytes(b"".join(lines))
            assert refuses(path, whole.codec).details["line"] == first + 1
            facts, report = salvage(path, whole.codec)
            assert set(kinds(report)) == ({"moved"} if first else {"header", "moved"})
            assert facts == whole.facts


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("place", ["after it", "at the end", "at the beginning"])
def test_every_duplicate_is_found(whole: Whole, path: Path, place: str) -> None:
    for seq in range(whole.head.seq + 1):
        lines = list(whole.lines)
        lines.insert(
            {"after it": seq + 1, "at the end": len(lines), "at the beginning": 1}[place], lines[seq]
        )
        path.write_bytes(b"".join(lines))
        refuses(path, whole.codec)
        facts, report = salvage(path, whole.codec)
        moved = place == "at the beginning" and seq > 1  # there it comes first, and the others after it
        assert set(kinds(report)) == ({"duplicate", "moved"} if moved else {"duplicate"})
        assert facts == whole.facts


@TORN
@pytest.mark.usefixtures("quick")
def test_every_truncation_is_found(whole: Whole, path: Path) -> None:
    """In a short log at each byte, in the long one around each line's end."""
    short = b"".join(whole.lines[:12])
    ends: set[int] = set()
    for line in whole.lines:
        ends.add(max(ends, default=0) + len(line))
    cuts = {*range(len(short)), *[end + by for end in ends for by in (-1, 0, 1)]} - {len(whole.data)}
    for cut in sorted(cut for cut in cuts if cut < len(whole.data)):
        path.write_bytes(whole.data[:cut])
        kept = whole.facts[: max(0, whole.data[:cut].count(b"\n") - 1)]
        torn = (
            [] if cut < len(whole.lines[0]) or cut in ends else ["torn"]
        )  # with no header yet, it is being made
        assert load(path, whole.codec) == kept
        facts, report = salvage(path, whole.codec)
        assert (facts, kinds(report)) == (kept, torn)
        assert kinds(verify(path, whole.codec, head=whole.head)) == [*torn, "shortened"]
        with pytest.raises(LogError, match="longer once"):
            JsonlLog(path, head=whole.head)
        assert path.read_bytes() == whole.data[:cut]


def test_a_head_is_kept_apart_as_text(whole: Whole, path: Path) -> None:
    path.write_bytes(whole.data)
    JsonlLog(path, head=str(whole.head)).close()
    path.write_bytes(b"".join(whole.lines[:-3]))
    with pytest.raises(LogError, match=rf"longer once .*kind='shortened', seq={whole.head.seq - 3}"):
        JsonlLog(path, head=str(whole.head))
    for text in ("", "7", "x:" + "A" * 22, "7:short"):
        with pytest.raises(LogError, match="a head is"):
            verify(path, head=text)


# --- what stands in a record's place -----------------------------------------------------------


def test_a_record_put_in_another_ones_place_is_found(whole: Whole, path: Path) -> None:
    """Its own seal is right, but the record after it vouches for another."""
    forged = list(whole.lines)
    before = hash_of_record(whole.lines[6][:-1]) or b""
    forged[7] = seal(body_of(whole.lines[7][:-1]).replace(b'"seq":7', b'"seq":7,"x":1'), before).line + b"\n"
    path.write_bytes(b"".join(forged))
    assert refuses(path).details["kind"] == "chain"
    assert [(damage.kind, damage.seq) for damage in verify(path).damage] == [("replaced", 8)]


def test_a_log_written_anew_from_some_record_on_is_found_by_its_head(whole: Whole, path: Path) -> None:
    hashed, forged = hash_of_record(whole.lines[6][:-1]) or b"", whole.lines[:7]
    for line in whole.lines[7:]:
        record, hashed = seal(body_of(line[:-1]).replace(b'"call_id":"c1"', b'"call_id":"c9"'), hashed)
        forged.append(record + b"\n")
    path.write_bytes(b"".join(forged))
    assert verify(path).ok
    assert kinds(verify(path, head=whole.head)) == ["shortened"]


NUL = b"\0" * 300


ZEROS: dict[str, tuple[Callable[[list[bytes]], list[bytes]], list[tuple[str, int, int]]]] = {
    "in a record's place": (lambda line: [*line[:3], NUL, b"\n", *line[4:]], [("changed", 3, 4)]),
    "before a record on its line": (lambda line: [*line[:3], NUL, *line[4:]], [("changed", 3, 4)]),
    "after one, too": (lambda line: [*line[:3], line[3][:-1], NUL, *line[5:]], [("changed", 0, 4), ("missing", 4, 4)]),
    "inside one": (lambda line: [*line[:3], line[3][:40], NUL, line[3][80:], *line[4:]], [("changed", 3, 4)]),
    "between two": (lambda line: [*line[:3], NUL, *line[3:]], [("changed", 0, 4)]),
    "over the header": (lambda line: [NUL, line[0][-30:], *line[1:]], [("header", 0, 1)]),
    "in the header's place": (lambda line: [NUL, b"\n", *line[1:]], [("header", 0, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", ZEROS)
def test_zeros_in_the_middle(whole: Whole, path: Path, name: str) -> None:  # B170
    """What a power loss leaves: no reader goes past it, and every record beside it is saved."""
    parts, damage = ZEROS[name]
    path.write_bytes(b"".join(parts(whole.lines)))
    assert refuses(path).details["line"] == damage[0][2]
    facts, report = salvage(path)
    assert [(d.kind, d.seq, d.line) for d in report.damage] == damage
    assert facts == whole.without(*[seq for _, seq, _ in damage])


def test_a_changed_record_and_where_it_went(whole: Whole, path: Path) -> None:
    """A changed record takes no place from a whole one with its number."""
    lines = whole.lines
    path.write_bytes(b"".join([*lines[:3], b"?\n", *lines[4:], lines[3]]))
    facts, report = salvage(path)
    assert facts == whole.facts
    assert [(damage.kind, damage.seq) for damage in report.damage] == [("changed", 3), ("moved", 3)]


def test_what_is_no_log_is_told_once(path: Path) -> None:
    path.write_bytes(b'{"role":"user"}\n{"role":"assistant"}\n{"ro')
    assert kinds(verify(path)) == ["not_a_log"]
    assert salvage(path).facts == []


@pytest.mark.parametrize(
    ("header", "what"),
    [
        (b'{"unspool":1,"format":1,"writer":"unspool 0.1.0"}', "an old format"),
        (seal_header(msgspec.structs.replace(make_header("s", 1.0), format=3)).line, "a newer format"),
    ],
)
def test_another_format_is_told_once(path: Path, header: bytes, what: str) -> None:
    stored = header + b'\n{"type":"turn_start","index":1,"seq":1}\n{"type":"turn_end","ind'
    path.write_bytes(stored)
    assert what in str(refuses(path))
    (damage,) = verify(path, repair=True).damage
    assert damage.kind == "format" and what in damage.message
    with pytest.raises(LogError, match=what):
        JsonlLog(path)
    assert path.read_bytes() == stored


# --- a torn tail, the one thing that is repaired ------------------------------------------------


def test_a_torn_tail_is_cut_off_and_what_was_cut_is_said(whole: Whole, path: Path) -> None:  # B167
    torn = whole.lines[3][:40]
    path.write_bytes(b"".join(whole.lines[:3]) + torn)
    (damage,) = verify(path).damage
    assert (damage.kind, damage.line, damage.offset) == ("torn", 4, len(b"".join(whole.lines[:3])))
    assert "40 bytes" in damage.message
    report = verify(path, repair=True)
    assert (report.ok, report.cut, report.records) == (True, 40, 2)
    assert path.read_bytes() == b"".join(whole.lines[:3])


def test_nothing_else_is_repaired(whole: Whole, path: Path) -> None:
    for stored in (
        b"".join(whole.lines[:3] + whole.lines[4:]) + b"torn",
        whole.data.replace(b'"seq":9', b'"seq":8'),
        whole.data[:-1] + b" ",
        b"dear diary",
    ):
        path.write_bytes(stored)
        assert not verify(path, repair=True).ok
        assert path.read_bytes() == stored
    path.write_bytes(whole.data[:-9])
    assert kinds(verify(path, head=whole.head, repair=True)) == ["torn", "shortened"]
    assert path.read_bytes() == whole.data[:-9]


def test_a_log_with_a_writer_is_not_repaired(path: Path) -> None:
    with JsonlLog(path):
        with pytest.raises(LogError, match="another writer"):
            verify(path, repair=True)
        assert verify(path).ok
    with pytest.raises(LogError, match="cannot be opened"):
        verify(path.with_name("none"), repair=True)


# --- contents that a record refers to -----------------------------------------------------------


def remove(blob: Path) -> None:
    blob.unlink()


def change(blob: Path) -> None:
    blob.write_bytes(blob.read_bytes().replace(b"x", b"y", 1))


@pytest.mark.parametrize(("harm", "kind"), [(remove, "missing_blob"), (change, "changed_blob")])
def test_a_harmed_blob_is_named(path: Path, harm: Any, kind: str) -> None:
    facts = [
        MessageEnd(f"m{seq}", user_message(text), seq=seq)
        for seq, text in enumerate(["a", "x" * 20_000, "b"], 1)
    ]
    with JsonlLog(path) as log:
        for fact in facts:
            log.append(fact)
    digest = digest_of(b"x" * 20_000)
    harm(Path(f"{path}.blobs") / digest[:2] / digest)
    with pytest.raises(LogError) as caught:
        load(path)
    assert caught.value.details | {"kind": kind, "blob": digest, "line": 3, "seq": 2} == caught.value.details
    saved, report = salvage(path)
    assert saved == [facts[0], facts[2]]
    (damage,) = report.damage
    assert (damage.kind, damage.seq, damage.line) == (kind, 2, 3)
    assert digest in damage.message
    with JsonlLog(path) as log:  # what is stored anew is whole again
        log.append(msgspec.structs.replace(facts[1], seq=4))
    assert [fact.seq for fact in load(path)] == [1, 2, 3, 4]


# --- forks --------------------------------------------------------------------------------------


@pytest.fixture
def fork(whole: Whole, path: Path) -> Path:
    """A log that was forked after the parent's record 5, and goes on with its records 6 and 7."""
    path.with_name("s1.jsonl").write_bytes(whole.data)
    hashed = hash_of_record(whole.lines[5][:-1]) or b""
    with JsonlLog(path, session="s2", parent=Parent(session="s1", seq=5, hash=hashed.decode())) as log:
        assert log.head.seq == log.seq == 5
        assert verify(path, head=log.head).ok
        for fact in whole.facts[5:7]:
            log.append(fact)
    return path


def test_a_fork_begins_with_its_parents_facts(whole: Whole, fork: Path) -> None:
    assert load(fork) == whole.facts[:7]
    assert fold(load(fork)) == fold(whole.facts[:7])
    assert verify(fork).ok and verify(fork).records == 2


@pytest.mark.parametrize("end", [b" ", b"\x0b", b""])
def test_what_a_fork_inherited_is_saved_though_its_header_lost_its_end(
    whole: Whole, fork: Path, end: bytes
) -> None:
    fork.write_bytes(fork.read_bytes().replace(b"\n", end, 1))
    facts, report = salvage(fork)
    assert (facts, kinds(report)) == (whole.facts[:7], ["header"])


def test_a_record_of_the_parent_in_a_fork_is_found(whole: Whole, fork: Path) -> None:
    with fork.open("ab") as file:
        file.write(whole.lines[3])
    assert refuses(fork).details["kind"] == "order"
    facts, report = salvage(fork)
    assert (facts, kinds(report)) == (whole.facts[:7], ["moved"])


def test_a_changed_or_missing_parent_is_found(whole: Whole, fork: Path) -> None:
    parent = fork.with_name("s1.jsonl")
    parent.write_bytes(whole.data.replace(b'"seq":4', b'"seq":3'))
    assert kinds(verify(fork)) == ["parent"]
    assert salvage(fork).facts == [*whole.facts[:3], *whole.facts[5:7]]
    parent.unlink()
    with pytest.raises(LogError, match="forked from cannot be read"):
        load(fork)
    assert kinds(verify(fork)) == ["parent"]
    assert salvage(fork).facts == whole.facts[5:7]
