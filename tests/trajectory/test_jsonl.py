"""The JSONL log: what is stored, what is refused, and what damage is found."""

import errno
import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import anyio
import anyio.lowlevel
import msgspec
import pytest

from unspool import (
    AgentContext,
    AgentStart,
    Codec,
    ErrorEvent,
    EventStream,
    Fact,
    LogError,
    LoopConfig,
    Message,
    MessageEnd,
    MessageUpdate,
    Text,
    ToolExecEnd,
    ToolExecStart,
    ToolExecUpdate,
    TurnStart,
    agent_loop,
    agent_loop_continue,
    fold,
    tool,
    user_message,
)
from unspool.kernel.events import (
    AppMessage,
    ApprovalDecided,
    ApprovalRequested,
    ConfigChanged,
    ContextCompacted,
    ContextProjected,
    KnownFact,
    ModelResponse,
    QueueChanged,
    RetryEvent,
    SessionChanged,
    Stored,
    ToolExecDispatch,
    UnknownFact,
)
from unspool.kernel.messages import Cost, Opaque, OpaqueMessage, ToolCall, Usage
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory import (
    BUFFERED,
    EACH_FLUSH,
    Durability,
    JsonlLog,
    follow,
    group,
    iter_records,
    jsonl_reading,
    load,
    load_records,
    salvage,
    verify,
)
from unspool.trajectory.durability import Syncer
from unspool.trajectory.header import make_header, seal_header
from unspool.trajectory.lines import Line, Lines
from unspool.trajectory.record import seal
from unspool.trajectory.strict import _RULES, check_json

HEADER, HEADER_HASH = seal_header(make_header("s1", 1.5))
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def turn(seq: int) -> TurnStart:
    return TurnStart(1, seq=seq)


def body(seq: int) -> bytes:
    return b'{"type":"turn_start","index":1,"seq":%d}' % seq


def lines(*bodies: bytes) -> list[bytes]:
    """What a log is stored as that holds these facts."""
    stored, before = [HEADER + b"\n"], HEADER_HASH
    for given in bodies:
        sealed = seal(given, before)
        stored.append(sealed.line + b"\n")
        before = sealed.hash
    return stored


def turns(*seqs: int) -> list[bytes]:
    return lines(*[body(seq) for seq in seqs])


def write(path: Path, *parts: bytes) -> Path:
    path.write_bytes(b"".join(parts))
    return path


# --- what is stored ----------------------------------------------------------------------------


