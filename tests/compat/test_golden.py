"""Logs of every format that was ever written are read as they were on the day they were made.

``golden/<format>/`` holds small logs (``make_golden.py`` says what is in them) and, beside them, what they fold to.
They are committed, and never changed: they stand for the logs that people keep.

When a test here fails:

- *The writer writes other bytes* (``test_what_is_written_is_what_was_written``). If nothing was meant to change,
  mend that. Else the format has changed: raise ``FORMAT`` in ``trajectory/header.py``, run
  ``python tests/compat/make_golden.py``, which makes a new folder, and commit that. The old folder stays, in
  ``READ`` below, as long as its format is read; when it no longer is, move its number to ``REFUSED``.
- *A kind is in no golden log* (``test_every_kind_occurs``). A new kind of fact or content does not change the
  format: old logs stay as they are. Tell it in ``make_golden.py``, delete the folder of the newest format *if no
  release has been made with it*, and make it again; after a release make a folder beside it
  (``make(GOLDEN / "2-handoffs")``) and add that to ``READ``.
- *The state is another* (``test_they_fold_to_what_they_did``). A field that the state has gained is no fault. Any
  other difference means that sessions which people keep would come back as something else: mend the fold.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import pytest

from unspool import Agent, LogError, fold
from unspool.kernel.codec import Codec, Record
from unspool.kernel.events import KnownFact, UnknownFact
from unspool.kernel.messages import Content, OpaqueMessage
from unspool.llm.scripted import ScriptedModel
from unspool.trajectory import (
    JsonlLog,
    JsonlSessions,
    SqliteSessions,
    fork_log,
    load,
    requests,
    verify,
)
from unspool.trajectory.header import FORMAT, MAGIC
from unspool.trajectory.record import NO_HASH, body_of, seal

from .make_golden import DATABASE, GOLDEN, as_json, codec, contents, make

READ: Final = ("2",)
"""The golden logs that this version reads."""
REFUSED: Final = (1, 3)
"""Formats that it does not read: given up, or not there yet."""
NAMES: Final = ("story", "fork", "future")
STORES: Final = ("jsonl", "sqlite")


@pytest.fixture(params=READ)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the golden logs of one format."""
    return Path(shutil.copytree(GOLDEN / request.param, tmp_path / "golden"))


def opened(folder: Path, store: str, known: Codec | None = None) -> Any:
    known = codec() if known is None else known
    return (
        JsonlSessions(folder, known)
        if store == "jsonl"
        else SqliteSessions(folder / DATABASE, known, create=False)
    )


def tags(union: Any) -> set[str]:
    return {kind.__struct_config__.tag for kind in get_args(union)}


def types(value: Any) -> Iterator[str]:
    """Every ``type`` that a piece of JSON names."""
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            yield value["type"]
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from types(inner)


# --- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize("store", STORES)
def test_they_fold_to_what_they_did(golden: Path, store: str) -> None:
    with opened(golden, store) as place:
        assert sorted(info.session for info in place.list()) == sorted(NAMES)
        for name in NAMES:
            expected = msgspec.json.decode((golden / f"{name}.state.json").read_bytes())
            state = fold(place.facts(name))
            found = msgspec.json.decode(as_json(state))
            assert {key: found.get(key) for key in expected} == expected, name
            with place.open(name) as log:
                assert log.state() == state
                log.snapshot()
                assert log.state() == state
                made: Agent[str] = Agent(ScriptedModel(), log=log, codec=codec())
                assert made.state == state


@pytest.mark.parametrize("store", STORES)
def test_they_are_whole(golden: Path, store: str) -> None:
    with opened(golden, store) as place:
        for name in NAMES:
            report = place.verify(name)
            assert report.ok and report.session == name, report.damage
            assert [fact.seq for fact in place.facts(name)] == list(range(1, place.info(name).facts + 1))


@pytest.mark.parametrize("store", STORES)
def test_what_was_sent_is_made_again(golden: Path, store: str) -> None:
    with opened(golden, store) as place:
        for name, count in (("story", 4), ("fork", 3), ("future", 0)):
            rebuilt = list(requests(place.facts(name)))
            assert [request.exact for request in rebuilt] == [True] * count
        assert list(requests(golden / "story.jsonl")) == list(requests(place.facts("story")))


def test_they_read_the_same_without_the_class_of_a_message(golden: Path) -> None:
    known, unknown = load(golden / "story.jsonl", codec()), load(golden / "story.jsonl")
    here = {type(message).__name__ for message in fold(known).messages}
    gone = [message for message in fold(unknown).messages if isinstance(message, OpaqueMessage)]
    assert here == {"Message", "Card"}
    assert [message.text for message in gone] == ["The card seven."]
    assert all(request.exact for request in requests(unknown))
    records = [codec().encode(fact) for fact in known]
    assert [Codec().encode(fact) for fact in unknown] == records


@pytest.mark.parametrize("store", STORES)
def test_what_is_not_known_is_kept(golden: Path, store: str) -> None:
    with opened(golden, store) as place:
        changed, unknown, said = place.records("future")
        assert isinstance(unknown.fact, UnknownFact) and unknown.fact.type == "from_the_future"
        assert b'"x":[1e2,"\\u00e9\\/",{"$blob":"no"}],"x":null' in unknown.raw
        assert b'"subtitle":{"lang":"en"}' in changed.raw and changed.fact.title == "From the future"
        text, sound = said.fact.message.content
        assert (text.text, sound.data) == ("Hear this.", {"type": "sound", "data": "aGk="})
        assert b'"mood":"glad"' in said.raw


