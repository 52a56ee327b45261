"""Makes the golden logs of the current format: small logs that every later version must go on reading.

Run it (``python tests/compat/make_golden.py``) when the format changes, and only then; see ``test_golden.py``.
The facts are written out here, so that the logs are the same whoever makes them and whenever: the clock stands
still, ids and the writer are given. Only hashes and fingerprints are computed, by the kernel.

``story`` holds every kind of fact and of content, an application message, a content stored by hash. ``fork`` goes
on from the middle of it. ``future`` has what no version wrote yet: a kind, fields, a block.
"""

import shutil
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from unspool.kernel import (
    AgentEnd,
    AgentMessage,
    AgentStart,
    AgentState,
    ApprovalDecided,
    ApprovalRequested,
    BaseMessage,
    CallOptions,
    ChildEnded,
    ChildStarted,
    Codec,
    CompactionStep,
    ConfigChanged,
    ContextCompacted,
    ContextCompacting,
    ContextItem,
    ContextProjected,
    Document,
    ErrorEvent,
    Fact,
    Handoff,
    Image,
    Limits,
    Lineage,
    Message,
    MessageEnd,
    ModelResponse,
    NestedCall,
    Opaque,
    QueueChanged,
    RetryEvent,
    Ruling,
    SessionChanged,
    Stored,
    SystemBlock,
    Text,
    Thinking,
    ToolCall,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecStart,
    ToolReference,
    ToolSpec,
    TurnEnd,
    TurnStart,
    UnknownFact,
    Usage,
    apply,
    fold,
    user_message,
)
from unspool.kernel.events import AppMessage, Cut, Replaced
from unspool.kernel.lowering import Lowering, fingerprint_of
from unspool.kernel.messages import Cost, OpaqueMessage
from unspool.kernel.projection import RequestConfig
from unspool.kernel.transcript import Seen, Transcript
from unspool.trajectory import JsonlSessions, SqliteSessions
from unspool.trajectory.header import FORMAT

GOLDEN: Final = Path(__file__).parent / "golden"
NOW: Final = 1_700_000_000.25
WRITER: Final = "golden"
DATABASE: Final = "sessions.db"


class Card(BaseMessage, Struct, frozen=True):
    """An application message of the golden logs."""

    title: str
    face: bytes = b""

    def to_message(self) -> Message | None:
        return user_message(f"The card {self.title}.")


def codec() -> Codec:
    """The codec that knows ``Card``."""
    made = Codec()
    made.register("golden_card", Card)
    return made


