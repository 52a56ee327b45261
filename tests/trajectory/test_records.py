"""Records: their seals, the texts that are stored apart, and what may be in them at all."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool import Codec, Fact, LogError, MessageEnd, Text, ToolExecStart, TurnStart, fold, user_message
from unspool.kernel.events import AppMessage, UnknownFact
from unspool.kernel.messages import Opaque, OpaqueMessage
from unspool.trajectory import FolderBlobs, JsonlLog, load, load_records, verify
from unspool.trajectory.blobs import THRESHOLD, attach, detach, digest_of, references
from unspool.trajectory.header import make_header, seal_header
from unspool.trajectory.record import NO_HASH, SEAL, body_of, hash_of_record, prev_of, seal
from unspool.trajectory.strict import encode

DIGEST = digest_of(b"x")
BIG = 'é\n\\"' * THRESHOLD

# --- seals -------------------------------------------------------------------------------------

bodies = st.dictionaries(st.text(), st.text() | st.integers(), min_size=1).map(msgspec.json.encode)
hashes = st.binary(min_size=16, max_size=16).map(lambda data: seal(b"{}", NO_HASH + data).hash)


@given(bodies, hashes)
def test_a_sealed_record_is_json_and_gives_back_what_was_sealed(body: bytes, before: bytes) -> None:
    line, hashed = seal(body, before)
    assert (hash_of_record(line), prev_of(line), body_of(line)) == (hashed, before, body)
    assert len(line) == len(body) + SEAL - 1
    read = json.loads(line)
    assert read == json.loads(body) | {"prev": before.decode(), "sum": hashed[:8].decode()}


def test_every_bit_of_a_record_is_sealed() -> None:
    line = seal(b'{"type":"turn_end","index":1,"seq":7}', NO_HASH).line
    for index, byte in enumerate(line):
        for bit in range(8):
            assert hash_of_record(line[:index] + bytes([byte ^ 1 << bit]) + line[index + 1 :]) is None
    for cut in range(len(line)):
        assert hash_of_record(line[:cut]) is None
        assert hash_of_record(line[cut + 1 :]) is None


def test_fields_of_a_fact_that_are_called_like_a_seal_stay(tmp_path: Path) -> None:
    raw = b'{"type":"later","seq":1,"prev":"mine","sum":"mine"}'
    with JsonlLog(tmp_path / "log") as log:
        log.append(UnknownFact(seq=1, type="later", raw=raw))
    assert load(tmp_path / "log") == [UnknownFact(seq=1, type="later", raw=raw)]


# --- texts that are stored apart ----------------------------------------------------------------

keys = (
    st.sampled_from(["$blob", "$blob_", "$blob__", "$blobs", "bytes", "a", "k" * 50, '"', "\\"]) | st.text()
)
texts = (
    st.text(st.characters())  # lone surrogates too, as escapes
    | st.text('\\"{}:,\u2028é😀\0', max_size=80)
    | st.sampled_from([DIGEST, f'{{"$blob":"{DIGEST}","bytes":1}}', "x" * 200])
)
references_alike = st.fixed_dictionaries({"$blob": st.just(DIGEST), "bytes": st.integers(0, 99)})
values = st.recursive(
    texts | st.integers() | st.floats() | st.none() | references_alike,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
styles = st.fixed_dictionaries(
    {
        "ensure_ascii": st.booleans(),
        "indent": st.sampled_from([None, 1]),
        "separators": st.sampled_from([(",", ":"), (", ", ": "), (" ,", " :\t")]),
    }
)


def put_into(blobs: dict[str, bytes]) -> Any:
    def put(data: bytes) -> str:
        blobs[digest_of(data)] = data
        return digest_of(data)

    return put


@settings(max_examples=200)
@given(st.dictionaries(keys, values, min_size=1), styles, st.integers(1, 120))
def test_what_is_detached_comes_back_byte_for_byte(value: Any, style: Any, threshold: int) -> None:
    """Whoever wrote it, however: unknown kinds come in any form of JSON."""
    body = json.dumps(value, **style).encode("utf-8", "surrogatepass")
    blobs: dict[str, bytes] = {}
    stored = detach(body, put_into(blobs), threshold)
    assert attach(stored, blobs.__getitem__) == body
    assert {digest: len(data) for digest, data in blobs.items()} == dict(references(stored))
    json.loads(stored.decode("utf-8", "surrogatepass"))


@given(st.dictionaries(keys, texts.filter(lambda text: text.isascii()), min_size=1), st.integers(70, 120))
def test_every_long_string_is_detached_and_each_once(value: dict[str, str], threshold: int) -> None:
    blobs: dict[str, bytes] = {}
    body = msgspec.json.encode(value | {"again": value})
    detach(body, put_into(blobs), threshold)
    long = {text for text in value.values() if len(msgspec.json.encode(text)) > threshold}
    assert set(blobs.values()) == ({text.encode() for text in long} if len(body) > threshold else set())


ODD = {
    "its own reference": (b'{"$blob":"%s","bytes":1}' % DIGEST.encode(), b'{"$blob_":"%s","bytes":1}' % DIGEST.encode()),
    "one escaped before": (b'[{"$blob_":{"$blob__":1}}]', b'[{"$blob__":{"$blob___":1}}]'),
    "in a text": (b'{"a":"{\\"$blob\\":"}', b'{"a":"{\\"$blob\\":"}'),
    "with white space": (b'{ "$blob":"%s","bytes":1}' % DIGEST.encode(), None),
    "not first": (b'{"a":1,"$blob":"%s","bytes":1}' % DIGEST.encode(), None),
    "a long key": (b'{"%s" \n:1}' % (b"k" * 200), None),
    "an escape of somebody else's": (b'{"a":"%s"}' % (b"\\u0041" * 50), None),
    "half a pair": (b'{"a":"%s"}' % (b"\\ud800" * 50), None),
    "no UTF-8": (b'{"a":"%s"}' % (b"\xff" * 200), None),
    "an escaped quote at the end": (b'{"a":"%s\\\\\\"\\\\"}' % (b"x" * 9), None),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_what_looks_odd_stays_as_it_is(name: str) -> None:
    body, stored = ODD[name]
    blobs: dict[str, bytes] = {}
    assert detach(body, put_into(blobs), 100) == (stored or body)
    assert attach(stored or body, blobs.__getitem__) == body
    assert blobs == {} and references(stored or body) == []


def test_a_blob_that_is_no_text_is_an_error() -> None:
    with pytest.raises(LogError, match="no text"):
        attach(b'{"a":{"$blob":"%s","bytes":1}}' % DIGEST.encode(), lambda digest: b"\xff")


def test_large_texts_are_files_beside_the_log_each_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    facts = [MessageEnd(f"m{seq}", user_message(BIG), seq=seq) for seq in (1, 2)]
    with JsonlLog(path) as log:
        for fact in facts:
            log.append(fact)
    digest = digest_of(BIG.encode())
    assert path.stat().st_size < 2_000
    assert [file for file in (tmp_path / "log.blobs").rglob("*") if file.is_file()] == [
        tmp_path / "log.blobs" / digest[:2] / digest
    ]
    assert (tmp_path / "log.blobs" / digest[:2] / digest).read_text() == BIG
    assert load(path) == facts
    assert verify(path).ok


# --- a folder of blobs --------------------------------------------------------------------------


def test_a_harmed_blob_is_put_again_whole(tmp_path: Path) -> None:
    blobs = FolderBlobs(str(tmp_path / "blobs"))
    digest = blobs.put(b"x")
    Path(blobs.path_of(digest)).write_bytes(b"y")
    with pytest.raises(LogError, match="a blob was changed"):
        blobs.get(digest)
    assert blobs.get(blobs.put(b"x")) == b"x"
    with pytest.raises(LogError, match="a blob is missing"):
        blobs.get(digest_of(b"z"))


DIES = """
import os, signal, sys
from unspool import LogError, MessageEnd, user_message
from unspool.trajectory import JsonlLog
log = JsonlLog(sys.argv[1])
os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
log.append(MessageEnd("m1", user_message("x" * 20_000), seq=1))
"""


def test_what_a_killed_writer_left_half_written_is_removed(tmp_path: Path) -> None:  # B174
    path = tmp_path / "log"
    died = subprocess.run([sys.executable, "-P", "-c", DIES, str(path)], check=False)
    assert died.returncode == -signal.SIGKILL
    blobs = tmp_path / "log.blobs"
    assert [file.suffix for file in blobs.rglob("*") if file.is_file()] == [".part"]
    assert load(path) == []  # a reader removes nothing: there may be a writer
    assert list(blobs.rglob("*.part"))
    with JsonlLog(path) as log:
        assert not list(blobs.rglob("*.part"))
        log.append(MessageEnd("m1", user_message("x" * 20_000), seq=1))
    assert verify(path).ok


PUTS = """
import sys
from unspool.trajectory import FolderBlobs
blobs = FolderBlobs(sys.argv[1])
for number in range(200):
    blobs.put(b"%d " % number * 20_000)
    print(number, flush=True)