def test_file_is_a_header_and_one_line_a_fact(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "log.jsonl"
    with JsonlLog(path, session="s1", namespace="a/b") as log:
        log.append(turn(1))
        log.append(turn(2))
    stored = re.sub(rb'"(prev|sum)":"[0-9A-Za-z+/]+"', rb'"\1":"*"', path.read_bytes())
    begun = b'"writer":"%s","session":"s1","created":%s' % (
        log.header.writer.encode(),
        msgspec.json.encode(log.header.created),
    )
    assert stored.split(b"\n") == [
        b'{"unspool":"trajectory","format":2,%s,"namespace":"a/b","prev":"*","sum":"*"}' % begun,
        b'{"type":"turn_start","index":1,"seq":1,"prev":"*","sum":"*"}',
        b'{"type":"turn_start","index":1,"seq":2,"prev":"*","sum":"*"}',
        b"",
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load(path) == [turn(1), turn(2)]


def test_writer_goes_on_after_the_last_fact(tmp_path: Path) -> None:
    path = write(tmp_path / "log", *turns(1))
    with JsonlLog(path) as log:
        assert (log.seq, log.session) == (1, "s1")
        log.append(turn(2))
    assert path.read_bytes() == b"".join(turns(1, 2))


def test_a_session_is_called_what_its_file_is(tmp_path: Path) -> None:
    with JsonlLog(tmp_path / "tuesday.jsonl") as log:
        assert log.session == "tuesday"
    with JsonlLog(tmp_path / "other.jsonl", session="monday") as log:
        assert log.session == "monday"
    for name in ("not an id.jsonl", "log", "log.txt", ".jsonl", f"{'a' * 129}.jsonl"):
        with JsonlLog(tmp_path / name) as log:
            assert re.fullmatch("[0-9a-f]{32}", log.session)


def test_the_log_of_another_session_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "log", *turns(1))
    before = path.read_bytes()
    with pytest.raises(LogError, match="it is that of session 's1'"):
        JsonlLog(path, session="another")
    assert path.read_bytes() == before
    JsonlLog(path, session="s1").close()


def test_signals_are_left_out(tmp_path: Path) -> None:
    with JsonlLog(tmp_path / "log") as log:
        log.append(MessageUpdate("x", seq=1, sub=1))
        log.append(turn(1))
        log.append(ToolExecUpdate("c1", payload={"x": object()}, seq=1, sub=2))
        log.append(MessageUpdate("x", seq=1, sub=1))
    assert load(tmp_path / "log") == [turn(1)]


def test_unknown_kinds_and_fields_survive_byte_for_byte(tmp_path: Path) -> None:
    odd = [
        b'{"type":"turn_start",  "seq":1,"index":1,"later":{"a":[1,2.50]}}',
        b'{"seq":2,"type":"from_the_future","x":"\\u00e9"}',
    ]
    path = write(tmp_path / "log", *lines(*odd))
    records = load_records(path)
    assert [record.raw for record in records] == odd
    assert [type(record.fact) for record in records] == [TurnStart, UnknownFact]
    with JsonlLog(tmp_path / "copy") as log:
        log.append(turn(1))
        log.append(records[1].fact)
    assert odd[1][:-1] + b',"prev":"' in (tmp_path / "copy").read_bytes()
    assert load_records(tmp_path / "copy")[1] == records[1]


def test_application_messages_come_back(tmp_path: Path) -> None:
    class Note(msgspec.Struct, frozen=True):
        data: bytes

    codec = Codec()
    codec.register("note", Note)
    fact = MessageEnd("m1", user_message("see note"), AppMessage("note", Note(b"\x00\xff")), seq=1)
    with JsonlLog(tmp_path / "log", codec) as log:
        log.append(fact)
    assert load(tmp_path / "log", codec) == [fact]
    stranger = load(tmp_path / "log")[0]  # its class is not known here
    assert Codec().encode(stranger) == codec.encode(fact)


def test_appends_from_many_threads_are_whole_and_in_order(tmp_path: Path) -> None:
    order = threading.Lock()
    with JsonlLog(tmp_path / "log") as log:

        def work() -> None:
            for _ in range(200):
                with order:
                    log.append(turn(log.seq + 1))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [fact.seq for fact in load(tmp_path / "log")] == list(range(1, 1601))


@BACKENDS
def test_a_run_is_its_log(tmp_path: Path, backend: str) -> None:
    path = tmp_path / "log"

    @tool
    def echo(x: int) -> dict[str, int]:
        """Give back."""
        return {"x": x}

    async def main() -> None:
        log = JsonlLog(path, durability=EACH_FLUSH)
        model = ScriptedModel([["hm", call("c1", "echo", x=1), call("c2", "echo", x="é")], "done"])
        async with agent_loop("go", AgentContext(tools=[echo]), LoopConfig(model=model, log=log)) as run:
            await run.result()
        read = [fact async for fact in log.read()]
        assert fold(read) == run.state
        assert [fact.seq async for fact in log.read(2, 4)] == [3, 4]
        await log.aclose()
        await log.aclose()
        assert load(path) == read

    anyio.run(main, backend=backend)


def test_a_run_cut_at_any_fact_goes_on_in_its_log(tmp_path: Path) -> None:
    """As after a crash: a fresh process reads the log, goes on, and the log is whole again."""
    ran: list[int] = []

    @tool
    def echo(x: int) -> int:
        """Give back."""
        ran.append(x)
        return x

    async def run(stream: EventStream, log: JsonlLog) -> None:
        async with stream as events:
            await events.result()
        await log.aclose()
        assert fold(load(log.path)) == events.state
        assert events.state.end_reason == "stop"

    async def main() -> None:
        whole = JsonlLog(tmp_path / "whole")
        context = AgentContext(tools=[echo])
        script: list[Any] = [[call("c1", "echo", x=1)], "done"]
        config = LoopConfig(model=ScriptedModel(script), log=whole)
        await run(agent_loop("go", context, config), whole)
        whole_lines = (tmp_path / "whole").read_bytes().splitlines(keepends=True)
        for cut in range(4, len(whole_lines)):  # from the first fact on that leaves something to do
            path = write(tmp_path / f"cut{cut}", *whole_lines[:cut])
            state = fold(load(path))
            replies = sum(message.role == "assistant" for message in state.messages)
            if replies == 2:
                continue  # nothing is left to do
            log, ran[:] = JsonlLog(path), []
            config = LoopConfig(model=ScriptedModel(script[replies:]), log=log)
            await run(agent_loop_continue(AgentContext(tools=[echo], state=state), config), log)
            dispatched = any(b'"tool_exec_dispatch"' in line for line in whole_lines[:cut])
            assert ran == [] if dispatched else ran == [1]

    anyio.run(main)


# --- what is refused ---------------------------------------------------------------------------


def said(**fields: Any) -> MessageEnd:
    return MessageEnd("m1", Message(role="user", **fields), seq=1)


class Weighed(msgspec.Struct, frozen=True):
    """An application's message."""

    weight: Any


APP = Codec()
APP.register("weighed", Weighed)

# Each field that may hold anything, and the path by which an error names it.
OPEN: dict[str, tuple[Callable[[Any], Fact], str]] = {
    "agent_start.blobs": (lambda x: AgentStart(blobs={"a": x}, seq=1), "$.blobs.a"),
    "agent_start.history": (lambda x: AgentStart(history=(stored(x),), seq=1), "$.metadata.a"),
    "message_end.metadata": (lambda x: said(metadata={"a": x}), "$.metadata.a"),
    "message_end.args": (lambda x: said(content=(ToolCall(id="c", name="t", args={"a": x}),)), "$.args.a"),
    "message_end.opaque": (lambda x: said(content=(Opaque(provider="p", data=x),)), "$.data"),
    "message_end.app": (lambda x: MessageEnd("m1", None, gone(x), seq=1), "$.app.data"),
    "queue_changed": (lambda x: QueueChanged("prompt", "queued", ("q",), stored(x).message, seq=1), "$.metadata.a"),
    "queue_changed.app": (lambda x: QueueChanged("prompt", "queued", ("q",), app=gone(x), seq=1), "$.app.data"),
    "context_projected.blobs": (lambda x: ContextProjected(blobs={"a": x}, seq=1), "$.blobs.a"),
    "context_projected.append": (lambda x: ContextProjected(append=(stored(x),), seq=1), "$.metadata.a"),
    "context_compacted": (lambda x: ContextCompacted(messages=(stored(x),), seq=1), "$.metadata.a"),
    "context_compacted.app": (lambda x: ContextCompacted(messages=(Stored(app=gone(x)),), seq=1), "$.app.data"),
    "model_response": (lambda x: ModelResponse(reply=stored(x).message, seq=1), "$.metadata.a"),
    "tool_exec_start": (lambda x: ToolExecStart("c", "t", args={"a": x}, seq=1), "$.args.a"),
    "tool_exec_dispatch": (lambda x: ToolExecDispatch("c", args={"a": x}, seq=1), "$.args.a"),
    "tool_exec_end.details": (lambda x: ToolExecEnd("c", details={"a": x}, seq=1), "$.details.a"),
    "tool_exec_end.content": (lambda x: ToolExecEnd("c", content=(Opaque(provider="p", data=x),), seq=1), "$.data"),
    "approval_requested": (lambda x: ApprovalRequested(("c",), previews={"c": {"a": x}}, seq=1), "$.previews.c.a"),
    "approval_decided": (lambda x: ApprovalDecided("c", True, args={"a": x}, seq=1), "$.args.a"),
    "config_changed": (lambda x: ConfigChanged(blobs={"a": x}, seq=1), "$.blobs.a"),
    "session_changed": (lambda x: SessionChanged(metadata={"a": x}, seq=1), "$.metadata.a"),
    "error": (lambda x: ErrorEvent("x", details={"a": x}, seq=1), "$.details.a"),
}  # fmt: skip


def stored(value: Any) -> Stored:
    return Stored(message=Message(role="user", metadata={"a": value}))


def gone(value: Any) -> AppMessage:
    return AppMessage("gone", OpaqueMessage("gone", value, None))


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
NOT_JSON: dict[str, tuple[Any, str]] = {
    "nan": (float("nan"), "PATH.*nan"),
    "infinity": ([float("inf")], r"PATH\[0\].*inf"),
    "minus infinity": ({"b": float("-inf")}, r"PATH\.b.*inf"),
    "surrogate": ("\udcff", "surrogate"),
    "surrogate in a key": ({"\ud800": 1}, "surrogate"),
    "bytes": (b"x", "PATH.*bytes"),
    "set": ({1}, "PATH.*set"),
    "object": (object(), "PATH.*object"),
    "key": ({1: 2}, "PATH.*key"),
    "inside": ([[[[b""]]]], r"PATH\[0\]\[0\]\[0\]\[0\].*bytes"),
    "deep": (deep(300), "nested too deep"),
    "circle": (CIRCLE, "nested too deep"),
}


@pytest.mark.parametrize("field", OPEN)
def test_what_json_would_change_is_refused_in_every_open_field(tmp_path: Path, field: str) -> None:  # B178
    make, path = OPEN[field]
    with JsonlLog(tmp_path / "log") as log:
        before = (tmp_path / "log").read_bytes()
        for value, reason in NOT_JSON.values():
            with pytest.raises(LogError, match=reason.replace("PATH", re.escape(path))):
                log.append(make(["x" * 20_000, value]) if reason == "surrogate" else make(value))
        assert (tmp_path / "log").read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["log"]  # no blob either
        fact = make({"b": [1, 2.5, None, True, "é\u2028", deep(200)]})
        log.append(fact)
    assert load(tmp_path / "log") == [fact]


NAN = float("nan")
UNSTORABLE: dict[str, tuple[Fact, str]] = {
    "time": (TurnStart(1, seq=1, time=NAN), r"\$\.time.*nan"),
    "duration": (ToolExecEnd("c", duration_s=float("inf"), seq=1), r"\$\.duration_s.*inf"),
    "delay": (RetryEvent(1, 2, NAN, "x", seq=1), r"\$\.delay_s.*nan"),
    "first token": (ModelResponse(first_token_s=NAN, seq=1), r"\$\.first_token_s.*nan"),
    "cost": (ModelResponse(usage=Usage(cost=Cost(input=NAN)), seq=1), r"\$\.usage\.cost\.input.*nan"),
    "timestamp": (said(timestamp=NAN), r"\$\.message\.timestamp.*nan"),
    "number of an application": (MessageEnd("m1", None, AppMessage("weighed", Weighed(NAN)), seq=1), "weight.*nan"),
    "depth of an application": (MessageEnd("m1", None, AppMessage("weighed", Weighed(deep(300))), seq=1), "too deep"),
    "object of an application": (MessageEnd("m1", None, AppMessage("weighed", Weighed(object())), seq=1), "JSON form"),
    "surrogate": (said(content=(Text("\ud800"),)), "surrogate"),
    "surrogate in a tag": (ToolExecStart("c1", "\ud800", seq=1), "surrogate"),
    "line end": (UnknownFact(seq=1, type="x", raw=b'{"type":"x",\n"seq":1}'), "line end"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSTORABLE)
def test_what_json_would_change_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    fact, reason = UNSTORABLE[name]
    with JsonlLog(tmp_path / "log", APP) as log:
        with pytest.raises(LogError, match=reason):
            log.append(fact)
        log.append(turn(1))
    assert load(tmp_path / "log") == [turn(1)]


def test_every_field_that_may_hold_anything_is_checked() -> None:
    """Each ``Any`` in a fact, but for those inside application messages, has a rule."""
    open_ended = {
        kind
        for kind in get_args(KnownFact)
        for field in msgspec.structs.fields(kind)
        if "Any" in str(field.type) or "Message" in str(field.type) or "Stored" in str(field.type)
    }
    assert open_ended == set(_RULES)
    assert {kind.__struct_config__.tag for kind in open_ended} == {name.split(".")[0] for name in OPEN}


def test_a_header_that_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="header cannot be stored"):
        JsonlLog(tmp_path / "log", session="\ud800")
    JsonlLog(tmp_path / "log").close()


def test_patterns_are_taken_out_of_texts_but_not_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "log"
    large = "x" * 20_000
    with JsonlLog(path, redact=[r"sk-\w+", "secret"]) as log:
        log.append(ToolExecStart("c1", "echo", args={"secret": ["my sk-123", f"{large}secret"]}, seq=1))
        with pytest.raises(LogError, match="cannot be searched"):
            log.append(UnknownFact(seq=2, type="later", raw=b'{"type":"later","seq":2,"x":1e400}'))
    assert log.header.redacted
    args = {"secret": ["my [redacted]", f"{large}[redacted]"]}
    assert load(path) == [ToolExecStart("c1", "echo", args=args, seq=1)]
    assert not any(b"sk-123" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    with pytest.raises(LogError, match=r"not a regular expression.*pattern='\('"):
        JsonlLog(tmp_path / "other", redact=["("])


def test_plain_json_passes() -> None:
    check_json({"a": [1, 2.5, "x", None, True, {"b": ("tuple", 1 << 80)}]})


@pytest.mark.parametrize("seq", [0, 1, 3])
def test_facts_out_of_order_are_refused(tmp_path: Path, seq: int) -> None:
    with JsonlLog(tmp_path / "log") as log:
        log.append(turn(1))
        with pytest.raises(LogError, match=rf"not the next fact.*seq={seq}, expected=2"):
            log.append(turn(seq))


def test_closed_log_refuses(tmp_path: Path) -> None:
    log = JsonlLog(tmp_path / "log")
    log.close()
    log.close()
    with pytest.raises(LogError, match="log: closed"):
        log.append(turn(1))


def test_second_writer_is_kept_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    code = f"from unspool.trajectory import JsonlLog; JsonlLog({str(path)!r})"
    with JsonlLog(path):
        with pytest.raises(LogError, match=r"another writer.*log"):
            JsonlLog(path)
        other = subprocess.run(
            [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
        )
        assert "another writer" in other.stderr
    JsonlLog(path).close()


WRITES = """
import sys
from unspool import LogError, TurnStart
from unspool.trajectory import JsonlLog
try:
    log = JsonlLog(sys.argv[1])
except LogError as error:
    print(error.details["kind"], flush=True)
else:
    for seq in range(log.seq + 1, log.seq + 101):
        log.append(TurnStart(1, seq=seq))
    print("written", flush=True)
sys.stdin.read()
"""


def writer(path: Path) -> subprocess.Popen[str]:
    """A process that writes 100 facts if it may, says so, and stays until its input ends."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", WRITES, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said_by(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("way", ["folder", "link"])
def test_one_of_two_processes_writes(tmp_path: Path, way: str) -> None:  # B173
    """Also where the second comes through a link to the folder; the lease ends with the process, however."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    path, other = tmp_path / "folder" / "log", tmp_path / way / "log"
    with writer(path) as first, writer(other) as second:
        assert sorted([said_by(first), said_by(second)]) == ["busy", "written"]
        with pytest.raises(LogError, match="another writer") as caught:
            JsonlLog(other)
        assert caught.value.details["pid"] in (first.pid, second.pid)
        assert [fact.seq for fact in load(other)] == list(range(1, 101))  # readers need no lease
        for process in (first, second):
            process.kill()
            process.wait()
        with JsonlLog(other) as log:
            log.append(turn(101))
    with writer(other) as third:
        assert said_by(third) == "written"
    assert [fact.seq for fact in load(path)] == list(range(1, 202))


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user who may not write where it is not allowed; root may."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its logs can be read; one that cannot be begun or gone on with says so before anything is written."""
    folder = tmp_path / "folder"
    large = MessageEnd("m1", user_message("x" * 20_000), seq=1)
    with JsonlLog(folder / "log") as log:
        log.append(large)
    (folder / "bare").write_bytes(b"".join(turns(1)))
    for path, mode in ((folder / "log", 0o444), (folder / "bare", 0o666), (folder, 0o555)):
        path.chmod(mode)
    for path in (folder / "log.blobs", *(folder / "log.blobs").rglob("*")):
        path.chmod(0o555)
    monkeypatch.chdir(folder)  # others may not come down the way to it
    with as_nobody():
        assert load("log") == [large]
        assert verify("log").ok
        for name in ("new", "log"):
            with pytest.raises(LogError, match=r"cannot be opened.*Permission denied"):
                JsonlLog(name)
        with JsonlLog("bare") as log:
            with pytest.raises(LogError, match=r"a blob cannot be written.*Permission denied"):
                log.append(msgspec.structs.replace(large, seq=2))
            log.append(turn(2))
    assert (folder / "bare").read_bytes() == b"".join(turns(1, 2))
    for path in (folder, folder / "log.blobs", *(folder / "log.blobs").iterdir()):
        path.chmod(0o755)


@pytest.mark.parametrize("durability", [BUFFERED, EACH_FLUSH, group()])
def test_forgotten_log_lets_go_of_its_file(tmp_path: Path, durability: Durability) -> None:
    JsonlLog(tmp_path / "log", durability=durability).append(turn(1))
    JsonlLog(tmp_path / "log").close()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda tmp: tmp, "Is a directory"),
        (lambda tmp: write(tmp / "file", b"") / "log", "Not a directory|File exists"),
        (lambda tmp: Path("/dev/full"), "No space left"),
        (lambda tmp: tmp / "a\0b", "null"),
    ],
)
def test_unwritable_path_is_told_at_once(tmp_path: Path, make: Callable[[Path], Path], reason: str) -> None:
    path = make(tmp_path)
    with pytest.raises(LogError, match=reason) as caught:
        JsonlLog(path)
    assert caught.value.details["path"] == str(path)


