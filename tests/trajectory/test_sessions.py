"""Many sessions in one place: a folder of JSONL files, a SQLite file, or memory; all do the same."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from msgspec import Struct
from msgspec.structs import replace

from unspool import Agent, Codec, ErrorEvent, Fact, LogError, MessageEnd, TurnStart, fold, user_message
from unspool.kernel.events import AppMessage, ContextCompacted, Replaced, SessionChanged, Stored, UnknownFact
from unspool.llm.scripted import ScriptedModel
from unspool.trajectory import (
    JsonlLog,
    JsonlSessions,
    Parent,
    SessionHandle,
    Sessions,
    SqliteSessions,
    before_message,
    fork_log,
    forking,
    jsonl,
    lease,
    load,
    verify,
)
from unspool.trajectory.header import make_header, read_header, seal_header
from unspool.trajectory.record import seal

Open: TypeAlias = "Callable[..., Sessions]"
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
LONG = "long text " * 2000  # stored apart


def turn(seq: int) -> TurnStart:
    return TurnStart(seq, seq=seq, time=1000.0 + seq)


def said(seq: int, text: str) -> ErrorEvent:
    return ErrorEvent("x", message=text, seq=seq, time=1000.0 + seq)


@pytest.fixture(params=["jsonl", "sqlite", "memory"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(kind: str, tmp_path: Path) -> Iterator[Open]:
    """Opens the one place of a test, with options; again for each handle. All are closed at the end."""
    handles: list[Sessions] = []

    def make(**options: Any) -> Sessions:
        if kind == "jsonl":
            handles.append(JsonlSessions(tmp_path / "sessions", **options))
        else:
            handles.append(
                SqliteSessions(":memory:" if kind == "memory" else tmp_path / "logs.db", **options)
            )
        return handles[-1]

    yield make
    for handle in handles:
        handle.close()


@pytest.fixture
def sessions(opened: Open) -> Sessions:
    return opened()


def file_of(sessions: Sessions, session: str) -> Path:
    return Path(sessions.path) / f"{session}.jsonl"


def python(sessions: Sessions, code: str) -> "subprocess.Popen[str]":
    """Another process that has the same place as ``sessions``."""
    place = f"sessions = {type(sessions).__name__}({sessions.path!r})"
    code = f"import sys\nfrom unspool import *\nfrom unspool.trajectory import *\n{place}\n{code}\nsessions.close()"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def result(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    return out


def fill(sessions: Sessions, session: str, count: int, **about: Any) -> list[Fact]:
    """A session that is begun with so many facts."""
    with sessions.create(session, **about) as log:
        extend(log, count - log.seq)
    return list(sessions.facts(session))


def extend(log: SessionHandle, count: int) -> None:
    for seq in range(log.seq + 1, log.seq + 1 + count):
        log.append(said(seq, LONG) if seq % 7 == 0 else turn(seq))


def names(sessions: Sessions, **wanted: Any) -> list[str]:
    return [info.session for info in sessions.list(**wanted)]


def size(sessions: Sessions) -> int:
    """Bytes that a place takes."""
    if isinstance(sessions, SqliteSessions):
        database = sessions._database
        (((count,),), ((free,),)) = [
            database.rows(f"PRAGMA {name}") for name in ("page_count", "freelist_count")
        ]
        return (int(count) - int(free)) * 4096
    return sum(path.stat().st_size for path in Path(sessions.path).rglob("*") if path.is_file())


# --- begin, go on, say what there is ------------------------------------------------------------


def test_a_session_is_begun_gone_on_with_and_described(sessions: Sessions) -> None:
    with sessions.create("a", title="A title", metadata={"n": [1]}, namespace="x/y", sender="me") as log:
        assert (log.session, log.seq) == ("a", 1)
        log.append(turn(2))
    with sessions.open("a") as log:
        assert log.seq == 2 and log.head.seq == 2
        log.append(turn(3))
    info = sessions.info("a")
    assert info == sessions.list()[0]
    assert (info.session, info.title, info.metadata) == ("a", "A title", {"n": [1]})
    assert (info.namespace, info.sender, info.facts, info.parent, info.problem) == ("x/y", "me", 3, None, "")
    assert info.updated == 1003.0 and info.created > 1e9
    assert [type(fact) for fact in sessions.facts("a")] == [SessionChanged, TurnStart, TurnStart]
    assert [record.fact for record in sessions.records("a")] == list(sessions.facts("a"))
    assert sessions.verify("a").ok


def test_an_id_is_given_or_random_and_in_the_header(sessions: Sessions) -> None:  # T395
    with sessions.create() as first, sessions.create() as second, sessions.create("My-id_1.x") as third:
        assert first.session != second.session and re.fullmatch("[0-9a-f]{32}", first.session)
        assert third.session == "My-id_1.x"
    assert set(names(sessions)) == {first.session, second.session, "My-id_1.x"}
    assert fold(sessions.facts("My-id_1.x")).seq == 0


BAD_IDS = [
    "../a",
    "a/b",
    "/etc/passwd",
    "a\\b",
    ".",
    "..",
    ".hidden",
    "-x",
    "_x",
    "a b",
    "a\n",
    "a\0",
    "é",
    "x" * 129,
    "~",
    "C:a",
]


@pytest.mark.parametrize("session", BAD_IDS)
def test_ids_that_lead_elsewhere_are_refused(sessions: Sessions, session: str, tmp_path: Path) -> None:
    fill(sessions, "a", 1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(LogError, match="id is made of"):
        sessions.create(session)
    with pytest.raises(LogError, match="id is made of"):
        sessions.fork("a", to=session)
    for use in (
        sessions.open,
        sessions.info,
        sessions.fork,
        sessions.delete,
        sessions.annotate,
        sessions.verify,
        sessions.salvage,
    ):
        with pytest.raises(LogError):
            use(session)
    assert sorted(tmp_path.rglob("*")) == before and names(sessions) == ["a"]


def test_an_id_is_used_once(sessions: Sessions) -> None:
    facts = fill(sessions, "a", 2)
    with pytest.raises(LogError, match="such a session already") as caught:
        sessions.create("a")
    assert caught.value.details["kind"] == "exists"
    with pytest.raises(LogError) as caught:
        sessions.fork("a", to="a")
    assert caught.value.details["kind"] == "exists"
    assert list(sessions.facts("a")) == facts


@BACKENDS
def test_a_session_that_is_not_there(sessions: Sessions, backend: str) -> None:
    fill(sessions, "a", 1)
    uses: list[Callable[[str], object]] = [
        sessions.open, sessions.info, sessions.fork, sessions.annotate, sessions.delete, sessions.verify,
        sessions.salvage, lambda name: list(sessions.facts(name)), lambda name: list(sessions.records(name)),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(LogError, match="there is no such session") as caught:
            use("b")
        assert (caught.value.details["kind"], caught.value.details["session"]) == ("no_session", "b")

    async def main() -> None:
        with pytest.raises(LogError, match="there is no such session"):
            async with aclosing(sessions.follow("b")) as facts:
                await anext(facts)

    anyio.run(main, backend=backend)
    assert names(sessions) == ["a"]


def test_nothing_is_left_of_a_session_whose_title_is_refused(sessions: Sessions) -> None:
    with pytest.raises(LogError, match="cannot be stored"):
        sessions.create("a", title="t", metadata={"x": LONG, "when": object()})
    assert sessions.list() == []
    sessions.create("a").close()


def test_an_empty_place(sessions: Sessions) -> None:  # T397
    assert sessions.list() == [] and sessions.list(limit=1) == []


# --- lists ---------------------------------------------------------------------------------------


def test_newest_first_by_the_last_fact(sessions: Sessions) -> None:  # T390, T397
    for name, when in (("a", 5.0), ("b", 9.0), ("c", 1.0), ("d", 9.0)):
        with sessions.create(name) as log:
            log.append(TurnStart(1, seq=1, time=when))
    assert names(sessions) == ["b", "d", "a", "c"]
    assert names(sessions, limit=1) == ["b"] and names(sessions, limit=0) == []
    with sessions.open("c") as log:
        log.append(TurnStart(2, seq=2, time=20.0))
    assert names(sessions, limit=2) == ["c", "b"]
    sessions.create("e").close()  # nothing happened in it yet: it is as new as its header
    assert names(sessions)[0] == "e"
    assert sessions.info("e").updated == sessions.info("e").created


def test_by_namespace_and_below_and_by_sender(sessions: Sessions) -> None:
    for name, namespace, sender in (
        ("a", "", "ann"), ("b", "shop", "bob"), ("c", "shop/eu", "ann"), ("d", "shop/eu/de", "bob"),
        ("e", "shopping", "ann"), ("f", "x%y_z", ""),
    ):  # fmt: skip
        fill(sessions, name, 1, namespace=namespace, sender=sender)
    assert sorted(names(sessions)) == list("abcdef")
    assert sorted(names(sessions, namespace="shop")) == ["b", "c", "d"]
    assert sorted(names(sessions, namespace="shop/")) == ["c", "d"]
    assert sorted(names(sessions, namespace="shop/eu")) == ["c", "d"]
    assert sorted(names(sessions, namespace="")) == ["a"]
    assert sorted(names(sessions, namespace="sho")) == []
    assert sorted(names(sessions, namespace="x%y_z")) == ["f"]
    assert sorted(names(sessions, sender="ann")) == ["a", "c", "e"]
    assert sorted(names(sessions, namespace="shop", sender="ann")) == ["c"]
    assert names(sessions, namespace="shop", limit=1) == names(sessions, namespace="shop")[:1]


def test_titles_and_metadata(sessions: Sessions) -> None:  # T399
    fill(sessions, "a", 2)
    assert (sessions.info("a").title, sessions.info("a").metadata) == ("", {})
    sessions.annotate("a", title="one")
    sessions.annotate("a", metadata={"x": 1, "$blob": "y"})
    assert (sessions.info("a").title, sessions.info("a").metadata) == ("one", {"x": 1, "$blob": "y"})
    sessions.annotate("a", title="two", metadata={"long": LONG})
    sessions.annotate("a")  # nothing
    assert (sessions.info("a").title, sessions.info("a").metadata) == ("two", {"long": LONG})
    sessions.annotate("a", title=LONG)
    assert sessions.info("a").title == LONG and sessions.list()[0].title == LONG
    sessions.annotate("a", title="", metadata={})
    assert (sessions.info("a").title, sessions.info("a").metadata) == ("", {})
    assert sessions.info("a").facts == 7
    assert fold(sessions.facts("a")).messages == fold([]).messages  # not in the conversation
    with pytest.raises(LogError, match="cannot be stored"):
        sessions.annotate("a", metadata={"x": {1}})
    assert sessions.info("a").facts == 7 and sessions.verify("a").ok


def test_a_title_inside_a_text_is_none(sessions: Sessions) -> None:
    with sessions.create("a", title="real") as log:
        log.append(said(2, '\n{"type":"session_changed","title":"false"}\n'))
    assert sessions.info("a").title == "real"


# --- forks ---------------------------------------------------------------------------------------


def test_a_fork_has_the_facts_up_to_its_point(sessions: Sessions) -> None:  # T393, T403, T405
    facts = fill(sessions, "a", 15, title="t")
    for at in range(16):
        fork = sessions.fork("a", at, to=f"f{at}")
        assert fork == f"f{at}" and list(sessions.facts(fork)) == facts[:at]
        info = sessions.info(fork)
        assert info.facts == at and info.parent is not None
        assert (info.parent.session, info.parent.seq) == ("a", at)
        assert sessions.verify(fork).ok
        with sessions.open(fork) as log:
            assert (log.session, log.seq) == (fork, at)
            log.append(turn(at + 1))
        assert list(sessions.facts(fork)) == [*facts[:at], turn(at + 1)]
        assert sessions.info(fork).facts == at + 1 and sessions.verify(fork).ok
    assert list(sessions.facts("a")) == facts
    assert list(sessions.facts(sessions.fork("a"))) == facts  # None: all


@pytest.mark.parametrize("at", [-1, -100, 4, 1 << 39, 1 << 41])
def test_a_fork_where_there_is_no_fact(sessions: Sessions, at: int) -> None:  # T394, T405
    fill(sessions, "a", 3)
    sessions.fork("a", 2, to="b")
    for session in ("a", "b"):
        with pytest.raises(LogError, match="no such fact to fork at") as caught:
            sessions.fork(session, at, to="c")
        assert (caught.value.details["kind"], caught.value.details["at"]) == ("no_fact", at)
    assert sorted(names(sessions)) == ["a", "b"]


def test_forks_of_forks(sessions: Sessions) -> None:  # T404
    model: dict[str, list[Fact]] = {"s0": fill(sessions, "s0", 8)}
    for number, (source, at, more) in enumerate(
        [("s0", 5, 3), ("s1", 7, 2), ("s2", 9, 4), ("s3", 6, 1), ("s3", 3, 2), ("s5", None, 0), ("s6", 0, 2), ("s7", 0, 0), ("s4", 5, 1)], 1
    ):  # fmt: skip
        fork = sessions.fork(source, at, to=f"s{number}")
        with sessions.open(fork) as log:
            extend(log, more)
        prefix = model[source][: len(model[source]) if at is None else at]
        model[fork] = [*prefix, *list(sessions.facts(fork))[len(prefix) :]]
        assert len(model[fork]) == len(prefix) + more
    for session, facts in model.items():
        assert list(sessions.facts(session)) == facts
        assert sessions.verify(session).ok and sessions.info(session).facts == len(facts)
        with sessions.open(session) as log:
            assert fold(record.fact for record in log.records()) == fold(facts)
    for session, facts in model.items():
        for at in range(len(facts) + 1):
            assert list(sessions.facts(sessions.fork(session, at))) == facts[:at]
    shared = sessions.info("s9").parent
    assert shared is not None and (shared.session, shared.seq) == ("s0", 5)  # who holds the fact itself


def test_parent_and_fork_go_on_each_by_itself(sessions: Sessions) -> None:  # T408
    with sessions.create("a") as parent:
        extend(parent, 3)
        sessions.fork("a", to="b")  # while it is written
        with sessions.open("b") as fork:
            for seq in range(4, 9):
                parent.append(said(seq, "parent"))
                fork.append(said(seq, "fork"))
            sessions.fork("a", 6, to="c")
            sessions.fork("b", 6, to="d")
    for session, whose in (("a", "parent"), ("b", "fork"), ("c", "parent"), ("d", "fork")):
        assert {getattr(fact, "message", "") for fact in list(sessions.facts(session))[3:]} == {whose}
        assert sessions.verify(session).ok


def test_a_fork_has_the_title_that_its_facts_give_it(sessions: Sessions) -> None:  # T399
    with sessions.create("a", title="one", metadata={"n": 1}) as log:
        log.append(turn(2))
        log.append(SessionChanged(seq=3, title="two", time=3.0))
        log.append(turn(4))
    titles = {at: sessions.info(sessions.fork("a", at)).title for at in range(5)}
    assert titles == {0: "", 1: "one", 2: "one", 3: "two", 4: "two"}
    fork = sessions.fork(sessions.fork("a", 4, to="b"), 2)
    assert (sessions.info(fork).title, sessions.info(fork).metadata) == ("one", {"n": 1})
    sessions.annotate("b", title="mine")
    assert (sessions.info("b").title, sessions.info("b").metadata) == ("mine", {"n": 1})
    assert sessions.info("a").title == "two"
    assert {info.session: info.title for info in sessions.list()}["b"] == "mine"


def test_a_fork_keeps_namespace_and_sender(sessions: Sessions) -> None:
    fill(sessions, "a", 3, namespace="x", sender="me")
    with sessions.open(sessions.fork(sessions.fork("a", 2), 1)):
        pass
    assert {(info.namespace, info.sender) for info in sessions.list()} == {("x", "me")}


@pytest.mark.parametrize("count", [10, 2000])
def test_a_fork_adds_less_than_a_kilobyte_at_any_length(sessions: Sessions, count: int) -> None:
    fill(sessions, "a", count)
    before = size(sessions)
    for number in range(50):
        sessions.fork("a", count - number % 10, to=f"fork-with-a-longer-name-{number}")
    assert (size(sessions) - before) / 50 < 1024


def test_the_unfinished_last_line_of_a_writer_is_not_forked(sessions: Sessions, kind: str) -> None:
    if kind != "jsonl":
        pytest.skip("SQLite writes whole records")
    facts = fill(sessions, "a", 3)
    with file_of(sessions, "a").open("ab") as file:
        file.write(b'{"type":"turn_start","ind')
    assert list(sessions.facts(sessions.fork("a"))) == facts
    assert sessions.info("a").facts == 3 and sessions.info("a").problem == ""


def test_forking_before_a_message_to_ask_again(sessions: Sessions) -> None:  # T382, T383, T384, T393
    """What a person does who edits a message: fork before it, and say something else."""

    async def main() -> None:
        with sessions.create("a") as log:
            agent = Agent(ScriptedModel(["one", "two"]), log=log)
            await agent.run("first")
            await agent.run("second")
            ids = agent.state.ids.since(0)
        facts = list(sessions.facts("a"))
        first, middle = (before_message(facts, ids[index]) for index in (0, 2))
        assert fold(facts[:first]).messages == fold([]).messages
        with sessions.open(sessions.fork("a", first)) as log:
            assert list(log.state().messages) == [] if isinstance(log, JsonlLog) else log.seq == first
        with sessions.open(sessions.fork("a", middle, to="b")) as log:
            agent = Agent(ScriptedModel(["three"]), log=log)
            assert [message.text for message in agent.state.messages] == ["first", "one"]
            await agent.run("another")
            assert fold(sessions.facts("b")) == agent.state
        texts = [message.text for message in fold(sessions.facts("b")).messages]
        assert texts == ["first", "one", "another", "three"]
        assert [message.text for message in fold(sessions.facts("a")).messages][2:] == ["second", "two"]

    anyio.run(main)


def test_the_conversation_of_a_branch(sessions: Sessions) -> None:  # T391, T392, T393, T401, T402
    """Messages, notes that are not in the conversation, a summary in the place of messages; and branches of it."""

    def message(seq: int, text: str) -> MessageEnd:
        return MessageEnd(f"m{seq}", user_message(text), seq=seq)

    summary = Stored(message=user_message("summary"))
    odd = UnknownFact(seq=2, type="note", raw=b'{"type":"note","seq":2,"text":"x"}')
    with sessions.create("a") as log:
        log.append(message(1, "1"))
        log.append(odd)
        log.append(message(3, "3"))
        log.append(
            ContextCompacted(
                committed=True, messages=(summary,), replaced=Replaced(first="m1", last="m3"), seq=4
            )
        )
        log.append(message(5, "5"))
    sessions.fork("a", 3, to="b")
    with sessions.open("b") as log:
        log.append(message(4, "4"))

    def texts(session: str) -> list[str]:
        return [message.text for message in fold(sessions.facts(session)).messages]

    assert texts("a") == ["summary", "5"] and texts("b") == ["1", "3", "4"]
    assert texts(sessions.fork("a", 1)) == ["1"] and texts(sessions.fork("a", 0)) == []
    assert list(sessions.facts("b"))[1] == odd


# --- deleting ------------------------------------------------------------------------------------


def test_deleting_leaves_nothing(sessions: Sessions, kind: str) -> None:
    fill(sessions, "a", 10)
    fill(sessions, "b", 10)
    kept = list(sessions.facts("b"))
    assert sessions.delete("a") == ["a"]
    assert names(sessions) == ["b"]
    with pytest.raises(LogError, match="no such session"):
        sessions.open("a")
    assert list(sessions.facts("b")) == kept and sessions.verify("b").ok
    if kind == "jsonl":
        assert sorted(os.listdir(sessions.path)) == ["b.jsonl", "b.jsonl.blobs"]
    with sessions.create("a") as log:  # the id is free again, and the session empty
        assert log.seq == 0
        log.append(turn(1))
    assert list(sessions.facts("a")) == [turn(1)]


def test_what_forks_share_is_not_deleted_under_them(sessions: Sessions) -> None:
    facts = fill(sessions, "a", 5)
    sessions.fork("a", 3, to="b")
    sessions.fork("b", 2, to="c")  # a fork of what a holds
    sessions.fork("b", to="d")
    with sessions.open("b") as log:
        extend(log, 2)
    sessions.fork("b", 5, to="e")
    with pytest.raises(LogError, match="forks share the facts") as caught:
        sessions.delete("a")
    assert caught.value.details["kind"] == "has_forks"
    assert sorted(caught.value.details["forks"]) == ["b", "c", "d"]
    assert sorted(names(sessions)) == list("abcde")
    assert sessions.delete("c") == ["c"] and sessions.delete("d") == ["d"]
    assert list(sessions.facts("e"))[:3] == facts[:3]
    fill(sessions, "z", 1)
    gone = sessions.delete("a", forks=True)
    assert sorted(gone) == ["a", "b", "e"] and gone[-1] == "a"
    assert names(sessions) == ["z"]


@pytest.mark.parametrize("busy", ["a", "b", "c"])
def test_a_session_with_a_writer_is_not_deleted_nor_are_others_with_it(sessions: Sessions, busy: str) -> None:
    fill(sessions, "a", 3)
    sessions.fork("a", 2, to="b")
    sessions.fork("a", 1, to="c")
    with sessions.open(busy) as log:
        with pytest.raises(LogError, match="another writer"):
            sessions.delete("a", forks=True)
        with pytest.raises(LogError, match="another writer"):
            sessions.annotate(busy, title="x")
        assert sorted(names(sessions)) == ["a", "b", "c"]
        log.append(turn(log.seq + 1))
    assert all(sessions.verify(session).ok for session in "abc")
    assert sorted(sessions.delete("a", forks=True)) == ["a", "b", "c"]


def test_a_large_text_goes_with_the_last_session_that_holds_it(sessions: Sessions) -> None:
    for session in ("a", "b"):
        with sessions.create(session) as log:
            log.append(said(1, LONG))
            log.append(said(2, f"{LONG} of {session}"))
    sessions.fork("a", to="c")
    sessions.delete("b")
    assert list(sessions.facts("c")) == list(sessions.facts("a")) == [said(1, LONG), said(2, f"{LONG} of a")]
    assert sessions.verify("a").ok
    if isinstance(sessions, SqliteSessions):
        assert sessions._database.rows("SELECT count(*) FROM blobs") == [(2,)]
    sessions.delete("a", forks=True)
    if isinstance(sessions, SqliteSessions):
        assert sessions._database.rows("SELECT count(*) FROM blobs") == [(0,)]
        for table in ("sessions", "records", "heads", "titles", "blob_uses"):
            assert sessions._database.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    else:
        assert os.listdir(sessions.path) == []


# --- writers, readers, followers ------------------------------------------------------------------


def test_a_session_has_one_writer(sessions: Sessions) -> None:
    with sessions.create("a") as log:
        with pytest.raises(LogError, match="another writer") as caught:
            sessions.open("a")
        assert caught.value.details["kind"] == "busy"
        with sessions.create("b") as other:  # another session is another matter
            other.append(turn(1))
        log.append(turn(1))
    with sessions.open("a") as log:
        assert log.seq == 1


def test_another_process_is_another_writer(sessions: Sessions, kind: str) -> None:
    if kind == "memory":
        pytest.skip("no other process has it")
    with sessions.create("a") as log:
        log.append(turn(1))
        said = result(python(sessions, "try: sessions.open('a')\nexcept LogError as error: print(error)"))
        assert "another writer" in said and "busy" in said
    code = "log = sessions.open('a')\nprint('open', flush=True)\nsys.stdin.readline()\nlog.close()"
    place = f"sessions = {type(sessions).__name__}({sessions.path!r})"
    other = subprocess.Popen(
        [sys.executable, "-P", "-c", f"import sys\nfrom unspool.trajectory import *\n{place}\n{code}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert other.stdout is not None and other.stdout.readline() == "open\n"
    for use in (sessions.open, sessions.delete, lambda name: sessions.annotate(name, title="x")):
        with pytest.raises(LogError, match="another writer"):
            use("a")
    assert list(sessions.facts("a")) == [turn(1)]  # to read needs no lease
    other.communicate("\n", timeout=30)
    sessions.open("a").close()


def test_readers_need_no_lease_and_see_whole_prefixes(sessions: Sessions, opened: Open, kind: str) -> None:
    """While a writer writes, what anybody reads is dense and as it was written."""
    reader = sessions if kind == "memory" else opened()
    errors: list[BaseException] = []
    done = threading.Event()
    log = sessions.create("a", title="t")
    extend(log, 20)
    sessions.fork("a", 20, to="b")

    def read() -> None:
        try:
            while not done.is_set():
                facts = list(reader.facts("a"))
                assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
                assert reader.info("a").facts >= len(facts) and len(list(reader.facts("b"))) == 20
                assert reader.list(limit=1)[0].problem == "" and reader.verify("b").ok
        except BaseException as error:  # noqa: BLE001 (told by the assertion)
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(150):
        extend(log, 2)
    done.set()
    for thread in threads:
        thread.join()
    log.close()
    assert errors == [] and len(list(reader.facts("a"))) == 321


@BACKENDS
def test_following_what_another_process_writes(sessions: Sessions, kind: str, backend: str) -> None:
    if kind == "memory":
        pytest.skip("no other process has it")
    facts = fill(sessions, "a", 8)
    sessions.fork("a", 8, to="b")
    code = """