class Story:
    """Facts of one session, numbered and folded as they are told."""

    def __init__(self, facts: Sequence[Fact] = ()) -> None:
        self.facts: list[Fact] = list(facts)
        self.state = fold(facts)
        self.run_id = ""

    def tell(self, *facts: Any) -> None:
        """Add facts to the story."""
        for fact in facts:
            seq = len(self.facts) + 1
            told = replace(fact, seq=seq, time=NOW + seq, run_id=self.run_id)
            self.facts.append(told)
            self.state = apply(self.state, told)

    def start(self, config: RequestConfig, **fields: Any) -> None:
        """Begin a run."""
        before = self.state.run_id
        self.run_id = f"r{self.state.runs + 1}"
        start = AgentStart(
            agent="teller", previous_run=before, tools=config.tools_hash, options=config.options_hash,
            system=config.system_hash, toolbox=config.toolbox_hash, blobs=config.blobs(self.state.blobs),
            context={"manager": "engine", "window": 1000}, window=800,
            lineage=Lineage(parent="above", call_id="c9", path=("head",), root="top"), **fields,
        )  # fmt: skip
        self.tell(start)

    def end(self, reason: str, **fields: Any) -> None:
        """End the run."""
        state = self.state
        end = AgentEnd(
            reason, turns=state.turns, tool_calls=state.tool_calls, tool_errors=state.tool_errors,
            tool_skips=state.tool_skips, usage=state.run_usage, child_usage=state.run_child_usage, **fields,
        )  # fmt: skip
        self.tell(end)
        self.run_id = ""

    def project(self, config: RequestConfig, extra: Sequence[Stored] = (), **fields: Any) -> None:
        """Announce a model call that sees the conversation, and ``extra``."""
        state, base = self.state, self.state.projection
        known = [each for each in base.view if isinstance(each, str)] if base else []
        ids = state.ids.since(0)
        keep = next(
            (n for n, (a, b) in enumerate(zip(known, ids, strict=False)) if a != b), min(len(known), len(ids))
        )
        by_id = dict(zip(ids, state.messages, strict=True))
        append: tuple[str | Stored, ...] = (*ids[keep:], *extra)
        view: list[AgentMessage] = [by_id[id] for id in ids]
        view += [each.message for each in extra if each.message is not None]
        sent, fingerprint = Lowering().extend(Transcript(view), config.seed)
        fact = ContextProjected(
            base=base.seq if base else 0, keep=keep, append=append, tools=config.tools_hash,
            options=config.options_hash, system=config.system_hash, messages=len(sent), fingerprint=fingerprint,
            blobs=config.blobs(state.blobs), **fields,
        )  # fmt: skip
        self.tell(fact)

    def say(self, *content: Any, **fields: Any) -> None:
        """Commit a message of the model."""
        id = self.next_id
        message = Message(role="assistant", content=content, id=id, timestamp=NOW, **fields)
        self.tell(MessageEnd(id, message))

    def result(self, call_id: str, tool: str, *, is_error: bool = False) -> None:
        """Commit the result of a call."""
        id = self.next_id
        message = Message(
            role="tool", id=id, tool_call_id=call_id, tool_name=tool, is_error=is_error, timestamp=NOW
        )
        self.tell(MessageEnd(id, message))

    @property
    def next_id(self) -> str:
        return f"m{self.state.message_count + 1}"


LOOK: Final = ToolSpec(name="look", description="Looks.", schema={"type": "object"}, read_only=True)
WRITE: Final = ToolSpec(name="write", description="Writes.", schema={"type": "object"}, needs_approval=True)
FIND: Final = ToolSpec(name="find", deferred=True, meta={"of": ["x", 1, 2.5, None]})
SYSTEM: Final = (SystemBlock(text="Be brief.", cache="1h"),)
OPTIONS: Final = CallOptions(thinking="low", max_tokens=100, temperature=0.5, stop=("END",), extra={"k": 1})
CONFIG: Final = RequestConfig(SYSTEM, (LOOK, WRITE), OPTIONS, (LOOK, WRITE, FIND))
LATER: Final = RequestConfig(
    (SystemBlock(text="Be kind."),), (LOOK, WRITE, FIND), CallOptions(max_tokens=200)
)
USAGE: Final = Usage(
    input_tokens=7, output_tokens=5, cache_read_tokens=3, cache_write_tokens=2, reasoning_tokens=1,
    cost=Cost(input=0.1, output=0.2, cache_read=0.01, cache_write=0.02),
)  # fmt: skip
LONG: Final = "A long text, é 水 🙂, that is stored by its hash. " * 400


