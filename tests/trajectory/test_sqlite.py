"""Sessions in a SQLite file: what is special to it, damage, other processes, and its disk."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from unspool import ErrorEvent, Fact, LogError, TurnStart
from unspool.cli.places import open_store
from unspool.kernel.codec import Codec
from unspool.kernel.events import SessionChanged, Signal
from unspool.trajectory import (
    BUFFERED,
    EACH_FLUSH,
    Durability,
    Head,
    JsonlLog,
    SqliteLog,
    SqliteSessions,
    group,
    sqlite_file,
)
from unspool.trajectory.header import make_header, seal_header
from unspool.trajectory.record import seal
from unspool.trajectory.sqlite_file import SHIFT, key_of

LONG = "long text " * 2000  # stored apart


def turn(seq: int) -> TurnStart:
    return TurnStart(seq, seq=seq, time=1000.0 + seq, run_id="r")


def said(seq: int, text: str) -> ErrorEvent:
    return ErrorEvent("x", message=text, seq=seq, time=1000.0 + seq)


def begin(path: Path) -> None:
    """Session a with 6 facts, a title and a large text among them, and its fork b, with 3 of them and 2 more."""
    with SqliteSessions(path) as sessions:
        with sessions.create("a", title="first", metadata={"n": 1}, namespace="x/y", sender="me") as log:
            log.append(turn(2))
            log.append(said(3, LONG))
            for seq in (4, 5, 6):
                log.append(turn(seq))
        sessions.fork("a", 3, to="b")
        with sessions.open("b") as log:
            log.append(turn(4))
            log.append(turn(5))


def content(path: Path) -> Any:
    """Everything that can be read of a file."""
    with SqliteSessions(path, create=False) as sessions:
        infos = [replace(info, path="") for info in sessions.list() if not info.problem]
        return infos, {info.session: list(sessions.records(info.session)) for info in infos}


def kinds(path: Path, session: str, head: Head | None = None) -> set[str]:
    with SqliteSessions(path, create=False) as sessions:
        return {damage.kind for damage in sessions.verify(session, head=head).damage}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "logs.db"
    begin(place)
    return place


@pytest.fixture
def shm() -> Iterator[Path]:
    """A folder in memory, where there is one."""
    where = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        yield Path(folder)


def raw(path: Path, *statements: str, values: tuple[Any, ...] = ()) -> None:
    """What somebody does to the file by other means."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement, values)
    connection.close()