def fill_disk(log: JsonlLog) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, log._fd)
    os.close(full)


def test_short_write_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with JsonlLog(write(tmp_path / "log", *turns(1))) as log:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda fd, data: real(fd, data[:9]))
            with pytest.raises(LogError, match="no room for the whole line"):
                log.append(turn(2))
        log.append(turn(2))
    assert (tmp_path / "log").read_bytes() == b"".join(turns(1, 2))


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may get larger than that: the system refuses, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_full_disk_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    """Wherever in the line the room ends; and once there is room again it goes on."""
    *whole, last = turns(1, 2)
    size = len(b"".join(whole))
    with JsonlLog(write(tmp_path / "log", *whole)) as log:
        for room in range(size, size + len(last)):
            with room_for(room), pytest.raises(LogError, match="cannot be written"):
                log.append(turn(2))
            assert (tmp_path / "log").stat().st_size == size
        log.append(turn(2))
    assert (tmp_path / "log").read_bytes() == b"".join(turns(1, 2))


def test_full_disk_while_a_blob_is_written_leaves_nothing_of_it(tmp_path: Path) -> None:
    fact = MessageEnd("m1", user_message("x" * 20_000), seq=1)
    with JsonlLog(tmp_path / "log") as log:
        with room_for(10_000), pytest.raises(LogError, match=r"a blob cannot be written.*log\.blobs"):
            log.append(fact)
        assert not [file for file in (tmp_path / "log.blobs").rglob("*") if file.is_file()]
        log.append(fact)
    assert load(tmp_path / "log") == [fact]