def story() -> list[Fact]:
    """Every kind of fact, in an order in which they may come."""
    it = Story()
    it.tell(SessionChanged(title="A story", metadata={"of": {"x": [1, 2.5, None, "é"]}}))
    history = (
        Stored(message=user_message("Before.")),
        Stored(message=Message(role="assistant", content=(Text("Yes."),))),
    )
    limits = Limits(turns=9, tool_calls=20, tool_errors=3, concurrency=4, cost=1.5, tokens=9000)
    it.start(CONFIG, session="story", limits=limits, model="golden/one", history=history)
    picture = (
        Text("Look at these."),
        Image(data="aGk=", mime_type="image/png"),
        Image(url="https://example.com/a.png"),
        Document(data="aGk=", mime_type="application/pdf", name="a.pdf"),
    )
    asked = Message(role="user", content=picture, metadata={"host": True})
    it.tell(QueueChanged("prompt", "queued", ("q1",), message=asked), TurnStart(1))
    it.tell(QueueChanged("prompt", "taken", ("q1",)))
    it.tell(MessageEnd(it.next_id, replace(asked, id=it.next_id, timestamp=NOW), queue_id="q1"))
    card = Stored(
        message=user_message("The card seven."), app=AppMessage("golden_card", Card("seven", b"\x00\xff"))
    )
    it.tell(MessageEnd(it.next_id, card.message, card.app, cause="before_turn"))
    items = (ContextItem(kind="file", identity="a.py", representation="part", reason="read", ref="m3"),)
    it.project(CONFIG, tokens=40, items=items)
    failed = ModelResponse(model="golden/one", error_kind="rate_limit", attempt=1, total_s=0.5)
    it.tell(
        failed, RetryEvent(attempt=1, limit=3, delay_s=0.75, error_kind="rate_limit", message="slow down")
    )
    it.project(CONFIG)
    it.say(
        Thinking(text="Hm.", signature="sig"),
        Thinking(redacted="c2VjcmV0"),
        Text("Let me see."),
        ToolCall(id="c1", name="look", args={"path": "a"}, thought_signature="t"),
        ToolCall(id="c2", name="write", args={"path": "b", "n": 1}, args_text='{ "path": "b", "n": 1 }'),
        ToolCall(id="c3", name="look", args_text='{"s', args_invalid=True, args_parse_error="cut"),
        ToolCall(id="c4", name="write", args={}, completed=False),
        Opaque(provider="golden", data={"type": "server_tool", "deep": [[None, 1.5]]}),
        stop_reason="tool_use",
        usage=USAGE,
    )
    response = ModelResponse(
        model="golden/one", usage=USAGE, stop_reason="tool_use", attempt=2, first_token_s=0.25, total_s=1.5,
        response_id="resp", message_id=f"m{it.state.message_count}",
    )  # fmt: skip
    it.tell(response)
    ruled = Ruling(by="mode", reason="it writes", details={"paths": ["b"]})
    it.tell(ApprovalRequested(("c2",), reason="it writes", previews={"c2": {"diff": ["+b"]}}, ruling=ruled))
    it.end("paused", pending=("c1", "c2", "c3", "c4"))
    it.tell(
        ApprovalDecided("c2", True, by="eve", reason="fine", args={"path": "c"}, details={"grant": "once"})
    )
    it.start(CONFIG, session="story", cause="resume", limits=limits, model="golden/one")
    it.tell(ToolExecStart("c1", "look", "Looking", {"path": "a"}), ToolExecDispatch("c1", "story:c1"))
    it.tell(
        ToolExecStart("c2", "write", args={"path": "b", "n": 1}),
        ToolExecDispatch("c2", "story:c2", {"path": "c"}, ruling=Ruling(by="person")),
    )
    it.tell(ChildStarted("child", agent="helper", call_id="c2", mode="single", used=Usage(output_tokens=1)))
    it.tell(QueueChanged("steering", "queued", ("q2",), message=user_message("Wait."), waiting=True))
    below = NestedCall(
        id="c2/p1", call=ToolCall(id="p1", name="pay", args={"n": 2}), session="child", agent=("teller", "helper"),
        reason="it pays", details={"rule": "pay"}, preview={"sum": 2},
    )  # fmt: skip
    it.tell(ChildEnded("child", "helper", "c2", "paused", Usage(input_tokens=1)))
    it.tell(ApprovalRequested(("c2",), nested=(below,)))
    it.tell(ApprovalDecided("c2/p1", True, by="eve"), ToolExecDispatch("c2", "story:c2", {"path": "c"}))
    found = (Text(LONG), ToolReference("find"), Image(data="aGk=", mime_type="image/png"))
    it.tell(ToolExecEnd("c1", "look", "ok", found, {"truncated_from_bytes": 99_999}, 0.5, terminal=True))
    it.result("c1", "look")
    it.tell(ToolExecEnd("c2", "write", "error", (Text("no"),), {"code": 7}, 0.25, abandoned=True))
    it.result("c2", "write", is_error=True)
    for call_id, name, outcome in (("c3", "look", "invalid"), ("c4", "write", "skipped")):
        ruling = Ruling(by="rule") if outcome == "invalid" else None
        end = ToolExecEnd(call_id, name, outcome, (Text("not run"),), ruling=ruling)
        it.tell(ToolExecStart(call_id, name), end)
        it.result(call_id, name, is_error=True)
    it.tell(TurnEnd(1))
    changed = ConfigChanged(
        model="golden/two", tools=LATER.tools_hash, options=LATER.options_hash, system=LATER.system_hash, limits=replace(limits, turns=5), window=1000,
        active_tools=("find",), blobs=LATER.blobs(it.state.blobs), toolbox="", context={},
    )  # fmt: skip
    it.tell(changed, TurnStart(2))
    it.tell(QueueChanged("steering", "taken", ("q2",)))
    it.tell(
        MessageEnd(it.next_id, replace(user_message("Wait."), id=it.next_id, timestamp=NOW), queue_id="q2")
    )
    it.tell(ContextCompacting("overflow", "sum up"))
    asking = [user_message("Sum up what was said.")]
    config = RequestConfig((), (), CallOptions(max_tokens=50))
    aside = ContextProjected(
        append=(Stored(message=asking[0]),), options=config.options_hash, messages=1,
        fingerprint=fingerprint_of(asking, config.seed), blobs=config.blobs(it.state.blobs), purpose="compaction",
    )  # fmt: skip
    summary = Message(role="assistant", content=(Text("They looked."),), stop_reason="stop")
    it.tell(aside, ModelResponse(model="golden/two", usage=USAGE, purpose="compaction", reply=summary))
    compacted = ContextCompacted(
        committed=True, reason="overflow", tokens_before=900, tokens_after=90, messages_before=11,
        messages_after=10, messages=(Stored(message=user_message("What was before.")), "m3"),
        replaced=Replaced(first="m1", last="m3"),
        steps=(CompactionStep(strategy="summary", messages=2, tokens_before=900, tokens_after=90, note="m1 to m2"),),
    )  # fmt: skip
    it.tell(compacted)
    shown = ContextCompacted(
        reason="threshold", messages_before=10, messages_after=9, covered=(Replaced(first="m4", last="m4"),)
    )
    it.tell(shown)
    it.project(LATER, [Stored(message=user_message("A reminder, for this call only."))], tokens=80)
    it.say(Text("Done."), stop_reason="stop", usage=USAGE)
    it.tell(ModelResponse(model="golden/two", usage=USAGE, stop_reason="stop", source="hook"), TurnEnd(2))
    it.tell(Handoff("writer", source="teller", call_id="c2"))
    it.tell(ErrorEvent("warning", "a thing to know", fatal=False, details={"x": [1]}))
    it.end("stop")
    hidden = AppMessage("golden_card", Card("nine"))
    it.tell(QueueChanged("follow_up", "queued", ("q3",), app=hidden))
    it.tell(QueueChanged("follow_up", "queued", ("q4",), message=user_message("And then?")))
    it.tell(QueueChanged("follow_up", "cleared", ("q4",)))
    it.tell(ChildStarted("other", "helper", "c1", mode="background", used=Usage(input_tokens=2)))
    it.start(LATER, session="story", cause="continue", limits=limits, model="golden/two")
    it.tell(ErrorEvent("bad_request", "refused", details={"status": 400}))
    it.end("aborted", cut=Cut(seq=len(it.facts), how="left", waiting=True))
    return it.facts