"""


def test_two_processes_put_the_same_and_are_killed(tmp_path: Path) -> None:  # B174
    """Each file is one whole content at any time, whoever wrote it."""
    run = [sys.executable, "-P", "-c", PUTS, str(tmp_path / "blobs")]
    first, second = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process, last in ((first, 40), (second, 80)):
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == last:
                process.kill()
                break
        process.wait()
        process.stdout.close()
    blobs = FolderBlobs(str(tmp_path / "blobs"))
    for number in range(81):
        assert blobs.get(digest_of(b"%d " % number * 20_000)) == b"%d " % number * 20_000
    blobs.clean()
    for file in (tmp_path / "blobs").rglob("*"):
        assert file.is_dir() or digest_of(file.read_bytes()) == file.name


def test_the_disk_has_blobs_before_the_records_that_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the names of new folders; a blob that an earlier writer put is waited for as well."""
    folder = tmp_path / "blobs"
    digest = FolderBlobs(str(folder)).put(b"x")
    blobs, synced = FolderBlobs(str(folder)), list[str]()
    blobs.put(b"x")
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    blobs.sync()
    assert synced[0] == blobs.path_of(digest)
    assert set(synced[1:]) == {str(folder / digest[:2]), str(folder), str(tmp_path)}
    blobs.sync()
    assert len(synced) == 4