def test_torn_line_that_stays_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write

    def refuse(*args: object) -> None:
        raise OSError(errno.EIO, "disk gone")

    log = JsonlLog(tmp_path / "log")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:9]))
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(LogError, match="no room"):
            log.append(turn(1))
    with pytest.raises(LogError, match="torn line"):
        log.append(turn(1))
    log.close()


# --- damage ------------------------------------------------------------------------------------


def test_torn_last_line_is_cut_off_and_told(tmp_path: Path) -> None:
    *whole, last = turns(1, 2)
    path = write(tmp_path / "log", *whole, last[:-1])
    place = rf"line=3, offset={len(b''.join(whole))}, bytes={len(last) - 1}"
    with pytest.warns(UserWarning, match=rf"torn, it is left out .*{place}"):
        assert load(path) == [turn(1)]
    with pytest.warns(UserWarning, match="it is cut off"):
        log = JsonlLog(path)
    log.append(turn(2))
    log.close()
    assert path.read_bytes() == b"".join(turns(1, 2))


@pytest.mark.parametrize("cut", range(1, len(HEADER) + 1))
def test_torn_header_begins_anew(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "log", HEADER[:cut])
    with pytest.warns(UserWarning, match="cut off"), JsonlLog(path) as log:
        assert log.session != "s1"
    assert path.read_bytes() == seal_header(log.header).line + b"\n"


