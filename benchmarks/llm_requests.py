"""Building the request of a long history: after one new message, and from nothing."""

import time
from collections.abc import Iterator

from llm_formats import formats

from unspool.kernel import Message, ModelRequest, SystemBlock, Text, ToolCall, ToolSpec
from unspool.kernel.messages import user_message
from unspool.kernel.transcript import Transcript
from unspool.llm.http_model import HttpModel

_SYSTEM = (SystemBlock(text="You are a coding agent. " * 40),)
_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
_TOOLS = tuple(
    [ToolSpec(name=name, description="A tool.", schema=_SCHEMA) for name in ("read", "write", "run")]
)
_TEXT = "Some words of a reply, or of what a tool gave. " * 8


def history(count: int) -> Iterator[Message]:
    """Messages as a run makes them: replies with a call, and results."""
    yield user_message("go")
    for number in range(1, count):
        if number % 2:
            call = ToolCall(id=f"call_{number:08}", name="read", args={"path": f"/src/{number}.py"})
            yield Message(role="assistant", content=(Text(_TEXT), call), stop_reason="tool_use")
        else:
            id = f"call_{number - 1:08}"
            yield Message(role="tool", content=(Text(_TEXT),), tool_call_id=id, tool_name="read")


def building(laps: int, count: int) -> dict[str, dict[str, float]]:
    """ms for the request of ``count`` messages, by format."""
    found: dict[str, dict[str, float]] = {}
    for name, format in formats().items():
        model = format.model("http://x")
        best = dict.fromkeys(("ours", "bare"), float("inf"))
        for _ in range(laps):
            messages = Transcript(list(history(count)))
            _built(model, messages)
            messages = messages.append(user_message("and now?"))
            after, grown = _timed(model, messages)
            anew, whole = _timed(model, Transcript(list(messages)))
            if grown != whole:
                raise SystemExit(f"{name}: the request depends on what was built before")
            best = {"ours": min(best["ours"], after), "bare": min(best["bare"], anew)}
        found[f"request of {count}, {name}, ms"] = {key: value * 1e3 for key, value in best.items()}
    return found


def _built(model: HttpModel, messages: Transcript[Message]) -> bytes:
    return model._body(ModelRequest(messages=messages, system=_SYSTEM, tools=_TOOLS))


def _timed(model: HttpModel, messages: Transcript[Message]) -> tuple[float, bytes]:
    start = time.process_time()
    body = _built(model, messages)
    return time.process_time() - start, body