with sessions.open("b") as log:
    for seq in range(9, 40):
        log.append(ErrorEvent("x", message="y" * (20_000 if seq == 20 else 1), seq=seq))
"""

    async def main() -> None:
        seen: list[Fact] = []
        writer: subprocess.Popen[str] | None = None
        with anyio.fail_after(30):
            async with aclosing(sessions.follow("b", 3, poll_s=0.005)) as following:
                async for fact in following:
                    seen.append(fact)
                    if fact.seq == 8:
                        assert seen == facts[3:]
                        writer = python(sessions, code)
                    elif fact.seq == 39:
                        break
        assert writer is not None
        result(writer)
        assert seen == list(sessions.facts("b"))[3:]

    anyio.run(main, backend=backend)


# --- what is damaged, foreign, or gone ------------------------------------------------------------


def problems(sessions: Sessions) -> dict[str, str]:
    return {info.session: info.problem for info in sessions.list()}


def test_odd_files_in_the_folder(tmp_path: Path) -> None:  # T396, T397, T398
    sessions = JsonlSessions(tmp_path)
    facts = fill(sessions, "good", 3, title="t")
    other = tmp_path / "other.jsonl"
    line = file_of(sessions, "good").read_bytes().splitlines(keepends=True)
    odd = {
        "empty": b"", "text": b"dear diary\n", "headerless": line[1], "half": line[0][:20], "zeros": b"\0" * 500,
        "newer": b'{"unspool":"trajectory","format":99,"writer":"unspool 9"}\n',
        "older": b'{"unspool":1,"format":1,"writer":"unspool 0"}\n{"type":"turn_start","index":1,"seq":1}\n',
        "cut": line[0][:-1], "changed": line[0].replace(b"good", b"evil"), "binary": os.urandom(3000),
        "last": line[0] + b"oops\n", "title": line[0] + b'{"type":"session_changed","title":7,"seq":1}\n',
        "deep": line[0] + b"[" * 5000 + b"\n",
    }  # fmt: skip
    for name, data in odd.items():
        (tmp_path / f"{name}.jsonl").write_bytes(data)
    (tmp_path / "notes.txt").write_text("not one of ours")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to(other)
    said = problems(sessions)
    assert set(said) == {"good", *odd} and said.pop("good") == ""
    made = ("empty", "half", "cut")  # they are being made
    assert {name for name in odd if not said[name]} == set(made), said
    assert all(sessions.verify(name).ok == (name in made) for name in odd)
    assert "a newer format" in said["newer"] and "an old format" in said["older"]
    for name in odd:
        with pytest.raises(LogError):
            sessions.fork(name, 1)
        if name not in made:
            with pytest.raises(LogError):
                list(sessions.facts(name))
        with pytest.raises(LogError):
            sessions.open(name)
        assert sessions.delete(name) == [name]
    assert names(sessions) == ["good"] and list(sessions.facts("good")) == facts


def test_a_session_whose_making_was_interrupted_is_begun_again(tmp_path: Path) -> None:  # T398
    sessions = JsonlSessions(tmp_path)
    file_of(sessions, "a").write_bytes(b"")
    with sessions.create("a") as log:
        log.append(turn(1))
    file_of(sessions, "b").write_bytes(file_of(sessions, "a").read_bytes()[:30])
    with pytest.raises(LogError, match="no such session"):
        sessions.open("b")
    with pytest.warns(UserWarning, match="torn"), sessions.create("b") as log:
        log.append(turn(1))
    assert list(sessions.facts("b")) == [turn(1)]


# --- files beside each other ----------------------------------------------------------------------


def kind_of(use: Callable[[], object]) -> str:
    with pytest.raises(LogError) as caught:
        use()
    return str(caught.value.details.get("kind"))


def test_a_place_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sessions = JsonlSessions("sessions")
    with sessions.create("a") as log:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        extend(log, 7)
        log.snapshot()
        assert log.state().seq == 7
    assert names(sessions) == ["a"] and len(list(sessions.facts("a"))) == 7
    assert os.listdir() == []


def test_a_session_is_made_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one makes it between the look whether it is there and the lease; and keeps it or not."""
    sessions, others = JsonlSessions(tmp_path), JsonlSessions(tmp_path)
    real = JsonlSessions._log
    for name, ends in (("a", True), ("b", False)):
        held: list[JsonlLog] = []

        def late(
            self: JsonlSessions, *args: Any, name: str = name, ends: bool = ends, **about: Any
        ) -> JsonlLog:
            monkeypatch.setattr(JsonlSessions, "_log", real)
            held.append(others.create(name))  # noqa: B023
            if ends:
                held[0].close()  # noqa: B023
            return real(self, *args, **about)

        monkeypatch.setattr(JsonlSessions, "_log", late)
        assert kind_of(lambda name=name: sessions.create(name)) == "exists"  # type: ignore[misc]
        held[0].close()


