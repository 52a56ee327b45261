"""The JSONL log: what is stored, what is refused, and what damage is found."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
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
    TurnStart,
    agent_loop,
    agent_loop_continue,
    fold,
    tool,
    user_message,
)
from unspool.kernel.events import AppMessage, KnownFact, ToolExecDispatch, UnknownFact
from unspool.kernel.messages import Opaque
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory import EACH_FLUSH, JsonlLog, follow, iter_records, load, load_records
from unspool.trajectory.strict import _RULES, check_json

HEADER = b'{"unspool":1,"format":1,"writer":"unspool 0.1.0"}\n'
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def turn(seq: int) -> TurnStart:
    return TurnStart(1, seq=seq)


def line(seq: int) -> bytes:
    return b'{"type":"turn_start","index":1,"seq":%d}\n' % seq


def write(path: Path, *parts: bytes) -> Path:
    path.write_bytes(b"".join(parts))
    return path


# --- what is stored ----------------------------------------------------------------------------


def test_file_is_a_header_and_one_line_a_fact(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "log.jsonl"
    with JsonlLog(path, session="s1") as log:
        log.append(turn(1))
        log.append(turn(2))
    assert path.read_bytes() == HEADER[:-2] + b',"session":"s1"}\n' + line(1) + line(2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load(path) == [turn(1), turn(2)]


def test_writer_goes_on_after_the_last_fact(tmp_path: Path) -> None:
    path = write(tmp_path / "log", HEADER, line(1))
    with JsonlLog(path) as log:
        assert log.seq == 1
        log.append(turn(2))
    assert path.read_bytes() == HEADER + line(1) + line(2)


def test_signals_are_left_out(tmp_path: Path) -> None:
    with JsonlLog(tmp_path / "log") as log:
        log.append(turn(1))
        log.append(MessageUpdate("x", seq=1, sub=1))
    assert load(tmp_path / "log") == [turn(1)]


def test_unknown_kinds_and_fields_survive_byte_for_byte(tmp_path: Path) -> None:
    odd = [
        b'{"type":"turn_start",  "seq":1,"index":1,"later":{"a":[1,2.50]}}\n',
        b'{"seq":2,"type":"from_the_future","x":"\\u00e9"}\n',
    ]
    path = write(tmp_path / "log", HEADER, *odd)
    records = load_records(path)
    assert [record.raw + b"\n" for record in records] == odd
    assert [type(record.fact) for record in records] == [TurnStart, UnknownFact]
    with JsonlLog(tmp_path / "copy") as log:
        log.append(turn(1))
        log.append(records[1].fact)
    assert (tmp_path / "copy").read_bytes().endswith(odd[1])


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
        lines = (tmp_path / "whole").read_bytes().splitlines(keepends=True)
        for cut in range(4, len(lines)):  # from the first fact on that leaves something to do
            path = write(tmp_path / f"cut{cut}", *lines[:cut])
            state = fold(load(path))
            replies = sum(message.role == "assistant" for message in state.messages)
            if replies == 2:
                continue  # nothing is left to do
            log, ran[:] = JsonlLog(path), []
            config = LoopConfig(model=ScriptedModel(script[replies:]), log=log)
            await run(agent_loop_continue(AgentContext(tools=[echo], state=state), config), log)
            dispatched = any(b'"tool_exec_dispatch"' in line for line in lines[:cut])
            assert ran == [] if dispatched else ran == [1]

    anyio.run(main)


# --- what is refused ---------------------------------------------------------------------------

UNSTORABLE: dict[str, tuple[Fact, str]] = {
    "bytes": (ToolExecStart("c1", "echo", args={"a": [b"x"]}, seq=1), r"\$\.args\.a\[0\].*bytes"),
    "nan": (ToolExecEnd("c1", details={"x": float("nan")}, seq=1), r"\$\.details\.x.*nan"),
    "set": (ErrorEvent("x", details={"x": {1}}, seq=1), r"\$\.details\.x.*set"),
    "key": (ErrorEvent("x", details={"x": {1: 2}}, seq=1), r"\$\.details\.x.*key"),
    "object": (ErrorEvent("x", details={"x": object()}, seq=1), r"\$\.details\.x.*object"),
    "metadata": (
        MessageEnd("m1", Message(role="user", metadata={"when": b"x"}), seq=1),
        r"\$\.metadata\.when.*bytes",
    ),
    "opaque": (
        MessageEnd("m1", Message(role="user", content=(Opaque(provider="p", data=b"x"),)), seq=1),
        r"\$\.data.*bytes",
    ),
    "history": (AgentStart(blobs={"h": b""}, seq=1), r"\$\.blobs\.h.*bytes"),
    "surrogate": (MessageEnd("m1", Message(role="user", content=(Text("\ud800"),)), seq=1), "surrogate"),
    "line end": (UnknownFact(seq=1, type="x", raw=b'{"type":"x",\n"seq":1}'), "line end"),
    "deep": (ErrorEvent("x", details={"x": [[[[b""]]]]}, seq=1), "bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSTORABLE)
def test_what_json_would_change_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    fact, reason = UNSTORABLE[name]
    with JsonlLog(tmp_path / "log") as log:
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


def test_forgotten_log_lets_go_of_its_file(tmp_path: Path) -> None:
    JsonlLog(tmp_path / "log")
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
    with JsonlLog(tmp_path / "log") as log:
        log.append(turn(1))
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda fd, data: real(fd, data[:9]))
            with pytest.raises(LogError, match="no room for the whole line"):
                log.append(turn(2))
        log.append(turn(2))
    assert (tmp_path / "log").read_bytes() == HEADER + line(1) + line(2)


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
    path = write(tmp_path / "log", HEADER, line(1), line(2)[:-1])
    with pytest.warns(
        UserWarning, match=rf"torn, it is left out .*line=3, offset={len(HEADER) + 40}, bytes=39"
    ):
        assert load(path) == [turn(1)]
    with pytest.warns(UserWarning, match="it is cut off"):
        log = JsonlLog(path)
    log.append(turn(2))
    log.close()
    assert path.read_bytes() == HEADER + line(1) + line(2)


@pytest.mark.parametrize("cut", range(1, len(HEADER)))
def test_torn_header_begins_anew(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "log", HEADER[:cut])
    with pytest.warns(UserWarning, match="cut off"):
        JsonlLog(path).close()
    assert path.read_bytes() == HEADER


START = len(HEADER)
DAMAGED = {
    "not json": ([HEADER, line(1), b"{oops\n", line(3)], "damaged record.*line=3, offset=90"),
    "zeros": ([HEADER, b"\0" * 20 + b"\n", line(2)], "damaged record.*line=2, offset=50"),
    "blank": ([HEADER, b"\n", line(1)], "damaged record.*line=2, offset=50"),
    "two in one": ([HEADER, line(1)[:-1], line(2), line(3)], "damaged record.*line=2, offset=50"),
    "no event": ([HEADER, b'{"seq":1}\n'], "damaged record.*line=2, offset=50"),
    "odd app message": ([HEADER, b'{"type":"message_end","seq":1,"id":"m1","app":{}}\n'], "damaged record.*line=2"),
    "gap": ([HEADER, line(1), line(3)], "missing or doubled.*line=3, offset=90, seq=3, expected=2"),
    "double": ([HEADER, line(1), line(1)], "missing or doubled.*line=3, offset=90, seq=1, expected=2"),
    "late start": ([HEADER, line(2)], "missing or doubled.*line=2, offset=50, seq=2, expected=1"),
    "no header": ([line(1), line(2)], "not an unspool log.*line=1, offset=0"),
    "other file": ([b"dear diary"], "not an unspool log.*line=1, offset=0"),
    "header": ([b'{"unspool":1,"format":"x"}\n'], "damaged header.*line=1"),
    "newer": ([b'{"unspool":1,"format":2,"writer":"unspool 9"}\n', b"?\n"], "newer format.*format=2, supported=1, writer='unspool 9'"),
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


def test_records_before_the_damage_are_given(tmp_path: Path) -> None:
    path = write(tmp_path / "log", HEADER, line(1), line(2), b"?\n")
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
        path = write(tmp_path / "log", HEADER, line(1), b'{"half')
        seen: list[int] = []
        with anyio.fail_after(10):
            async with aclosing(follow(path, poll_s=0.001)) as facts:
                async for fact in facts:
                    seen.append(fact.seq)
                    if fact.seq == 2:
                        break
                    write(path, HEADER, line(1), line(2)[:7])
                    write(path, HEADER, line(1), line(2))
        assert seen == [1, 2]

    anyio.run(main, backend=backend)


# --- a log that fails in the middle of a run ----------------------------------------------------


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