def fork(facts: Sequence[Fact]) -> list[Fact]:
    """What a fork of the story adds to its beginning: the calls are decided otherwise."""
    it = Story(facts)
    it.tell(ApprovalDecided("c2", False, by="adam", reason="not now"))
    it.start(CONFIG, session="fork", cause="resume", model="golden/one")
    for call_id, tool, outcome in (
        ("c1", "look", "ok"),
        ("c2", "write", "denied"),
        ("c3", "look", "invalid"),
        ("c4", "write", "cancelled"),
    ):
        it.tell(ToolExecStart(call_id, tool))
        if outcome == "ok":
            it.tell(ToolExecDispatch(call_id, f"fork:{call_id}"))
        it.tell(ToolExecEnd(call_id, tool, outcome, (Text(f"{outcome}, in the fork"),)))
        it.result(call_id, tool, is_error=outcome != "ok")
    it.tell(TurnEnd(1), TurnStart(2))
    it.project(CONFIG)
    it.say(Text("As you like."), stop_reason="stop")
    it.tell(ModelResponse(model="golden/one", stop_reason="stop"), TurnEnd(2))
    it.end("stop")
    return it.facts[len(facts) :]


FUTURE: Final = (
    '{"type":"session_changed","seq":%d,"time":%s,"title":"From the future","subtitle":{"lang":"en"}}',
    '{"type":"from_the_future", "seq":%d,"time":%s,"x":[1e2,"\\u00e9\\/",{"$blob":"no"}],"x":null}',
    (
        '{"type":"message_end","seq":%d,"time":%s,"id":"m1","message":{"role":"user","content":'
        '[{"type":"text","text":"Hear this.","lang":"en"},{"type":"sound","data":"aGk="}],"mood":"glad"}}'
    ),
)
"""Facts as a later version of the same format may write them: a field, a kind, a block that nobody knows yet."""


