"""Random histories for property tests: ``@given(histories())``.

A history is made of moves: a user speaks, the model answers or calls tools side by side, whose results come,
come late or never, hold images or are huge; replies fail; an application says something of its own; earlier
rewrites have left their marks. Arguments and outputs come from small pools, so that reads are repeated. Ids
of calls are new ones, except in batches that are complete, where they may be used again.

Read with: ``working.py``.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

from unspool.context.marks import kind_of, marked
from unspool.kernel import (
    AgentMessage,
    BaseMessage,
    Image,
    Message,
    Reduced,
    Text,
    Thinking,
    ToolCall,
    user_message,
)
from unspool.kernel.messages import assistant_message

LENGTHS = (0, 30, 300, 3_000, 30_000, 200_000)  # characters
FILES = ("a.py", "./a.py", "src/b.py", "docs/c.md")


class Note(BaseMessage, Struct, frozen=True):
    """An application's message, which can be as short as a fraction of itself."""

    full: str
    role: str = "user"
    priority: int = 0
    share: float = 1.0
    least: float = 0.0
    said: bool = True

    @property
    def text(self) -> str:
        return self.full[: max(1, int(len(self.full) * self.share))]

    def raw(self) -> "Note":
        return Note(self.full, self.role, self.priority, 1.0, self.least, self.said)

    def compact(self, expect: float) -> Reduced:
        share = max(expect, self.least)
        return Reduced(Note(self.full, self.role, self.priority, share, self.least, self.said), share)

    def to_message(self) -> Message | None:
        return user_message(self.text) if self.said else None


def text_of(length: int, seed: int = 0) -> str:
    """``length`` characters in lines; another text for each seed, the same each time."""
    line = f"{seed}: def part_{seed}(value): return value + {seed * 37 % 101}  # see CORE-{seed + 100}\n"
    return (line * (length // len(line) + 1))[:length]


class _Builder:
    """Renders moves to messages."""

    def __init__(self) -> None:
        self.messages: list[AgentMessage] = []
        self.late: list[Message] = []
        self.count = 0

    def call_id(self) -> str:
        self.count += 1
        return f"call_{self.count}"

    def add(self, *messages: AgentMessage) -> None:
        self.messages += [*messages, *self.late]
        self.late = []

    def batch(self, move: "Batch") -> None:
        complete = all(outcome.how in ("", "error") for _, _, outcome in move.calls)
        calls = [
            ToolCall(id=f"c{place}" if move.reuse and complete else self.call_id(), name=name, args=args)
            for place, (name, args, _) in enumerate(move.calls)
        ]
        thinking = [Thinking(text="so", signature="c2lnbmVk")] if move.thinks else []
        reply = Message(role="assistant", content=(*thinking, Text("on it"), *calls), stop_reason="tool_use")
        results = [
            (outcome, _result(call, outcome))
            for call, (_, _, outcome) in zip(calls, move.calls, strict=True)
            if outcome.how != "missing"
        ]
        self.add(reply, *[result for outcome, result in results if outcome.how != "late"])
        self.late = [result for outcome, result in results if outcome.how == "late"]


class Outcome(Struct, frozen=True):
    """How a call ends: ``how`` is empty, error, image, missing or late."""

    how: str
    length: int
    seed: int


class Batch(Struct, frozen=True):
    """A reply with calls: name, arguments and outcome of each."""

    calls: Sequence[tuple[str, dict[str, Any], Outcome]]
    reuse: bool
    thinks: bool


def _result(call: ToolCall, outcome: Outcome) -> Message:
    content: tuple[Any, ...] = (Text(text_of(outcome.length, outcome.seed)),)
    if outcome.how == "image":
        content = (*content, Image(data="aW1hZ2U=", mime_type="image/png"))
    return Message(
        role="tool",
        content=content,
        tool_call_id=call.id,
        tool_name=call.name,
        is_error=outcome.how == "error",
    )


def _summary(length: int) -> Message:
    return marked(Message(role="user"), (Text(text_of(length)),), "summary", messages=7)


def _reply(length: int, stop: str, earlier: str) -> Message:
    reply = assistant_message(text_of(length, 9), stop_reason=stop)
    return marked(reply, reply.content, earlier) if earlier and stop == "stop" else reply


_lengths = st.sampled_from(LENGTHS)
_ordinary = st.sampled_from(LENGTHS[:4])
_seeds = st.integers(0, 2)
_files = st.sampled_from(FILES)
_calls = st.one_of(
    st.tuples(st.just("read_file"), st.fixed_dictionaries({"path": _files})),
    st.tuples(st.just("read_file"), st.fixed_dictionaries({"path": _files, "offset": st.integers(1, 2)})),
    st.tuples(
        st.just("edit_file"),
        st.fixed_dictionaries({"path": _files, "old": st.just("x"), "new": st.just("y")}),
    ),
    st.tuples(st.just("grep"), st.fixed_dictionaries({"pattern": st.sampled_from(["def", "x"])})),
    st.tuples(st.just("bash"), st.fixed_dictionaries({"command": st.sampled_from(["make", "git log"])})),
    st.tuples(st.just("wait"), st.just({})),
)
_outcomes = st.builds(
    Outcome, st.sampled_from(["", "", "", "", "error", "image", "missing", "late"]), _lengths, _seeds
)
_batches = st.builds(
    Batch,
    st.lists(st.builds(lambda call, outcome: (*call, outcome), _calls, _outcomes), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
_spoken: st.SearchStrategy[AgentMessage] = st.one_of(
    st.builds(lambda length: user_message(text_of(length, 5)), _lengths),
    st.just(Message(role="user", content=(Text("look"), Image(data="aW1hZ2U=", mime_type="image/png")))),
    st.builds(
        _reply,
        _lengths,
        st.sampled_from(["stop", "stop", "stop", "error", "aborted"]),
        st.sampled_from(["", "", "trimmed"]),
    ),
    st.just(Message(role="system", content=(Text("Answer in English."),))),
    st.builds(_summary, _ordinary),
    st.builds(
        Note,
        st.builds(text_of, _lengths),
        st.sampled_from(["user", "custom"]),
        st.integers(0, 2),
        st.sampled_from([1.0, 1.0, 0.3]),
        st.sampled_from([0.0, 0.2]),
        st.sampled_from([True, True, True, False]),
    ),
)


class Said(list[AgentMessage]):
    """Messages, shown by role and length."""

    def __repr__(self) -> str:
        return ", ".join([_shown(message) for message in self])


def _shown(message: AgentMessage) -> str:
    calls = [f"{call.name}#{call.id} {call.args}" for call in getattr(message, "tool_calls", ())]
    mark = kind_of(message)
    result = f"#{message.tool_call_id}" if message.role == "tool" and isinstance(message, Message) else ""
    what = type(message).__name__ if type(message) is not Message else ""
    return f"{message.role}{result}({what}{mark}{len(message.text)}{calls or ''})"


def _built(moves: Sequence[AgentMessage | Batch], last: AgentMessage | Batch) -> Said:
    builder = _Builder()
    for move in (*moves, last):
        if isinstance(move, Batch):
            builder.batch(move)
        else:
            builder.add(move)
    builder.add()
    return Said(builder.messages)


def histories(max_moves: int = 12) -> st.SearchStrategy[Said]:
    """Views as a manager may be given them: of at least one message, mostly with users and tools in turn."""
    return st.builds(
        _built,
        st.lists(st.one_of(_batches, _batches, _spoken), max_size=max_moves),
        st.one_of(_batches, _spoken),
    )
