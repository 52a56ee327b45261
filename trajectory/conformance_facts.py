"""What the conformance kit for logs stores: facts that are hard to keep, and a run of an agent.

Read with: ``conformance.py``.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from unspool.kernel.codec import Codec
from unspool.kernel.errors import CodecError
from unspool.kernel.events import (
    AgentStart,
    AppMessage,
    ApprovalRequested,
    ErrorEvent,
    Fact,
    Lineage,
    MessageEnd,
    MessageUpdate,
    NestedCall,
    SessionChanged,
    ToolExecEnd,
    ToolExecStart,
    TurnStart,
    UnknownFact,
)
from unspool.kernel.function_tool import raw_tool
from unspool.kernel.messages import Message, Opaque, Text, ToolCall, Usage, user_message
from unspool.kernel.ports import (
    ModelRequest,
    StreamEnd,
    StreamEvent,
    TextDelta,
    Tool,
    ToolCallDelta,
    ToolCallEnd,
)

_TIME: Final = 1_700_000_000.123456  # not every store keeps the last digits of a float


def turns(count: int, first: int = 1, run_id: str = "run 1") -> list[Fact]:
    """Plain facts, numbered from ``first``."""
    return [TurnStart(seq, seq=seq, time=_TIME + seq, run_id=run_id) for seq in range(first, first + count)]


_TEXT: Final = "é 水 🙂 \u2028 \x00 \x7f \\ \" ' %s {} --\r\n\ttab </script>"


def awkward() -> list[Fact]:
    """Contents that have been lost, changed or taken for something else somewhere."""
    deep = Opaque(provider="p", data={"deep": [[[{"a": None}]]]})
    facts: list[Fact] = [
        MessageEnd("m1", user_message(_TEXT)),
        MessageEnd("m2", user_message("")),
        MessageEnd("m3", user_message("long " * 20_000)),
        MessageEnd("m4", Message(role="assistant", content=(deep,))),
        ToolExecStart("c1", "echo", args={"": 0, "a b": [1.5, -1e-300, 1 << 53, True], _TEXT: _TEXT}),
        ToolExecEnd("c1", content=(Text(""), Text(_TEXT)), details={"$blob": "x", "bytes": 1}),
        ToolExecStart("c2", "below"),
        ApprovalRequested(
            ("c2",),
            nested=(_below({"": [None, 1.5]}), NestedCall(id="c2/x", call=ToolCall(id="x", name="y"))),
        ),
        SessionChanged(title=_TEXT, metadata={"seq": 99, "type": "turn_start", "prev": "", "sum": ""}),
        ErrorEvent("unknown", message=_TEXT, fatal=False),
        AgentStart(session=_TEXT, lineage=Lineage(parent=_TEXT, call_id=_TEXT, path=("", _TEXT), root="")),
    ]
    return [replace(fact, seq=seq, time=_TIME + seq) for seq, fact in enumerate(facts, 1)]


def _below(details: dict[str, Any]) -> NestedCall:
    """A call of a nested session that waits for a person."""
    call = ToolCall(id=_TEXT, name="pay", args={_TEXT: [1e-300]})
    shown = {"type": "x", "seq": None}
    return NestedCall(
        id=_TEXT, call=call, session=_TEXT, agent=("", _TEXT), reason=_TEXT, details=details, preview=shown
    )


UNKNOWN: Final = UnknownFact(
    seq=1,
    time=1.5,
    run_id="r",
    type="from_the_future",
    raw=b'{"type":"from_the_future",  "seq":1,"time":1.50,"run_id":"r","x":{"y":[1e2,"\\u00e9\\/"]},"x":null}',
)
"""White space, a number and escapes as no encoder of ours writes them, a key that is there twice."""


def not_json() -> dict[str, Fact]:
    """Facts that JSON would change, by what is wrong with each."""
    return {
        "NaN": ErrorEvent("x", details={"x": float("nan")}, seq=2),
        "bytes": ToolExecStart("c1", "echo", args={"x": [b"\xff"]}, seq=2),
        "a set": ToolExecEnd("c1", details={"x": {1, 2}}, seq=2),
        "an object": SessionChanged(metadata={"x": object()}, seq=2),
        "NaN far below": ApprovalRequested(("c1",), nested=(_below({"x": float("nan")}),), seq=2),
        "a lone surrogate": MessageEnd("m1", Message(role="user", content=(Text("\ud800"),)), seq=2),
    }


SIGNAL: Final = MessageUpdate("x", seq=1, sub=1)


def survives_json(first: Fact, odd: Fact, kept: Sequence[Fact]) -> bool:
    """Whether a log holds ``first`` and what has become of ``odd``, which is JSON now."""
    if len(kept) != 2 or kept[0] != first or (type(kept[1]), kept[1].seq) != (type(odd), odd.seq):
        return False
    codec = Codec()
    try:
        return codec.decode(codec.encode(kept[1])) == kept[1]
    except CodecError:
        return False


# --- a session with messages of an application -------------------------------------------------


class _Memo(Struct, frozen=True):
    """A message of an application; its bytes are base64 in JSON, and bytes again where the class is known."""

    text: str
    data: bytes


def memos() -> tuple[Codec, list[Fact]]:
    """Facts with messages of an application, and the codec that knows them."""
    codec = Codec()
    codec.register("unspool_memo", _Memo)
    memo = AppMessage("unspool_memo", _Memo("seen", b"\x00\xff"))
    facts: list[Fact] = [
        MessageEnd("m1", user_message("Begin."), seq=1, time=_TIME),
        MessageEnd("m2", user_message("A memo."), memo, seq=2, time=_TIME),
        MessageEnd("m3", None, memo, seq=3, time=_TIME),
    ]
    return codec, facts


# --- an agent ----------------------------------------------------------------------------------

PROMPT: Final = "Say é."
_SCHEMA: Final[dict[str, Any]] = {"type": "object", "properties": {"text": {"type": "string"}}}


def echo() -> Tool:
    """Says again what it is given; made on demand, since schemas take long to load."""
    return raw_tool("echo", "Says it again.", _SCHEMA, lambda args, ctx: args, read_only=True)


class EchoModel:
    """Answers a prompt with a call of ``echo``, and its result with a text."""

    name = "conformance/echo"
    supports_tools = True

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        if request.messages[-1].role == "user":
            id = f"call_{len(request.messages)}"
            yield ToolCallDelta(0, id=id, name="echo", args='{"text": "é"}')
            yield ToolCallEnd(0)
            yield StreamEnd(stop_reason="tool_use", usage=Usage(input_tokens=10, output_tokens=5))
        else:
            yield TextDelta("It says é.")
            yield StreamEnd(stop_reason="stop", usage=Usage(input_tokens=20, output_tokens=5))