FIRST, SECOND, THIRD = turns(1, 2, 3)[1:]
SECOND_AT = len(HEADER) + 1
THIRD_AT = SECOND_AT + len(FIRST)
OTHER = lines(b'{"type":"turn_start","index":7,"seq":1}')[1]
DAMAGED = {
    "not json": ([HEADER, b"\n", FIRST, b"{oops\n", THIRD], f"damaged record.*line=3, offset={THIRD_AT}"),
    "zeros": ([HEADER, b"\n", b"\0" * 20 + b"\n", SECOND], f"damaged record.*line=2, offset={SECOND_AT}"),
    "blank": ([HEADER, b"\n", b"\n", FIRST], f"damaged record.*line=2, offset={SECOND_AT}"),
    "two in one": ([HEADER, b"\n", FIRST[:-1], SECOND, THIRD], f"damaged record.*line=2, offset={SECOND_AT}"),
    "no seal": ([HEADER, b"\n", body(1), b"\n"], f"damaged record.*line=2, offset={SECOND_AT}"),
    "no event": (lines(b'{"seq":1}'), f"damaged record.*line=2, offset={SECOND_AT}"),
    "no end of its own": ([HEADER, b"\n", FIRST[:-1], b" "], "damaged record.*line=2.*its end was changed"),
    "gap": ([HEADER, b"\n", FIRST, THIRD], f"missing or doubled.*line=3, offset={THIRD_AT}.*seq=3, expected=2"),
    "double": ([HEADER, b"\n", FIRST, FIRST], f"missing or doubled.*line=3, offset={THIRD_AT}.*seq=1, expected=2"),
    "late start": ([HEADER, b"\n", SECOND], f"missing or doubled.*line=2, offset={SECOND_AT}.*seq=2, expected=1"),
    "another": ([HEADER, b"\n", OTHER, SECOND], "record before this one was replaced.*line=3.*seq=2"),
    "no header": ([FIRST, SECOND], "not an unspool log.*line=1, offset=0"),
    "other file": ([b"dear diary"], "not an unspool log.*line=1, offset=0"),
    "header": ([b'{"unspool":1,"format":"x"}\n'], "damaged header.*line=1"),
    "header's seal": ([HEADER.replace(b'"s1"', b'"s2"'), b"\n"], "damaged header.*its checksum.*line=1"),
    "another format in a damaged header": ([HEADER.replace(b'"format":2', b'"format":3'), b"\n"], "damaged header"),
    "newer": ([b'{"unspool":"trajectory","format":3,"writer":"unspool 9"}\n', b"?\n"], "newer format.*format=3, supported=2, writer='unspool 9'"),
    "old": ([b'{"unspool":1,"format":1,"writer":"unspool 0.1.0"}\n', body(1), b"\n"], "an old format.*format=1, supported=2"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named_and_nothing_is_changed(tmp_path: Path, name: str) -> None:
    parts, reason = DAMAGED[name]
    path = write(tmp_path / "log", *parts)
    with pytest.raises(LogError, match=reason):
        load(path)
    with pytest.raises(LogError, match=reason):
        JsonlLog(path)
    assert path.read_bytes() == b"".join(parts)


def test_a_record_that_does_not_fit_its_type_is_named(tmp_path: Path) -> None:
    """Its bytes are those that were written, so that a later version may go on in the log."""
    odd = b'{"type":"message_end","seq":1,"id":"m1","app":{}}'
    path = write(tmp_path / "log", *lines(odd))
    with pytest.raises(LogError, match=rf"damaged record.*line=2, offset={SECOND_AT}, seq=1.*needs a kind"):
        load(path)
    with JsonlLog(path) as log, pytest.raises(LogError, match=r"damaged record.*line=2"):
        log.state()


def test_records_before_the_damage_are_given(tmp_path: Path) -> None:
    path = write(tmp_path / "log", *turns(1, 2), b"?\n")
    records = iter_records(path)
    assert [next(records).fact.seq, next(records).fact.seq] == [1, 2]
    with pytest.raises(LogError, match="line=4"):
        next(records)


def test_lines_longer_than_a_chunk_are_read(tmp_path: Path) -> None:
    long = MessageEnd("m1", user_message("x" * 300_000), seq=1)
    with JsonlLog(tmp_path / "log") as log:
        log.append(long)
        log.append(turn(2))
    assert load(tmp_path / "log") == [long, turn(2)]


def test_missing_file_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"cannot be read.*No such file"):
        load(tmp_path / "log")


# --- followers ---------------------------------------------------------------------------------


@BACKENDS
def test_tail_gives_what_comes_from_any_thread_until_closed(tmp_path: Path, backend: str) -> None:
    async def main() -> None:
        log = JsonlLog(tmp_path / "log")
        log.append(turn(1))
        log.append(turn(2))
        seen: list[int] = []

        def append_and_close() -> None:
            log.append(turn(5))
            log.close()

        async def watch() -> None:
            async for fact in log.tail(1):
                seen.append(fact.seq)
                if fact.seq == 2:
                    log.append(turn(3))
                elif fact.seq == 3:
                    await anyio.to_thread.run_sync(log.append, turn(4))
                elif fact.seq == 4:
                    threading.Thread(target=append_and_close).start()

        with anyio.fail_after(10):
            await watch()
        assert seen == [2, 3, 4, 5]

    anyio.run(main, backend=backend)


@BACKENDS
def test_follow_reads_another_process_and_survives_a_line_taken_back(tmp_path: Path, backend: str) -> None:
    async def main() -> None:
        whole, last = turns(1), turns(1, 2)[-1]
        path = write(tmp_path / "log", *whole, b'{"half')
        seen: list[int] = []
        with anyio.fail_after(10):
            async with aclosing(follow(path, poll_s=0.001)) as facts:
                async for fact in facts:
                    seen.append(fact.seq)
                    if fact.seq == 2:
                        break
                    write(path, *whole, last[:7])
                    write(path, *whole, last)
        assert seen == [1, 2]

    anyio.run(main, backend=backend)


# --- a log that fails in the middle of a run ----------------------------------------------------


class Busy(Lines):
    """A file whose writer stores another record each time that a reader has come to the end."""

    log: JsonlLog

    def available(self) -> Iterator[Line]:
        yield from super().available()
        if self.log.seq < 4:
            self.log.append(turn(self.log.seq + 1))


def test_a_log_that_is_being_written_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Callable[[Path], list[Fact]]] = [load, lambda path: salvage(path).facts]
    for number, read in enumerate(reads):
        path = write(tmp_path / f"{number}", *turns(1))
        with JsonlLog(path) as Busy.log, monkeypatch.context() as patch:
            for module in (jsonl_reading, sys.modules["unspool.trajectory.verify"]):
                patch.setattr(module, "Lines", Busy)
            assert read(path) == [turn(1), turn(2), turn(3), turn(4)]
            assert verify(path).ok