# --- what comes back ----------------------------------------------------------------------------

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | keys, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), plain))
def test_any_json_comes_back_as_it_was(args: dict[str, Any]) -> None:
    fact, codec = ToolExecStart("c1", "echo", args=args, seq=1), Codec()
    blobs: dict[str, bytes] = {}
    line, _ = seal(detach(encode(codec, fact), put_into(blobs), 20), NO_HASH)
    assert codec.decode(attach(line, blobs.__getitem__)) == fact


SEPARATORS = "\x00\x0b\x0c\r\x1c\x1d\x1e\x7f\x85\u2028\u2029\ufeff"


@pytest.mark.parametrize("separator", SEPARATORS)
def test_only_the_newline_ends_a_record(tmp_path: Path, separator: str) -> None:  # B172
    text = f"a{separator}b\n{separator}"
    raw = '{"type":"later","seq":2,"x":"a%sb"}' % (separator if separator >= "\x7f" else "-")
    facts: list[Fact] = [
        MessageEnd("m1", user_message(text), seq=1),
        UnknownFact(seq=2, type="later", raw=raw.encode()),
    ]
    with JsonlLog(tmp_path / "log") as log:
        for fact in facts:
            log.append(fact)
    stored = (tmp_path / "log").read_bytes()
    assert stored.count(b"\n") == 3
    assert (separator.encode() in stored) == (separator >= "\x7f")  # in their own form where JSON lets them
    assert load(tmp_path / "log") == facts
    assert verify(tmp_path / "log").ok


def later(seq: int, text: str = "x") -> bytes:
    return b'{"type":"hologram","seq":%d, "z":[1.50,1e400],"big":"%s"}' % (seq, text.encode())