# --- writing -----------------------------------------------------------------------------------


def written(folder: Path) -> dict[str, bytes]:
    """The JSONL files of a folder and their blobs."""
    paths = [*folder.glob("*.jsonl"), *folder.glob("*.blobs/*/*")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("name", NAMES)
def test_records_are_written_again_as_the_same_bytes(golden: Path, tmp_path: Path, name: str) -> None:
    """What a reader gives, put into a log that begins with the same header, is the same file."""
    source, target = golden / f"{name}.jsonl", tmp_path / "again" / f"{name}.jsonl"
    target.parent.mkdir()
    header = source.read_bytes().split(b"\n", 1)[0]
    if name == "fork":
        shutil.copy(golden / "story.jsonl", target.parent)
        shutil.copytree(golden / "story.jsonl.blobs", target.parent / "story.jsonl.blobs")
    target.write_bytes(header + b"\n")
    with opened(golden, "jsonl") as place, JsonlLog(target, codec()) as log:
        for fact, raw in place.records(name):
            if fact.seq > log.seq:
                log.append(as_stored(fact, raw))
    again = written(target.parent)
    assert again == {key: data for key, data in written(golden).items() if key in again}
    assert f"{name}.jsonl" in again


def as_stored(fact: Any, raw: bytes) -> Any:
    """A fact with the very bytes of its record: what this version does not know is in them."""
    return UnknownFact(seq=fact.seq, time=fact.time, type="?", raw=raw)


@pytest.mark.parametrize("store", STORES)
def test_facts_are_encoded_as_their_records(golden: Path, store: str) -> None:
    known = codec()
    with opened(golden, store) as place:
        records: list[Record] = [*place.records("story"), *place.records("fork")]
    assert [known.encode(record.fact) for record in records] == [record.raw for record in records]


def test_what_is_written_is_what_was_written(tmp_path: Path) -> None:
    """The golden logs of the current format, made again, are the ones that are committed."""
    committed, made = GOLDEN / str(FORMAT), tmp_path / "made"
    make(made)
    assert written(made) == written(committed)
    copy = shutil.copy(committed / DATABASE, tmp_path / "copy.db")
    assert contents(made / DATABASE) == contents(Path(copy))
    for path in sorted(committed.glob("*.json")):
        assert (made / path.name).read_bytes() == path.read_bytes(), path.name


def test_every_kind_occurs() -> None:
    """A kind of fact or of content that is new needs a golden log."""
    found = set()
    for folder in READ:
        for path in (GOLDEN / folder).glob("*.jsonl"):
            for line in path.read_bytes().splitlines():
                found |= set(types(msgspec.json.decode(line)))
    assert str(FORMAT) in READ
    assert tags(KnownFact) | tags(Content) <= found
    assert {"from_the_future", "sound"} <= found


def test_every_field_occurs() -> None:
    """A field that is new needs a golden log, too; one that has its default is not written."""
    story = [
        msgspec.json.decode(line) for line in (GOLDEN / str(FORMAT) / "story.jsonl").read_bytes().splitlines()
    ]
    found: dict[str, set[str]] = {}
    for record in story[1:]:
        found.setdefault(record["type"], set()).update(record)
    for kind in get_args(KnownFact):
        missing = set(kind.__struct_fields__) - found[kind.__struct_config__.tag] - {"run_id"}
        assert not missing, (kind.__name__, missing)


# --- other formats -----------------------------------------------------------------------------


def in_format(header: bytes, version: int) -> bytes:
    """A header as another version would write it; format 1 had no seals."""
    body = body_of(header).replace(b'"format":%d' % FORMAT, b'"format":%d' % version)
    assert body.startswith(MAGIC)
    return body if version == 1 else seal(body, NO_HASH).line


@pytest.mark.parametrize("version", REFUSED)
def test_other_formats_are_refused(tmp_path: Path, version: int) -> None:
    path = tmp_path / "story.jsonl"
    header, rest = (GOLDEN / str(FORMAT) / path.name).read_bytes().split(b"\n", 1)
    before = in_format(header, version) + b"\n" + rest
    path.write_bytes(before)
    acts: list[Callable[[], Any]] = [
        lambda: load(path),
        lambda: JsonlLog(path),
        lambda: fork_log(path, tmp_path / "f.jsonl"),
        lambda: JsonlSessions(tmp_path).open("story"),
    ]
    for act in acts:
        with pytest.raises(LogError, match=expected(version)) as caught:
            act()
        details = {key: caught.value.details[key] for key in ("kind", "format", "supported", "writer")}
        assert details == {
            "kind": "format",
            "format": version,
            "supported": FORMAT,
            "writer": "unspool golden",
        }
    assert [damage.kind for damage in verify(path).damage] == ["format"]
    (info,) = JsonlSessions(tmp_path).list()
    assert expected(version) in info.problem
    assert path.read_bytes() == before and not (tmp_path / "f.jsonl").exists()


def expected(version: int) -> str:
    what = "a newer format, a newer unspool can read it" if version > FORMAT else "an old format"
    return f"log: written in {what}"


@pytest.mark.parametrize("version", REFUSED)
def test_sqlite_files_of_other_formats_are_refused(golden: Path, version: int) -> None:
    with closing(sqlite3.connect(golden / DATABASE)) as database:
        database.execute(f"PRAGMA user_version = {version}")
        database.commit()
    with pytest.raises(LogError) as caught:
        opened(golden, "sqlite")
    assert {key: caught.value.details[key] for key in ("kind", "format", "supported")} == {
        "kind": "format",
        "format": version,
        "supported": FORMAT,
    }