def test_a_write_under_way_is_looked_at_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, (first, second) = tmp_path / "log", turns(1, 2)[1:]
    write(path, HEADER, b"\n", first, second[:9])
    real = Lines.rest

    def rest(self: Lines, limit: int = -1) -> bytes:
        found = real(self, limit)
        if limit < 0:
            write(path, HEADER, b"\n", first, second)
        return found

    monkeypatch.setattr(Lines, "rest", rest)
    assert load(path) == [turn(1), turn(2)]


GONE: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted": (lambda path: path.unlink(), "no_session"),
    "moved": (lambda path: path.rename(path.with_suffix(".old")), "no_session"),
    "replaced": (lambda path: write(path.with_suffix(".new"), *turns(1, 2)).rename(path), "no_session"),
    "cut off": (lambda path: os.truncate(path, len(HEADER) + 1), "shortened"),
}


@BACKENDS
@pytest.mark.parametrize("name", GONE)
def test_follow_ends_with_its_file(tmp_path: Path, name: str, backend: str) -> None:
    change, kind = GONE[name]

    async def main() -> None:
        path = write(tmp_path / "log", *turns(1))
        with anyio.fail_after(10), pytest.raises(LogError) as caught:
            async with aclosing(follow(path, poll_s=0.001)) as facts:
                async for _ in facts:
                    change(path)
        assert caught.value.details["kind"] == kind

    anyio.run(main, backend=backend)