def test_what_is_unknown_survives_from_log_to_log(tmp_path: Path) -> None:  # B176
    """Read, folded and written to another log byte for byte, whether it is large or not."""
    bodies = [
        b'{"type":"turn_start","index":1,"seq":1,"mood":{"$blob":"fine"}}',
        later(2),
        later(3, "y" * 20_000),
        b'{"type":"message_end","id":"m1","seq":4,"message":{"role":"user","content":'
        b'[{"type":"smell","of":"%s"},{"type":"text","text":"a","font":"x"}]},"later":"%s"}'
        % (b"z" * 20_000, b"w" * 20_000),
    ]
    path = tmp_path / "first"
    for source, target in (("", "first"), ("first", "second"), ("second", "third")):
        raws = [record.raw for record in load_records(tmp_path / source)] if source else bodies
        with JsonlLog(tmp_path / target) as log:
            for seq, raw in enumerate(raws, 1):
                log.append(UnknownFact(seq=seq, type="any", raw=raw))
        path = tmp_path / target
        assert path.stat().st_size < 3_000  # what is large is elsewhere
    assert [record.raw for record in load_records(path)] == bodies
    first, second, third, fourth = load(path)
    assert first == TurnStart(1, seq=1)
    assert (second, third) == tuple(
        UnknownFact(seq=seq, type="hologram", raw=raw) for seq, raw in ((2, bodies[1]), (3, bodies[2]))
    )
    assert isinstance(fourth, MessageEnd) and fourth.message is not None
    assert fourth.message.content == (
        Opaque(provider="", data={"type": "smell", "of": "z" * 20_000}),
        Text("a"),
    )
    state = fold([first, second, third, fourth])
    assert (state.seq, len(state.messages)) == (4, 1)
    assert state == fold(load(path))


def test_a_known_kind_with_a_wrong_body_is_no_unknown_kind(tmp_path: Path) -> None:  # B176
    """Tolerance is for the tag alone: it is loud, and a gap for whoever salvages."""
    path, before = tmp_path / "log", seal_header(make_header("s1", 1.5))
    stored = [before.line]
    for raw in (b'{"type":"turn_start","index":1,"seq":1}', b'{"type":"turn_end","index":"one","seq":2}'):
        before = seal(raw, before.hash)
        stored.append(before.line)
    path.write_bytes(b"\n".join([*stored, b""]))
    with pytest.raises(LogError, match=r"damaged record .*line=3, .*seq=2.*\$\.index"):
        load(path)
    assert [(damage.kind, damage.seq, damage.line) for damage in verify(path).damage] == [
        ("undecodable", 2, 3)
    ]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not a JSON record"),
        (b"garbage", "not a JSON record"),
        (b'{"type":"later"', "not an event"),
        (b'{"seq":1}', "not an event"),
        (b'{"type":"later","seq":2}', "number in its bytes is another"),
        (b'{"type":"later","seq":1} ', "white space after"),
        (b'{"type":"later","seq":1}\r', "white space after"),
        (b'{"type":"later","seq":1\n}', "line end"),
        (b'{"type":"turn_start","index":"one","seq":1}', "does not fit its type"),
        (b'{"type":"later","seq":1,"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "nested too deep"),
    ],
)
def test_bytes_that_could_not_be_read_again_are_refused(tmp_path: Path, raw: bytes, reason: str) -> None:
    with JsonlLog(tmp_path / "log") as log:
        with pytest.raises(LogError, match=reason):
            log.append(UnknownFact(seq=1, type="later", raw=raw))
        log.append(TurnStart(1, seq=1))
    assert load(tmp_path / "log") == [TurnStart(1, seq=1)]


class Note(msgspec.Struct, frozen=True):
    text: str
    weight: float = 1.0


@pytest.mark.parametrize("text", ["short", BIG])
def test_a_custom_message_outlives_its_class(tmp_path: Path, text: str) -> None:
    """It comes back opaque where its class is gone, and is written as it was."""
    codec = Codec()
    codec.register("note", Note)
    fact = MessageEnd("m1", user_message("see note"), AppMessage("note", Note(text)), seq=1)
    with JsonlLog(tmp_path / "first", codec) as log:
        log.append(fact)
    (stranger,) = load(tmp_path / "first")
    assert isinstance(stranger, MessageEnd) and stranger.app is not None
    assert isinstance(stranger.app.value, OpaqueMessage)
    assert [type(message) for message in fold([stranger]).messages] == [OpaqueMessage]
    with JsonlLog(tmp_path / "second") as log:
        log.append(stranger)
    (first,), (second,) = load_records(tmp_path / "first"), load_records(tmp_path / "second")
    assert first.raw == second.raw == codec.encode(fact)
    assert load(tmp_path / "second", codec) == [fact]