def python(code: str, *args: object) -> "subprocess.Popen[str]":
    """Another process; what it says is kept."""
    code = f"import sys\nfrom unspool import *\nfrom unspool.trajectory import *\n{code}"
    command = [sys.executable, "-P", "-c", code, *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    return out


# --- what a file is ----------------------------------------------------------------------------


def test_file_is_its_owners_and_says_what_it_is(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes()[68:72] == b"UnSp"
    infos, records = content(path)
    assert {info.session: info.facts for info in infos} == {"a": 6, "b": 5}
    assert [record.fact for record in records["b"]][2:] == [said(3, LONG), turn(4), turn(5)]


def test_nothing_is_left_beside_a_closed_file_but_the_leases(path: Path) -> None:
    assert sorted(os.listdir(path.parent)) == ["logs.db", "logs.db-leases"]


FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "newer": (lambda path: raw(path, "PRAGMA user_version = 99"), "a newer format.*format=99"),
    "older": (lambda path: raw(path, "PRAGMA user_version = 1"), "an old format.*format=1"),
    "other application": (lambda path: raw(path, "PRAGMA application_id = 7"), "not an unspool log"),
    "no application": (lambda path: raw(path, "PRAGMA application_id = 0"), "not an unspool log"),
    "table gone": (lambda path: raw(path, "DROP TABLE heads"), "its tables are not those that were made"),
    "table changed": (lambda path: raw(path, "ALTER TABLE heads RENAME TO tails"), "its tables are not"),
    "trigger changed": (lambda path: raw(path, "DROP TRIGGER append"), "its tables are not"),
    "text": (lambda path: path.write_bytes(b"dear diary\n" * 1000), "not an unspool log"),
    "zeros": (lambda path: path.write_bytes(b"\0" * 8192), "not an unspool log"),
    "short": (lambda path: path.write_bytes(path.read_bytes()[:5000]), "log: "),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_files_are_refused_and_left_alone(path: Path, name: str) -> None:
    change, reason = FOREIGN[name]
    change(path)
    before = path.read_bytes()
    with pytest.raises(LogError, match=reason):
        content(path)
    assert path.read_bytes() == before


def test_tables_of_others_beside_ours_are_none_of_our_business(path: Path) -> None:
    before = content(path)
    raw(path, "CREATE TABLE mine (id)", "ANALYZE", "VACUUM")
    assert content(path) == before and kinds(path, "a") == set()


def test_a_database_of_others_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    raw(path, "CREATE TABLE diary (day, text)")
    before = path.read_bytes()
    for create in (True, False):
        with pytest.raises(LogError, match="not an unspool log"):
            SqliteSessions(path, create=create)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["other.db"]


def test_empty_file_is_a_new_one_and_a_missing_one_may_be_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with SqliteSessions(tmp_path / "empty") as sessions:
        assert sessions.list() == []
    with pytest.raises(LogError, match="there is no such file"):
        SqliteSessions(tmp_path / "missing", create=False)
    assert not (tmp_path / "missing").exists()


def test_who_only_looks_at_an_empty_file_leaves_it_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with SqliteSessions(path, create=False) as looking, SqliteSessions(path, create=False) as making:
        for look in (looking.info, looking.open, looking.verify, looking.delete, looking.fork):
            with pytest.raises(LogError, match="no such session"):
                look("a")
        assert looking.list() == [] and path.stat().st_size == 0 and os.listdir(tmp_path) == ["empty.db"]
        with making.create("a") as log:
            log.append(turn(1))
        assert list(looking.facts("a")) == [turn(1)]
    assert kinds(path, "a") == set()


def test_what_an_empty_file_became_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with SqliteSessions(path, create=False) as sessions:
        raw(path, "CREATE TABLE diary (day, text)")
        before = path.read_bytes()
        for use in (sessions.list, sessions.create):
            with pytest.raises(LogError, match="not an unspool log"):
                use()
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("place", "reason"),
    [("/proc/unspool.db", "cannot be opened"), ("/dev/null/x.db", "cannot be opened"), ("a\0b", "null")],
)
def test_places_where_nothing_can_be_made(place: str, reason: str) -> None:
    with pytest.raises(LogError, match=reason):
        SqliteSessions(place)


READ_ONLY = """
import os
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    SqliteSessions(sys.argv[1])
except LogError as error:
    print(error)
"""


def test_read_only_folder(shm: Path) -> None:
    folder = shm / "folder"
    shm.chmod(0o755)
    folder.mkdir()
    folder.chmod(0o555)
    said = ended(python(READ_ONLY, folder / "logs.db"))
    assert "log: cannot be opened" in said and "Permission denied" in said
    folder.chmod(0o755)
    begin(folder / "logs.db")
    shutil.rmtree(folder / "logs.db-leases")
    folder.chmod(0o555)
    assert "log: " in ended(python(READ_ONLY, folder / "logs.db"))
    folder.chmod(0o755)
    assert kinds(folder / "logs.db", "a") == set()


# --- damage ------------------------------------------------------------------------------------


def at(session: int, seq: int) -> int:
    return key_of(session, seq)


def _swap(path: Path) -> None:
    first, second = at(1, 4), at(1, 5)
    raw(
        path,
        f"UPDATE records SET id = -1 WHERE id = {first}",
        f"UPDATE records SET id = {first} WHERE id = {second}",
        f"UPDATE records SET id = {second} WHERE id = -1",
    )


def _forge(path: Path) -> None:
    """Put another fact, well sealed, in the place of one."""
    connection = sqlite3.connect(path, isolation_level=None)
    ((before,),) = connection.execute("SELECT line FROM records WHERE id = ?", (at(1, 3),))
    prev = bytes(seal(before[:-50] + b"}", b"A" * 22).hash)  # of another chain
    line, _ = seal(b'{"type":"turn_start","index":7,"seq":4}', prev)
    connection.execute("UPDATE records SET line = ? WHERE id = ?", (line, at(1, 4)))
    connection.close()


def _other_header(path: Path) -> None:
    line, _ = seal_header(make_header("a", 1.0, sender="somebody"))
    raw(path, "UPDATE sessions SET header = ? WHERE name = 'a'", values=(line,))


DAMAGED: dict[str, tuple[Callable[[Path], object] | str, set[str], str]] = {
    "deleted": (f"DELETE FROM records WHERE id = {at(1, 4)}", {"missing"}, "missing or doubled"),
    "first deleted": (f"DELETE FROM records WHERE id = {at(1, 1)}", {"missing", "database"}, "missing or doubled"),
    "last deleted": (f"DELETE FROM records WHERE id = {at(1, 6)}", {"shortened"}, "missing at its end"),
    "all deleted": (f"DELETE FROM records WHERE id >> {SHIFT} = 1", {"shortened", "database"}, "missing at its end"),
    "swapped": (_swap, {"moved"}, "missing or doubled"),
    "doubled": (
        f"INSERT INTO records SELECT {at(1, 7)}, line FROM records WHERE id = {at(1, 6)}",
        {"duplicate"},
        "missing or doubled",
    ),
    "from another": (
        f"UPDATE records SET line = (SELECT line FROM records WHERE id = {at(2, 4)}) WHERE id = {at(1, 4)}",
        {"replaced"},
        "was replaced",
    ),
    "changed": (
        f"UPDATE records SET line = CAST(replace(CAST(line AS TEXT), 'run_id', 'run_ID') AS BLOB) WHERE id = {at(1, 4)}",
        {"changed"},
        "damaged record",
    ),
    "last changed": (f"UPDATE records SET line = X'7B7D' WHERE id = {at(1, 6)}", {"changed", "shortened"}, "damaged"),
    "emptied": (f"UPDATE records SET line = X'' WHERE id = {at(1, 4)}", {"changed"}, "damaged record"),
    "a number": (f"UPDATE records SET line = 7 WHERE id = {at(1, 4)}", {"changed"}, "damaged record"),
    "forged": (_forge, {"replaced"}, "was replaced"),
    "head changed": ("UPDATE heads SET head = X'00' WHERE id = 1", {"shortened"}, "missing at its end"),
    "head a number": ("UPDATE heads SET head = 22 WHERE id = 1", {"shortened"}, "missing at its end"),
    "head of another": (
        "UPDATE heads SET head = (SELECT head FROM heads WHERE id = 2) WHERE id = 1",
        {"shortened"},
        "missing at its end",
    ),
    "head deleted": ("DELETE FROM heads WHERE id = 1", {"shortened"}, "missing at its end"),
    "header changed": ("UPDATE sessions SET header = X'7B7D' WHERE id = 1", {"header"}, "not an unspool log"),
    "header a number": ("UPDATE sessions SET header = 5 WHERE id = 1", {"header"}, "not an unspool log"),
    "header of another": (
        "UPDATE sessions SET header = (SELECT header FROM sessions WHERE id = 2) WHERE id = 1",
        {"header"},
        "damaged header",
    ),
    "header replaced": (_other_header, {"replaced", "database"}, "was replaced"),
    "blob deleted": ("DELETE FROM blobs", {"missing_blob"}, "a blob is missing"),
    "blob changed": ("UPDATE blobs SET data = X'00'", {"changed_blob"}, "a blob was changed"),
    "blob a number": ("UPDATE blobs SET data = 3", {"changed_blob"}, "a blob was changed"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_found_and_told_apart(path: Path, name: str) -> None:
    change, found, reason = DAMAGED[name]
    raw(path, change) if isinstance(change, str) else change(path)
    assert found <= kinds(path, "a") <= found | {"replaced", "shortened", "moved", "missing", "changed"}
    with SqliteSessions(path) as sessions:
        with pytest.raises(LogError, match=reason):
            list(sessions.facts("a"))
        if "blob" not in name:  # whoever writes need not look into what is there
            with pytest.raises(LogError, match=reason):
                sessions.open("a")
        assert len(sessions.list()) == 2
        saved = [] if "header" in name else sessions.salvage("a").facts
        assert all(fact.seq <= 6 for fact in saved)
        sessions.delete("b")
        assert sessions.delete("a") == ["a"]  # it is damaged, but its owner is done with it
        assert sessions.list() == []


OF_THE_PARENT: dict[str, str] = {
    "record": f"UPDATE records SET line = X'7B7D' WHERE id = {at(1, 2)}",
    "record gone": f"DELETE FROM records WHERE id = {at(1, 2)}",
    "last shared record gone": f"DELETE FROM records WHERE id = {at(1, 3)}",
    "session gone": "DELETE FROM sessions WHERE name = 'a'",
    "header": "UPDATE sessions SET header = X'' WHERE name = 'a'",
    "renamed": "UPDATE sessions SET name = 'c' WHERE name = 'a'",
}


@pytest.mark.parametrize("name", OF_THE_PARENT)
def test_damage_of_the_parent_is_the_forks(path: Path, name: str) -> None:
    raw(path, OF_THE_PARENT[name])
    assert kinds(path, "b") >= {"parent"}
    with SqliteSessions(path) as sessions:
        with pytest.raises(LogError):
            list(sessions.facts("b"))
        with pytest.raises(LogError):
            sessions.open("b")
        assert [fact.seq for fact in sessions.salvage("b").facts][-2:] == [4, 5]  # its own
        assert "b" in {info.session for info in sessions.list()}


def test_what_the_fork_does_not_share_is_none_of_its_business(path: Path) -> None:
    raw(path, f"DELETE FROM records WHERE id = {at(1, 5)}")
    assert kinds(path, "a") == {"missing"} and kinds(path, "b") == set()


def test_forks_in_a_circle_end(path: Path) -> None:
    with SqliteSessions(path) as sessions:
        parent = sessions.info("b").parent
    assert parent is not None
    for name, other in (("a", "b"), ("b", "a")):
        header = make_header(name, 1.0, parent=parent.__class__(session=other, seq=3, hash=parent.hash))
        line, _ = seal_header(header)
        raw(
            path,
            "UPDATE sessions SET header = ?, parent = ? WHERE name = ?",
            values=(line, "ab".index(other) + 1, name),
        )
    assert "parent" in kinds(path, "a")
    with SqliteSessions(path) as sessions:
        with pytest.raises(LogError, match="forks go round in a circle"):
            list(sessions.facts("a"))
        with pytest.raises(LogError, match="circle"):
            sessions.fork("a", 2)
        assert "circle" in sessions.list()[0].problem
        assert sorted(sessions.delete("a", forks=True)) == ["a", "b"]


def test_the_same_bytes_as_text_are_the_same(path: Path) -> None:
    before = content(path)
    raw(
        path,
        "UPDATE records SET line = CAST(line AS TEXT)",
        "UPDATE sessions SET header = CAST(header AS TEXT)",
    )
    assert content(path) == before and kinds(path, "a") == kinds(path, "b") == set()


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM titles",
        f"INSERT INTO titles VALUES ({at(1, 3)})",
        "UPDATE sessions SET namespace = 'z' WHERE id = 1",
        "UPDATE sessions SET created = 5 WHERE id = 1",
        "UPDATE sessions SET parent = 2 WHERE id = 1",
    ],
)
def test_what_is_there_twice_for_lists_is_compared(path: Path, change: str) -> None:
    raw(path, change)
    assert kinds(path, "a") == {"database"}
    with SqliteSessions(path) as sessions:
        assert len(list(sessions.facts("a"))) == 6  # nothing is lost


def trial(place: Path, data: bytes, wal: bytes | None, good: Any, heads: dict[str, Head]) -> str:
    """What becomes of a damaged file: ``told``, ``same``, or else what went wrong."""
    place.write_bytes(data)
    if wal is not None:
        Path(f"{place}-wal").write_bytes(wal)
    try:
        with SqliteSessions(place, create=False) as sessions:
            if not all(sessions.verify(session, head=head).ok for session, head in heads.items()):
                return "told"
        return "same" if content(place) == good else "changed without a word"
    except LogError:
        return "told"


def flips(data: bytes, count: int, first: int = 0) -> Iterator[tuple[int, bytes]]:
    """``data`` with one bit of one byte changed, at places all over it, where there is something rather."""
    filled = [index for index in range(first, len(data)) if data[index]]
    empty = [index for index in range(first, len(data)) if not data[index]]
    for places, wanted in ((filled, count * 3 // 4), (empty, count // 4)):
        step = max(1, len(places) // wanted)
        for number, index in enumerate(places[::step]):
            yield index, data[:index] + bytes([data[index] ^ 1 << number % 8]) + data[index + 1 :]


def heads_of(path: Path) -> dict[str, Head]:
    with SqliteSessions(path) as sessions:
        return {
            info.session: Head.of(sessions.verify(info.session).head) or Head(0, "")
            for info in sessions.list()
        }


def test_every_flipped_byte_of_a_file_is_told_or_changes_nothing(path: Path, shm: Path) -> None:
    good, heads, data = content(path), heads_of(path), path.read_bytes()
    found = {index: trial(shm / "x.db", flipped, None, good, heads) for index, flipped in flips(data, 1400)}
    assert {index: what for index, what in found.items() if what not in ("told", "same")} == {}
    assert list(found.values()).count("told") > 500


def test_every_byte_of_the_first_page_is_told_or_changes_nothing(path: Path, shm: Path) -> None:
    good, heads, data = content(path), heads_of(path), path.read_bytes()
    for index in range(160):
        flipped = data[:index] + bytes([data[index] ^ 0xFF]) + data[index + 1 :]
        assert trial(shm / "x.db", flipped, None, good, heads) in ("told", "same"), index


def test_a_flipped_byte_of_the_wal_is_told_by_a_head_kept_elsewhere(tmp_path: Path, shm: Path) -> None:
    """SQLite drops what follows a damaged frame, as it drops what a crash left: all is well, but shorter."""
    path = tmp_path / "logs.db"
    with SqliteSessions(path) as sessions, sessions.create("a") as log:
        for seq in range(1, 30):
            log.append(turn(seq))
        data, wal = path.read_bytes(), Path(f"{path}-wal").read_bytes()
        heads = {"a": log.head}
    good = content(path)
    assert trial(shm / "x.db", data, wal, good, heads) == "same"
    for index, flipped in flips(wal, 300):
        assert trial(shm / "x.db", data, flipped, good, heads) in ("told", "same"), index


def test_a_file_cut_anywhere(path: Path, shm: Path) -> None:
    good, heads, data = content(path), heads_of(path), path.read_bytes()
    for size in range(1, len(data), 997):
        assert trial(shm / "x.db", data[:size], None, good, heads) == "told", size


# --- its disk ----------------------------------------------------------------------------------


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that the disk was waited for."""
    paths: list[str] = []
    monkeypatch.setattr(sqlite_file, "sync_path", paths.append)
    return paths


@pytest.mark.parametrize(
    ("durability", "appended", "flushed"),
    [(BUFFERED, 0, 0), (EACH_FLUSH, 0, 2), (group(1000, ms=1e6), 0, 0), (group(1, ms=1e6), None, None)],
)
def test_barriers_wait_for_the_wal(
    tmp_path: Path, synced: list[str], durability: Durability, appended: int | None, flushed: int | None
) -> None:
    path = tmp_path / "logs.db"

    async def main() -> None:
        with SqliteSessions(path, durability=durability) as sessions:
            log = sessions.create("a")
            del synced[:]
            for seq in range(1, 3):
                log.append(turn(seq))
            assert appended in (None, len(synced))  # its thread may be fast
            await log.flush()
            log.append(turn(3))
            await log.flush()
            assert flushed in (None, len(synced))
            await log.flush()
            assert flushed in (None, len(synced))  # nothing new
            await log.aclose()
        assert set(synced) <= {f"{path}-wal"}
        assert bool(synced) == (durability is not BUFFERED)

    anyio.run(main)


def test_failing_disk_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> None:
        raise OSError(5, "Input/output error")

    async def main() -> None:
        with SqliteSessions(tmp_path / "logs.db", durability=EACH_FLUSH) as sessions:
            log = sessions.create("a")
            log.append(turn(1))
            monkeypatch.setattr(sqlite_file, "sync_path", fail)
            with pytest.raises(LogError, match="the disk failed"):
                await log.flush()
            with pytest.raises(LogError, match="the disk failed"):
                log.append(turn(2))
            log.close()

    anyio.run(main)


def test_the_wal_is_written_back_by_a_barrier_and_never_by_an_append(path: Path) -> None:
    def sizes() -> tuple[int, int]:
        return os.path.getsize(path), os.path.getsize(f"{path}-wal")

    async def main() -> None:
        with SqliteSessions(path) as sessions, sessions.create("c") as log:
            size, _ = sizes()
            for seq in range(1, 1501):
                log.append(turn(seq))
            same, wal = sizes()
            assert same == size and wal > 8 << 20
            await log.flush()
            more, wal = sizes()
            assert more > size and wal == 0
            log.append(turn(1501))
            await log.flush()
            assert 0 < sizes()[1] < 1 << 20
        assert kinds(path, "c") == set()

    anyio.run(main)


def test_a_reader_holds_up_the_writing_back_but_no_append(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "_CHECKPOINT", 0)

    async def main() -> None:
        with SqliteSessions(path) as sessions, sessions.open("a") as log:
            reader = sqlite3.connect(path, isolation_level=None)
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM records").fetchone()
            log.append(turn(7))
            await log.flush()
            log.append(turn(8))
            assert reader.execute("SELECT count(*) FROM records").fetchone() == (8,)
            reader.close()
            await log.flush()
            assert [fact.seq async for fact in log.read(6)] == [7, 8]

    anyio.run(main)


def pages(log: SqliteLog, more: int) -> None:
    """Let the disk have room for so many pages more."""
    database = log._database
    database.rows("PRAGMA max_page_count = 1000000")
    ((count,),) = database.rows("PRAGMA page_count")
    database.rows(f"PRAGMA max_page_count = {count + more}")


def test_full_disk_refuses_facts_whole_and_goes_on_when_there_is_room(path: Path) -> None:
    with SqliteSessions(path) as sessions, sessions.open("a") as log:
        pages(log, 1)
        with pytest.raises(LogError, match="full"):
            for seq in range(7, 10_000):
                log.append(said(seq, "x" * 500))
        stored = log.seq
        assert len(list(sessions.facts("a"))) == stored
        for refuse in (
            lambda: log.append(said(stored + 1, "y" * 100_000)),
            lambda: log.append(said(stored + 1, "y" * 10_000)),
            lambda: [sessions.create(f"new{number}", title="t" * 1000) for number in range(100)],
        ):
            with pytest.raises(LogError, match="full"):
                refuse()
            assert log.seq == stored and not log._database._connection.in_transaction
        made = {info.session: info for info in sessions.list()}
        assert all(info.title and not info.problem for info in made.values())
        pages(log, 1000)
        log.append(said(stored + 1, "y" * 100_000))
        assert [fact.seq for fact in sessions.facts("a")] == list(range(1, stored + 2))
        assert all(sessions.verify(session).ok for session in made)


def test_removed_file_is_told_at_the_barrier_and_ends_the_log(path: Path) -> None:
    async def main() -> None:
        with SqliteSessions(path) as sessions:
            log = sessions.open("a")
            log.append(turn(7))
            os.unlink(path)
            with pytest.raises(LogError, match="the file was removed"):
                await log.flush()
            with pytest.raises(LogError, match="the file was removed"):
                log.append(turn(8))
            with pytest.raises(LogError, match="the file was removed"):
                await log.aclose()
            await log.aclose()

    anyio.run(main)


def test_a_file_in_the_place_of_another_is_told(path: Path) -> None:
    async def main() -> None:
        other = path.with_name("other.db")
        begin(other)
        with SqliteSessions(path) as sessions, sessions.open("a") as log:
            other.replace(path)
            with pytest.raises(LogError, match="the file was removed"):
                await log.flush()

    anyio.run(main)


def test_logs_of_a_closed_place_fail_in_their_own_words(path: Path) -> None:
    sessions = SqliteSessions(path)
    log = sessions.open("a")
    sessions.close()
    with pytest.raises(LogError, match="closed"):
        log.append(turn(7))
    with pytest.raises(LogError, match="closed"):
        list(log.records())
    log.close()


# --- other processes and threads ----------------------------------------------------------------

WRITE = """
with SqliteSessions(sys.argv[1]) as sessions, sessions.create(sys.argv[2]) as log:
    for seq in range(1, int(sys.argv[3]) + 1):
        log.append(ErrorEvent("x", message=sys.argv[2] * (40_000 if seq % 50 == 0 else 5), seq=seq))
        print(seq, flush=True)
"""


def test_processes_write_their_sessions_at_once(path: Path) -> None:
    writers = [python(WRITE, path, name, 200) for name in ("p", "q", "r")]
    for writer in writers:
        ended(writer)
    with SqliteSessions(path) as sessions:
        for name in ("p", "q", "r"):
            assert sessions.verify(name).ok
            facts: list[Any] = list(sessions.facts(name))
            assert len(facts) == 200 and {fact.message[0] for fact in facts} == {name}


def test_a_killed_process_loses_nothing_it_was_told_is_stored(path: Path) -> None:
    writer = python(WRITE, path, "p", 1_000_000)
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(120)][-1]
    with SqliteSessions(path) as sessions, pytest.raises(LogError, match="another writer"):
        sessions.open("p")
    writer.send_signal(signal.SIGKILL)
    rest = writer.communicate()[0].split()
    told = int(rest[-1]) if rest else told
    with SqliteSessions(path) as sessions, sessions.open("p") as log:
        assert log.seq in (told, told + 1)
        assert sessions.verify("p").ok
        log.append(turn(log.seq + 1))
    assert kinds(path, "p") == set()


def test_a_process_that_comes_and_goes_leaves_the_wal_to_those_who_stay(path: Path) -> None:
    """A file that is opened and closed beside SQLite's back gives its locks away."""
    with SqliteSessions(path) as sessions, sessions.open("a") as log:
        log.append(turn(7))
        SqliteSessions(path).close()
        ended(python("SqliteSessions(sys.argv[1]).close()", path))
        log.append(turn(8))
        code = "print(len(list(SqliteSessions(sys.argv[1]).facts('a'))))"
        assert ended(python(code, path)).split() == ["8"]
    assert kinds(path, "a") == set()


def test_many_make_the_file_at_once(tmp_path: Path) -> None:
    path, errors = tmp_path / "logs.db", []

    def work(number: int) -> None:
        try:
            with SqliteSessions(path) as sessions, sessions.create(f"s{number}") as log:
                log.append(turn(1))
        except BaseException as error:  # noqa: BLE001 (told by the assertion)
            errors.append(error)

    others = [python(WRITE, path, f"p{number}", 3) for number in range(3)]
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        ended(other)
    assert errors == []
    infos, _ = content(path)
    assert len(infos) == 9


def test_who_makes_the_file_at_once_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself waits for no other writer when a file is to use a WAL."""
    path = tmp_path / "logs.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_file, "_BUSY_S", 0.0)
        with pytest.raises(LogError, match="locked"):
            SqliteSessions(path)
    monkeypatch.setattr(sqlite_file, "_pause", other.close)
    begin(path)
    assert kinds(path, "b") == set()


def test_a_file_that_another_makes_meanwhile_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, others = tmp_path / "logs.db", [begin]
    raw(path, "PRAGMA journal_mode = WAL")

    class Late(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            if "user_version" in statement and others:
                others.pop()(path)
            return super().execute(statement, *values)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Late))
    with SqliteSessions(path) as sessions:
        assert len(sessions.list()) == 2 and others == []


def meanwhile(monkeypatch: pytest.MonkeyPatch, path: Path, act: Callable[[SqliteSessions], object]) -> None:
    """Let another do something just before the next transaction begins."""
    transaction, acts = sqlite_file.Database.transaction, [act]

    def late(database: sqlite_file.Database) -> Any:
        if acts:
            with SqliteSessions(path) as others:
                acts.pop()(others)
        return transaction(database)

    monkeypatch.setattr(sqlite_file.Database, "transaction", late)


def test_a_session_deleted_while_it_is_forked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteSessions(path) as sessions:
        meanwhile(monkeypatch, path, lambda others: others.delete("a", forks=True))
        with pytest.raises(LogError, match=r"no_session.*session='a'"):
            sessions.fork("a", 3)
        assert sessions.list() == []


@pytest.mark.parametrize("forks", [False, True])
def test_a_session_forked_while_it_is_deleted(
    path: Path, monkeypatch: pytest.MonkeyPatch, forks: bool
) -> None:
    with SqliteSessions(path) as sessions:
        meanwhile(monkeypatch, path, lambda others: others.fork("b", 4, to="c"))
        if forks:
            assert sessions.delete("b", forks=True) == ["c", "b"]
        else:
            with pytest.raises(LogError, match=r"has_forks.*\['c'\]"):
                sessions.delete("b")
        assert {info.session for info in sessions.list()} == ({"a"} if forks else {"a", "b", "c"})


@pytest.mark.parametrize("again", [False, True])
def test_who_follows_is_told_that_the_session_is_gone(path: Path, again: bool) -> None:
    async def main() -> None:
        with SqliteSessions(path) as sessions:
            async with aclosing(sessions.follow("b", 4, poll_s=0)) as facts:
                assert await anext(facts) == turn(5)
                sessions.delete("b")
                if again:
                    sessions.create("b", title="another").close()
                with pytest.raises(LogError, match=r"no_session.*session='b'"):
                    await anext(facts)

    anyio.run(main)


def test_who_follows_has_the_bytes_as_stored(path: Path) -> None:
    async def main() -> None:
        with SqliteSessions(path) as sessions:
            wanted = list(sessions.records("a"))
            async with aclosing(sessions.follow_records("a", 1)) as records:
                assert [await anext(records) for _ in wanted[1:]] == wanted[1:]

    anyio.run(main)


FORKED = """
import os
sessions = SqliteSessions(sys.argv[1])
log = sessions.open("a")
if not os.fork():
    for use in (sessions.list, sessions.create, log.snapshot, lambda: log.append(TurnStart(7, seq=7))):
        try:
            use()
        except LogError as error:
            print(error, flush=True)
    log.close()
    sessions.close()
    os._exit(0)
os.wait()
log.append(TurnStart(7, seq=7))
"""


def test_a_forked_process_is_refused(path: Path) -> None:
    said = ended(python(FORKED, path)).splitlines()
    assert len(said) == 4 and all("kind='busy', " in line for line in said)
    with SqliteSessions(path) as sessions:
        assert sessions.info("a").facts == 7 and sessions.verify("a").ok


def test_threads_share_one_connection(path: Path) -> None:
    errors: list[BaseException] = []
    with SqliteSessions(path) as sessions:

        def write(name: str) -> None:
            with sessions.create(name, title=name) as log:
                for seq in range(2, 80):
                    log.append(said(seq, LONG + name) if seq % 20 == 0 else turn(seq))

        def change(name: str) -> None:
            for number in range(20):
                sessions.fork("a", 3, to=f"{name}{number}")
                sessions.annotate(f"{name}{number}", title=f"{name}{number}")
                assert len(list(sessions.facts(f"{name}{number}"))) == 4
                sessions.list()
                if number % 2:
                    sessions.delete(f"{name}{number}")

        def caught(fn: Callable[[str], None], name: str) -> None:
            try:
                fn(name)
            except BaseException as error:  # noqa: BLE001 (told by the assertion)
                errors.append(error)

        threads = [
            threading.Thread(target=caught, args=(fn, f"{fn.__name__}{number}"))
            for fn in (write, change)
            for number in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        infos = sessions.list()
        assert len(infos) == 2 + 3 + 30
        assert all(sessions.verify(info.session).ok and not info.problem for info in infos)


def test_a_thousand_sessions_are_listed_quickly(tmp_path: Path) -> None:
    with SqliteSessions(tmp_path / "logs.db") as sessions:
        for number in range(1000):
            sessions.create(f"s{number}", title=f"number {number}", sender=f"u{number % 10}").close()
        began = time.perf_counter()
        newest, by_sender = sessions.list(limit=5), sessions.list(sender="u3")
        took = time.perf_counter() - began
        assert newest[0].title == "number 999" and len(by_sender) == 100
        assert took < 1.0  # about 50 ms


# --- one fact, one commit ------------------------------------------------------------------------


def test_a_title_is_listed_or_was_never_stored(path: Path) -> None:
    with SqliteSessions(path) as sessions:
        log = sessions.open("a")
        raw(path, f"INSERT INTO titles VALUES ({at(1, 7)})")  # so that it cannot be listed
        with pytest.raises(LogError, match="UNIQUE") as refused:
            sessions_changed(log, "second")
        assert "kind" not in refused.value.details  # the file is not damaged
        assert log.seq == 6 and sessions.info("a").title == "first"
        raw(path, f"DELETE FROM titles WHERE id = {at(1, 7)}")
        sessions_changed(log, "second")
        assert sessions.info("a").title == "second"
        log.close()


def sessions_changed(log: SqliteLog, title: str) -> None:
    from_here: Fact = SessionChanged(seq=log.seq + 1, title=title)
    log.append(from_here)


def test_leases_of_a_place_in_memory_are_given_back(tmp_path: Path) -> None:
    with SqliteSessions(":memory:") as sessions:
        first = sessions.create("a")
        with pytest.raises(LogError, match="another writer"):
            sessions.open("a")
        with pytest.raises(LogError, match="another writer"):
            sessions.delete("a")
        first.close()
        second = sessions.open("a")
        first.close()  # again: it is not its lease any more
        with pytest.raises(LogError, match="another writer"):
            sessions.open("a")
        del second
        assert sessions.delete("a") == ["a"]


# --- the command -----------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["nightly", "nightly-202", "0123456", ""])
def test_delete_wants_no_less_than_the_whole_id(path: Path, given: str) -> None:
    with SqliteSessions(path) as sessions:
        for name in ("b", "a"):
            sessions.delete(name)
        name = "0123456789abcdef" * 2 if given.startswith("0") else "nightly-2025"
        sessions.create(name).close()
    done = command("delete", given, "--yes", "--store", path)
    assert (done.returncode, done.stdout) == (2, "") and name in done.stderr
    assert command(
        "delete", name[:8] if given.startswith("0") else name, "--yes", "--store", path
    ).stdout == (f"{name}\n")


@pytest.mark.parametrize("where", ["logs.db", "folder", "log.jsonl"])
def test_tail_prints_the_bytes_as_stored_when_it_follows_too(tmp_path: Path, where: str) -> None:
    path = tmp_path / where
    if where == "log.jsonl":
        logs: Any = nullcontext(JsonlLog(path))
        args: tuple[object, ...] = ("./log.jsonl",)
    else:
        logs, args = open_store(str(path), create=True), ("a", "--store", path)
    with logs as place, place if where == "log.jsonl" else place.create("a") as log:
        log.append(turn(1))
        following = subprocess.Popen(
            [*COMMAND, "tail", "-f", "--json", *map(str, args)], cwd=tmp_path, stdout=subprocess.PIPE
        )
        try:
            assert following.stdout is not None
            seen = [following.stdout.readline()]
            log._codec = Newer()
            for fact in (turn(2), said(3, LONG)):
                log.append(fact)
                seen.append(following.stdout.readline())
        finally:
            following.kill()
            following.communicate()
        assert b'"later":1' in seen[1] and b'"later":1' in seen[2]
        assert seen == [record.raw + b"\n" for record in log.records()]


COMMAND = (sys.executable, "-P", "-m", "unspool.cli")


def command(*args: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *map(str, args)], capture_output=True, text=True, timeout=30, check=False
    )


class Newer(Codec):
    """That of a version that knows more of each fact."""

    def encode(self, fact: Fact | Signal) -> bytes:
        return super().encode(fact)[:-1] + b',"later":1}'
