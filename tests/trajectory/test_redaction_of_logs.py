"""Patterns of the host's reach what a log says, and nothing that holds it together."""

from pathlib import Path
from typing import Any, Literal, get_args

import anyio
import msgspec
import pytest
from msgspec import Struct

from unspool import Agent, tool
from unspool.kernel import CallOptions, Codec, Document, Image, LogError, Opaque, Text, Thinking, ToolCall
from unspool.kernel.events import (
    AgentStart,
    AppMessage,
    ApprovalDecided,
    ApprovalRequested,
    ErrorEvent,
    Fact,
    KnownFact,
    MessageEnd,
    RetryEvent,
    SessionChanged,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecStart,
    UnknownFact,
)
from unspool.kernel.messages import BaseMessage, Message
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory import JsonlLog, recorded_settings, requests
from unspool.trajectory.redaction import _FACTS, MARK, Redaction

S, R = "a secret", f"a {MARK}"
CODEC = Codec()


def said(*content: Any) -> MessageEnd:
    return MessageEnd("secret", Message(role="user", content=content, metadata={"secret": S}))


def told(*content: Any) -> MessageEnd:
    return MessageEnd("secret", Message(role="user", content=content, metadata={"secret": R}))


CASES: list[tuple[Fact, Fact]] = [
    (said(Text(S)), told(Text(R))),
    (said(Thinking(text=S, signature="secret")), told(Thinking(text=R, signature="secret"))),
    (
        said(ToolCall(id="secret", name="secret", args={"secret": [S]}, args_text=S)),
        told(ToolCall(id="secret", name="secret", args={"secret": [R]}, args_text=R)),
    ),
    (said(Image(data="secret"), Document(url=S)), told(Image(data="secret"), Document(url=R))),
    (said(Opaque(provider="secret", data=S)), told(Opaque(provider="secret", data=S))),
    (
        ToolExecStart("secret", "secret", label=S, args={"k": S}),
        ToolExecStart("secret", "secret", label=R, args={"k": R}),
    ),
    (ToolExecDispatch("secret", "secret", {"k": S}), ToolExecDispatch("secret", "secret", {"k": R})),
    (
        ToolExecEnd("secret", "secret", content=(Text(S),), details={"k": S}),
        ToolExecEnd("secret", "secret", content=(Text(R),), details={"k": R}),
    ),
    (
        ApprovalRequested(("secret",), S, {"secret": {"k": S}}),
        ApprovalRequested(("secret",), R, {"secret": {"k": R}}),
    ),
    (ApprovalDecided("secret", True, S, S, {"k": S}), ApprovalDecided("secret", True, R, R, {"k": R})),
    (RetryEvent(1, 3, 0.5, "secret", S), RetryEvent(1, 3, 0.5, "secret", R)),
    (ErrorEvent("secret", S, details={"k": S}), ErrorEvent("secret", R, details={"k": R})),
    (SessionChanged(S, {"k": S}), SessionChanged(R, {"k": R})),
    (
        AgentStart(session="secret", model="secret", tools="secret", blobs={"secret": [{"text": S}]}),
        AgentStart(session="secret", model="secret", tools="secret", blobs={"secret": [{"text": R}]}),
    ),
    (
        MessageEnd("secret", app=AppMessage("secret", {"k": S})),
        MessageEnd("secret", app=AppMessage("secret", {"k": R})),
    ),
]


@pytest.mark.parametrize(("fact", "kept"), CASES)
def test_content_is_searched_and_structure_is_not(fact: Fact, kept: Fact) -> None:
    head = {"run_id": "secret"}
    stored = Redaction(["secret"]).apply(CODEC.encode(msgspec.structs.replace(fact, **head)))
    assert stored == CODEC.encode(msgspec.structs.replace(kept, **head))


def test_every_kind_of_fact_has_its_fields() -> None:
    kinds = {kind.__struct_config__.tag: kind for kind in get_args(KnownFact)}
    assert set(_FACTS) == set(kinds)


def test_of_an_unknown_kind_all_but_the_head_is_searched() -> None:
    fact = UnknownFact(type="secret", raw=b'{"type":"secret","seq":1,"run_id":"secret","x":["a secret"]}')
    assert Redaction(["secret"]).apply(CODEC.encode(fact)) == (
        b'{"type":"secret","seq":1,"run_id":"secret","x":["a [redacted]"]}'
    )


class Mood(BaseMessage, Struct, frozen=True):
    mood: Literal["calm", "cross"]


def test_what_is_no_fact_any_more_is_refused() -> None:
    codec = Codec()
    codec.register("mood", Mood)
    body = codec.encode(MessageEnd("m1", app=AppMessage("mood", Mood("calm"))))
    with pytest.raises(LogError, match="it is no fact"):
        Redaction(["calm"]).apply(body, codec)


@pytest.mark.parametrize("pattern", [r"[a-z_]{4,}", r"[0-9a-f]{6,}|look|redact", r"\w+", r".+"])
def test_a_log_that_is_searched_for_anything_is_still_one(pattern: str, tmp_path: Path) -> None:
    @tool
    def look(place: str = "attic") -> str:
        """Look around."""
        return f"dust in the {place}"

    path = tmp_path / "log"
    with JsonlLog(path, redact=[pattern]) as log:
        model = ScriptedModel([[call("call_1", "look", place="cellar")], "nothing there"])
        options = CallOptions(stop=("stop here",), tool_choice="auto")
        agent = Agent(model, tools=[look], system="be thorough", options=options, log=log)
        anyio.run(agent.run, "look everywhere")
        settings = recorded_settings(log.state())
    assert [request.exact for request in requests(path)] == [False, False]
    assert (settings.model, [spec.name for spec in settings.tools]) == (model.name, ["look"])
    assert settings.options.tool_choice == "auto"
    assert b"look everywhere" not in path.read_bytes()