def test_a_log_is_not_written_into_a_file_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, path = lease.take_lease, tmp_path / "log"

    def late(fd: int, name: str) -> None:
        monkeypatch.setattr(jsonl, "take_lease", real)
        path.unlink()
        real(fd, name)

    monkeypatch.setattr(jsonl, "take_lease", late)
    with JsonlLog(path) as log:
        log.append(turn(1))
    assert list(load(path)) == [turn(1)]


def test_forking_and_deleting_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork that is begun is seen by who deletes; a writer keeps nobody from forking."""
    sessions = JsonlSessions(tmp_path)
    fill(sessions, "a", 3)
    outcome: list[str] = []
    deleting = threading.Thread(target=lambda: outcome.append(kind_of(lambda: sessions.delete("a"))))
    real = forking._parent

    def slow(source: str, target: str, at: int | None) -> Any:
        found = real(source, target, at)
        deleting.start()
        deleting.join(0.05)  # it would be done by then
        assert deleting.is_alive() and not outcome
        return found

    monkeypatch.setattr(forking, "_parent", slow)
    with sessions.open("a"):
        sessions.fork("a", to="b")
    deleting.join()
    assert outcome == ["has_forks"] and len(list(sessions.facts("b"))) == 3


def test_links_lead_to_the_file_and_what_is_beside_it(tmp_path: Path) -> None:
    sessions = JsonlSessions(tmp_path / "deep" / "er" / "sessions")
    facts = fill(sessions, "a", 7)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "folder").symlink_to(sessions.path)
    (tmp_path / "links" / "log").symlink_to(file_of(sessions, "a"))
    fork_log(file_of(sessions, "a"), tmp_path / "links" / "folder" / "b.jsonl")
    fork_log(tmp_path / "links" / "log", tmp_path / "links" / "c.jsonl")
    assert list(sessions.facts("b")) == load(tmp_path / "links" / "c.jsonl") == facts
    assert load(tmp_path / "links" / "folder" / "b.jsonl") == facts
    with JsonlLog(tmp_path / "links" / "log") as log:
        log.append(said(8, LONG + "more"))
        log.snapshot()
    assert load(file_of(sessions, "a")) == load(tmp_path / "links" / "log")
    assert sorted(os.listdir(tmp_path / "links")) == ["c.jsonl", "folder", "log"]


def test_a_copy_under_another_name_is_no_session_of_that_name(tmp_path: Path) -> None:
    sessions = JsonlSessions(tmp_path)
    fill(sessions, "a", 2)
    file_of(sessions, "b").write_bytes(file_of(sessions, "a").read_bytes())
    uses: list[Callable[[], object]] = [
        lambda: sessions.open("b"), lambda: list(sessions.facts("b")), lambda: sessions.records("b"),
        lambda: sessions.fork("b"), lambda: sessions.follow("b"),
    ]  # fmt: skip
    assert [kind_of(use) for use in uses] == ["header"] * len(uses)
    said = problems(sessions)
    assert said["a"] == "" and "session 'a'" in said["b"] and "session='b'" in said["b"]
    assert [damage.kind for damage in sessions.verify("b").damage] == ["header"]
    assert sessions.delete("b") == ["b"] and names(sessions) == ["a"]


def test_a_fork_is_named_after_its_file(tmp_path: Path) -> None:
    sessions = JsonlSessions(tmp_path)
    fill(sessions, "a", 2)
    assert fork_log(file_of(sessions, "a"), file_of(sessions, "b")).session == "b"
    assert problems(sessions) == {"a": "", "b": ""}
    assert len(fork_log(file_of(sessions, "a"), tmp_path / "no id.jsonl").session) == 32


def test_forks_are_found_by_the_file_that_they_are_of(tmp_path: Path) -> None:
    here, there = JsonlSessions(tmp_path / "here"), JsonlSessions(tmp_path / "there")
    for sessions in (here, there):
        fill(sessions, "a", 2)
    fork_log(file_of(there, "a"), file_of(here, "b"))
    assert here.delete("a") == ["a"] and len(list(here.facts("b"))) == 2


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "long", "a\0b", "folder"])
def test_a_parent_that_is_no_log_harms_no_list(tmp_path: Path, name: str) -> None:
    sessions = JsonlSessions(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "long").open("wb") as file:
        file.write(b'{"unspool":')
        file.truncate(1 << 34)
    parent = Parent(session="a", seq=1, hash="A" * 22, path=name)
    file_of(sessions, "b").write_bytes(seal_header(make_header("b", 1.0, parent=parent)).line + b"\n")
    assert problems(sessions)["b"]
    for use in (lambda: list(sessions.facts("b")), lambda: sessions.open("b"), lambda: sessions.fork("b", 1)):
        with pytest.raises(LogError):
            use()
    assert [damage.kind for damage in sessions.verify("b").damage] == ["parent"]


def test_a_path_that_none_can_be(tmp_path: Path) -> None:
    path = str(tmp_path / "a\0b")
    with JsonlLog(tmp_path / "log"):
        pass
    uses: list[Callable[[], object]] = [
        lambda: load(path), lambda: verify(path), lambda: verify(path, repair=True), lambda: fork_log(path, "x"),
        lambda: fork_log(tmp_path / "log", path),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(LogError, match="null"):
            use()


def test_damage_in_the_middle_is_found_by_reading_and_not_by_listing(sessions: Sessions, kind: str) -> None:
    fill(sessions, "a", 6, title="t")
    fill(sessions, "b", 2)
    if kind == "jsonl":
        path = file_of(sessions, "a")
        path.write_bytes(path.read_bytes().replace(b'"index":4', b'"index":9'))
    else:
        assert isinstance(sessions, SqliteSessions)
        sessions._database.execute("UPDATE records SET line = X'7B7D' WHERE id & 7 = 4")
    assert problems(sessions) == {"a": "", "b": ""} and sessions.info("a").title == "t"
    for use in (lambda: list(sessions.facts("a")), lambda: sessions.open("a"), lambda: sessions.fork("a", 4)):
        with pytest.raises(LogError, match="damaged"):
            use()
    assert not sessions.verify("a").ok
    assert [fact.seq for fact in sessions.salvage("a").facts] == [1, 2, 3, 5, 6]
    assert sessions.verify("b").ok


def _forked(tmp_path: Path) -> JsonlSessions:
    """Session a with 6 facts, forked at 4 as b with 2 more, forked at 5 as c."""
    sessions = JsonlSessions(tmp_path / "sessions")
    fill(sessions, "a", 6)
    sessions.fork("a", 4, to="b")
    with sessions.open("b") as log:
        extend(log, 2)
    sessions.fork("b", 5, to="c")
    return sessions


def _rebuilt(path: Path, replaced: int) -> None:
    """The same log with another fact, all of it well sealed: a forgery."""
    lines = path.read_bytes().splitlines()
    _, hashed = read_header(lines[0])
    for number, line in enumerate(lines[1:], 1):
        body = line[: line.rindex(b',"prev":"')] + b"}"
        if number == replaced:
            body = body.replace(b'"index"', b'"later":1,"index"')
        lines[number], hashed = seal(body, hashed)
    path.write_bytes(b"\n".join([*lines, b""]))


PARENTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), "missing_parent"),
    "no log": (lambda path: path.write_bytes(b"dear diary\n"), "missing_parent"),
    "empty": (lambda path: path.write_bytes(b""), "missing_parent"),
    "shortened": (lambda path: path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:3])), "changed_parent"),
    "another": (lambda path: path.write_bytes(seal_header(make_header("a", 2.0)).line + b"\n"), "changed_parent"),
    "changed": (lambda path: path.write_bytes(path.read_bytes().replace(b'"index":2', b'"index":9')), "changed"),
    "replaced": (lambda path: _rebuilt(path, 2), "changed_parent"),
}  # fmt: skip


@pytest.mark.parametrize("name", PARENTS)
def test_a_fork_of_a_log_that_is_not_what_it_was(tmp_path: Path, name: str) -> None:  # T394
    change, kind = PARENTS[name]
    sessions = _forked(tmp_path)
    change(file_of(sessions, "a"))
    for session in ("b", "c"):
        with pytest.raises(LogError) as caught:
            list(sessions.facts(session))
        assert caught.value.details["kind"] == kind
        with pytest.raises(LogError):
            sessions.open(session)
        report = sessions.verify(session)
        assert [damage.kind for damage in report.damage] == ["parent"]
        own = [fact.seq for fact in sessions.salvage(session).facts if fact.seq > 4]
        assert own == ([5, 6] if session == "b" else [])
        assert session in names(sessions)
        assert sessions.info(session).parent is not None  # also where there is a problem
    if name != "missing":
        with pytest.raises(LogError):
            sessions.delete("a")
    assert sorted(sessions.delete("b", forks=True)) == ["b", "c"]


def test_what_was_added_to_a_parent_changes_no_fork(tmp_path: Path) -> None:
    sessions = _forked(tmp_path)
    with sessions.open("a") as log:
        extend(log, 5)
    with file_of(sessions, "a").open("ab") as file:
        file.write(b"torn")
    assert [fact.seq for fact in sessions.facts("c")] == [1, 2, 3, 4, 5] and sessions.verify("c").ok


def circle(tmp_path: Path) -> JsonlSessions:
    """Session a is forked from b, that from c, and that from a."""
    sessions = JsonlSessions(tmp_path / "sessions")
    Path(sessions.path).mkdir()
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        parent = Parent(session=other, seq=2, hash="A" * 22, path=f"{other}.jsonl")
        line, _ = seal_header(make_header(name, 1.0, parent=parent))
        file_of(sessions, name).write_bytes(line + b"\n")
    return sessions


def test_files_in_a_circle_are_listed_and_deleted(tmp_path: Path) -> None:
    sessions = circle(tmp_path)
    with pytest.raises(LogError, match="circle"):
        sessions.fork("a", 1)
    assert sorted(problems(sessions)) == ["a", "b", "c"]
    assert sorted(sessions.delete("a", forks=True)) == ["a", "b", "c"]


def test_reading_files_in_a_circle_ends(tmp_path: Path) -> None:
    reading = python(
        circle(tmp_path), "try: list(sessions.facts('a'))\nexcept LogError as error: print(error)"
    )
    try:
        assert "circle" in reading.communicate(timeout=1.5)[0]
    except subprocess.TimeoutExpired as error:
        raise AssertionError("it goes round for ever") from error
    finally:
        reading.kill()
        reading.communicate()


def test_a_chain_of_many_forks(sessions: Sessions) -> None:
    fill(sessions, "s0", 1)
    for number in range(1, 40):
        with sessions.open(sessions.fork(f"s{number - 1}", to=f"s{number}")) as log:
            log.append(turn(log.seq + 1))
    assert [fact.seq for fact in sessions.facts("s39")] == list(range(1, 41))
    assert sessions.verify("s39").ok
    assert [fact.seq for fact in sessions.facts(sessions.fork("s39", 3))] == [1, 2, 3]
    assert len(sessions.delete("s0", forks=True)) == 41


# --- bytes ----------------------------------------------------------------------------------------

ODD = [
    b'{"type":"from_the_future",  "seq":1,"x":{"y":[1e2,"\\u00e9\\/"]},"x":null}',
    b'{"seq":2,"type":"also","time":1.50}',
    b'{"type":"with_blob","seq":3,"text":"' + b"x" * 20_000 + b'","$blob":{"$blob":"a"}}',
]


def test_unknown_kinds_are_kept_byte_for_byte(sessions: Sessions) -> None:
    codec = Codec()
    facts = [codec.decode(line) for line in ODD]
    with sessions.create("a") as log:
        for fact in facts:
            log.append(fact)
    assert [record.raw for record in sessions.records("a")] == ODD
    assert list(sessions.facts("a")) == facts
    fork = sessions.fork("a", 2)
    assert [record.raw for record in sessions.records(fork)] == ODD[:2]


@pytest.mark.parametrize(
    "raw",
    [b"garbage", b'{"type":"x","seq":7}', b'{"type":"x","seq":1} ', b'{"type":"x",\n"seq":1}', b'["x"]', b""],
)
def test_bytes_that_are_no_record_of_their_own_are_refused(sessions: Sessions, raw: bytes) -> None:
    with sessions.create("a") as log:
        with pytest.raises(LogError):
            log.append(UnknownFact(seq=1, type="x", raw=raw))
        log.append(turn(1))
    assert list(sessions.facts("a")) == [turn(1)] and sessions.verify("a").ok


def test_a_copy_from_one_store_to_another_is_the_same_bytes(tmp_path: Path) -> None:
    """The records of SQLite are the lines of JSONL: with the same header, the files would be equal."""
    codec = Codec()
    lines: list[bytes] = []
    with SqliteSessions(tmp_path / "logs.db") as source:
        with source.create("a", title="t", metadata={"long": LONG}) as log:
            for fact in [*map(codec.decode, ODD), said(4, LONG), turn(5)]:
                log.append(
                    replace(fact, seq=log.seq + 1) if not isinstance(fact, UnknownFact) else turn(log.seq + 1)
                )
        lines = [bytes(line) for (line,) in source._database.rows("SELECT line FROM records ORDER BY id")]
        header = bytes(source._database.rows("SELECT header FROM sessions")[0][0])
        target = JsonlSessions(tmp_path / "sessions")
        Path(target.path).mkdir()
        file_of(target, "a").write_bytes(header + b"\n")
        with target.open("a") as copy:
            for record in source.records("a"):
                copy.append(record.fact)
            assert isinstance(copy, JsonlLog) and copy.head == source.open("a").head
        assert file_of(target, "a").read_bytes() == b"\n".join([header, *lines, b""])
        assert list(target.records("a")) == list(source.records("a"))
        with source.create("b") as back:
            for record in target.records("a"):
                back.append(record.fact)
        assert [record.raw for record in source.records("b")] == [
            record.raw for record in target.records("a")
        ]


class Note(Struct, frozen=True):
    data: bytes


def test_application_messages_come_back_with_the_codec_of_the_place(opened: Open, kind: str) -> None:
    codec = Codec()
    codec.register("note", Note)
    fact = MessageEnd("m1", user_message("see note"), AppMessage("note", Note(b"\x00\xff")), seq=1)
    sessions = opened(codec=codec)
    with sessions.create("a") as log:
        log.append(fact)
    assert list(sessions.facts("a")) == [fact]


# --- redaction ------------------------------------------------------------------------------------

SECRET = "tok-12345"


def test_patterns_are_not_in_the_place_and_the_header_says_so(
    opened: Open, kind: str, tmp_path: Path
) -> None:
    sessions = opened(redact=[r"tok-\d+"])
    with sessions.create("a", title=f"about {SECRET}", metadata={"k": [SECRET]}, sender="me") as log:
        log.append(said(2, f"it is {SECRET}, {LONG} {SECRET}"))
        log.append(MessageEnd("m1", user_message(SECRET), seq=3))
    assert [getattr(fact, "message", None) for fact in sessions.facts("a")][1] == (
        f"it is [redacted], {LONG} [redacted]"
    )
    assert sessions.info("a").title == "about [redacted]"
    assert sessions.info("a").metadata == {"k": ["[redacted]"]}
    assert sessions.verify("a").ok
    sessions.fork("a", 2, to="b")
    plain = sessions if kind == "memory" else opened()
    plain.fork("a", 1, to="c")
    plain.fork("c", 1, to="d")
    for session in "abcd":
        with sessions.open(session) as log:
            assert log.header.redacted is True  # type: ignore[attr-defined]  # of both kinds
    if kind != "memory":
        with plain.create("e") as log:
            log.append(said(1, "nothing to hide"))
            assert log.header.redacted is False  # type: ignore[attr-defined]
        with sessions.open(sessions.fork("e", 1)) as log:
            assert log.header.redacted is True  # type: ignore[attr-defined]
            log.append(said(2, SECRET))
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


def test_a_pattern_that_is_none_is_told(opened: Open) -> None:
    with pytest.raises(LogError, match="not a regular expression"):
        opened(redact=["("]).create("a")


# --- use ------------------------------------------------------------------------------------------


@BACKENDS
def test_an_agent_goes_on_in_a_session_and_in_its_fork(opened: Open, kind: str, backend: str) -> None:
    sessions = opened()

    async def main() -> None:
        with sessions.create("a") as log:
            first = Agent(ScriptedModel(["one"]), log=log)
            await first.run("hello")
            await log.aclose()
        with sessions.open(sessions.fork("a", to="b")) as log:
            second = Agent(ScriptedModel(["two"]), log=log)
            assert second.state.messages == first.state.messages
            await second.run("again")
        assert fold(sessions.facts("b")) == second.state
        assert fold(sessions.facts("a")) == first.state
        assert [message.text for message in second.state.messages] == ["hello", "one", "again", "two"]

    anyio.run(main, backend=backend)


def test_a_place_is_a_context_manager(opened: Open) -> None:
    with opened() as sessions:
        fill(sessions, "a", 1)
    sessions.close()