def future() -> list[Fact]:
    """The facts of ``FUTURE``, with their bytes, under a kind that is not known: so a log keeps them as they are."""
    bodies = [text % (seq, NOW + seq) for seq, text in enumerate(FUTURE, 1)]
    return [
        UnknownFact(seq=seq, time=NOW + seq, type="?", raw=body.encode())
        for seq, body in enumerate(bodies, 1)
    ]


# --- the files ---------------------------------------------------------------------------------


def fill(place: JsonlSessions | SqliteSessions) -> int:
    """Put the golden sessions into a place; the number of the fact that the fork was made at."""
    facts = story()
    at = next(fact.seq for fact in facts if isinstance(fact, AgentEnd))
    with patch("time.time", lambda: NOW), patch("unspool.trajectory.header.__version__", WRITER):
        logs = [place.create("story", namespace="a/b", sender="eve")]
        for fact in facts:
            logs[0].append(fact)
        place.fork("story", at, to="fork")
        logs += [place.open("fork"), place.create("future")]
        for log, more in ((logs[1], fork(facts[:at])), (logs[2], future())):
            for fact in more:
                log.append(fact)
        for log in logs:
            log.close()
    return at


def make(folder: Path) -> None:
    """Make the golden logs in ``folder``, and what they fold to."""
    folder.mkdir(parents=True)
    fill(JsonlSessions(folder, codec()))
    with SqliteSessions(folder / DATABASE, codec()) as place:
        fill(place)
        for name in ("story", "fork", "future"):
            (folder / f"{name}.state.json").write_bytes(as_json(fold(place.facts(name))))
    with closing(sqlite3.connect(folder / DATABASE)) as database:  # one file, without a journal beside it
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.rmtree(folder / f"{DATABASE}-leases")


def as_json(state: AgentState) -> bytes:
    """A state as text for people and for comparison."""
    plain = msgspec.json.encode(state, enc_hook=_plain, order="deterministic")
    return msgspec.json.format(plain, indent=1) + b"\n"


def _plain(value: Any) -> Any:
    match value:
        case Transcript() | Seen():
            return list(value)
        case AppMessage():
            return {"kind": value.kind, "value": value.value}
        case OpaqueMessage():
            return {"kind": value.kind, "data": value.data, "lowered": value.lowered}
    raise TypeError(f"a {type(value).__qualname__} has no JSON form")


def contents(database: Path) -> list[str]:
    """Everything a SQLite file of sessions says, in order: it, not the pages of the file, is the format."""
    with closing(sqlite3.connect(database)) as opened:
        found = [
            repr(opened.execute(f"PRAGMA {name}").fetchall()) for name in ("application_id", "user_version")
        ]
        for name, kind, sql in opened.execute(
            "SELECT name, type, sql FROM sqlite_master ORDER BY name"
        ).fetchall():
            found.append(f"{name} {sql}")
            if kind == "table":
                found += [repr(row) for row in opened.execute(f"SELECT * FROM {name} ORDER BY 1")]
    return found


if __name__ == "__main__":
    target = GOLDEN / str(FORMAT)
    if target.exists():
        sys.exit(f"{target} is there: golden logs are never changed, see test_golden.py")
    make(target)