def test_a_forked_process_is_no_second_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with JsonlLog(tmp_path / "log") as log:
        log.append(turn(1))
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: -1)
            with pytest.raises(LogError, match="another process") as caught:
                log.append(turn(2))
        assert caught.value.details["kind"] == "busy"
        log.append(turn(2))
    assert load(tmp_path / "log") == [turn(1), turn(2)]


def test_a_pipe_takes_facts_and_has_none(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    large = MessageEnd("m1", user_message("x" * 20_000), seq=2)
    with JsonlLog(path, session="s1") as log:
        log.append(turn(1))
        log.append(large)
        log.snapshot()
        assert (log.seq, log.state().seq, list(log.records())) == (2, 0, [])
        assert b"x" * 20_000 in os.read(log._fd, 1 << 16)

        async def main() -> None:
            assert [fact async for fact in log.read()] == []
            log.close()
            assert [fact async for fact in log.tail()] == []

        anyio.run(main)
    with pytest.raises(LogError, match="not a regular file"):
        load(path)
    assert os.listdir(tmp_path) == ["pipe"]


@BACKENDS
def test_full_disk_ends_the_run_with_all_work_stopped(tmp_path: Path, backend: str) -> None:
    log = JsonlLog(tmp_path / "log")
    told: list[str] = []

    @tool(read_only=True)
    async def waits() -> str:
        """Wait for ever."""
        try:
            await anyio.sleep_forever()
        finally:
            told.append("stopped")
        return ""

    @tool(read_only=True)
    async def breaks() -> str:
        """Fill the disk once the other tool waits."""
        await anyio.lowlevel.checkpoint()
        fill_disk(log)
        return "done"

    async def main() -> None:
        model = ScriptedModel([[call("c1", "waits"), call("c2", "breaks")], "never asked"])
        config = LoopConfig(model=model, log=log)
        with anyio.fail_after(10), pytest.raises(LogError, match=r"cannot be written.*No space left"):
            async with agent_loop("go", AgentContext(tools=[waits, breaks]), config) as run:
                async for event in run:
                    told.append(type(event).__name__)
        assert len(model.requests) == 1

    anyio.run(main, backend=backend)
    log.close()
    kept = load(tmp_path / "log")
    assert told[-1] == "stopped" and "AgentEnd" not in told
    assert type(kept[-1]) is ToolExecDispatch


@BACKENDS
def test_removed_folder_ends_the_run_before_the_next_effect(tmp_path: Path, backend: str) -> None:
    folder = tmp_path / "folder"

    async def main() -> None:
        log = JsonlLog(folder / "log")
        stopped: list[str] = []

        @tool
        async def breaks() -> str:
            """Remove the folder."""
            shutil.rmtree(folder)
            return "done"

        model = ScriptedModel([[call("c1", "breaks")], "never asked"])
        with anyio.fail_after(10), pytest.raises(LogError, match="the file was removed"):
            async with agent_loop(
                "go", AgentContext(tools=[breaks]), LoopConfig(model=model, log=log)
            ) as run:
                async for event in run:
                    stopped.append(type(event).__name__)
        assert len(model.requests) == 1
        assert "AgentEnd" not in stopped
        with pytest.raises(LogError, match="the file was removed"):
            log.append(turn(log.seq + 1))
        await log.aclose()

    anyio.run(main, backend=backend)


def test_removal_after_the_last_effect_is_told_at_the_close(tmp_path: Path) -> None:
    async def main() -> None:
        log = JsonlLog(tmp_path / "log")
        log.append(turn(1))
        (tmp_path / "log").unlink()
        with pytest.raises(LogError, match="removed"):
            await log.aclose()
        with pytest.raises(LogError, match=r"removed|closed"):
            log.append(turn(2))

    anyio.run(main)


# --- when the disk is waited for ----------------------------------------------------------------


class Disk:
    """Counts how often it was waited for, and fails when told to; its clock is that of the log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.synced = 0
        self.fails = False
        self.asked = threading.Semaphore(0)
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(sys.modules[Syncer.__module__], "time", clock)

    def sync(self) -> None:
        self.synced += 1
        self.asked.release()
        if self.fails:
            raise OSError(errno.EIO, "Input/output error")

    def waited_for(self) -> bool:
        """Whether somebody waits for the disk, now or soon."""
        return self.asked.acquire(timeout=10)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def syncers() -> Iterator[list[Syncer]]:
    made: list[Syncer] = []
    yield made
    for syncer in made:
        syncer.close()


def test_buffered_never_waits(disk: Disk) -> None:
    syncer = Syncer(BUFFERED, disk.sync)
    for _ in range(100):
        syncer.noted()
        anyio.run(syncer.flush)
    assert (disk.synced, syncer.active) == (0, False)


def test_each_flush_waits_if_there_is_something_to_wait_for(disk: Disk) -> None:
    syncer = Syncer(EACH_FLUSH, disk.sync)
    for flushes in range(1, 4):
        syncer.noted()
        syncer.noted()
        assert disk.synced == flushes - 1
        anyio.run(syncer.flush)
        anyio.run(syncer.flush)
        assert disk.synced == flushes


def test_group_waits_after_so_many_facts(disk: Disk, syncers: list[Syncer]) -> None:
    syncers.append(syncer := Syncer(group(facts=3, ms=3_600_000), disk.sync))
    for _ in range(2):
        syncer.noted()
        syncer.noted()
        anyio.run(syncer.flush)  # a barrier has nothing to wait for yet
        syncer.noted()
        assert disk.waited_for()
        syncer.now()  # until the one under way has ended
    assert disk.synced == 2


def test_group_waits_after_so_long(disk: Disk, syncers: list[Syncer]) -> None:
    syncers.append(syncer := Syncer(group(facts=100, ms=1), disk.sync))
    syncer.noted()
    anyio.run(syncer.flush)
    assert disk.synced == 0  # its clock stands still
    disk.now = 0.001
    assert disk.waited_for()
    syncer.now()
    assert disk.synced == 1


def test_a_barrier_waits_once_the_group_is_due(disk: Disk, syncers: list[Syncer]) -> None:
    syncers.append(syncer := Syncer(group(facts=100, ms=3_600_000), disk.sync))
    syncer.noted()
    disk.now = 3_600.0
    anyio.run(syncer.flush)
    assert disk.synced == 1


@pytest.mark.parametrize("said_at", ["append", "flush"])
def test_a_disk_that_failed_behind_ones_back_is_said_next(
    disk: Disk, syncers: list[Syncer], said_at: str
) -> None:
    disk.fails = True
    syncers.append(syncer := Syncer(group(facts=1, ms=3_600_000), disk.sync))
    syncer.noted()
    assert disk.waited_for()
    with pytest.raises(LogError, match="the disk failed"):
        syncer.now()  # the one under way has ended, and so has this one
    with pytest.raises(LogError, match=r"the disk failed.*Input/output"):
        syncer.check() if said_at == "append" else anyio.run(syncer.flush)


@pytest.mark.parametrize(("facts", "ms"), [(0, 5), (1, 0), (1, -1)])
def test_a_group_is_of_something(facts: int, ms: float) -> None:
    with pytest.raises(ValueError, match="at least one fact"):
        group(facts, ms)


def test_closing_waits_for_the_rest_of_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    log = JsonlLog(tmp_path / "log", durability=group(100, 3_600_000))
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    log.append(turn(1))
    anyio.run(log.aclose)
    assert synced == [(tmp_path / "log").stat().st_size]


def test_failing_disk_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> Any:
        raise OSError(errno.EIO, "Input/output error")

    async def main() -> None:
        log = JsonlLog(tmp_path / "log", durability=EACH_FLUSH)
        log.append(turn(1))
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(LogError, match=r"the disk failed.*Input/output"):
            await log.flush()
        with pytest.raises(LogError, match="the disk failed"):
            log.append(turn(2))
        log.close()

    anyio.run(main)
