"""What holds of every context manager that we ship, after any sequence of projections, compactions and overflows.

Random histories (roles, parallel calls, late and missing results, images, huge messages, application messages, earlier
summaries) are said in pieces; between them the manager projects, is told of an overflow, is asked for a compaction,
is asked by another model, or begins anew on a branch. The rules are those of the design: the system prompt, the newest
user message and the turn under way stay; calls stay with their results; each rewrite shrinks; nothing disappears
without a record; what was taken away does not come back; projecting again changes nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

import anyio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.context.histories import Said, histories
from tests.context.scoping import Conversation, Scope

from unspool.context import ClearToolResults, Engine, SummaryCheckpoint, default, keep_tokens, keep_turns
from unspool.context.rules import newest_user, tail_of
from unspool.kernel import AgentMessage, Message, ToolCall, Usage, user_message
from unspool.kernel.errors import OverloadedError
from unspool.kernel.lowering import Lowering
from unspool.kernel.messages import assistant_message
from unspool.kernel.sequence import to_messages, validate_message_sequence
from unspool.kernel.transcript import Transcript
from unspool.llm.scripted import ScriptedModel

MANAGERS: dict[str, Callable[[int], Engine]] = {
    "default": lambda window: default(window=window, counter="estimate"),
    "shared prefix": lambda window: default(
        window=window, counter="estimate", summary=SummaryCheckpoint(share_prefix=True)
    ),
    "remembered": lambda window: Engine(
        [ClearToolResults(commits=False), SummaryCheckpoint(commits=False)], window=window, counter="estimate"
    ),
    "keep_turns": lambda window: keep_turns(2, window=window, counter="estimate"),
    "keep_tokens": lambda window: keep_tokens(window // 4, window=window, counter="estimate"),
}
ANSWERS: dict[str, Any] = {
    "good": "<summary>They read and wrote files.</summary>",
    "empty": " ",
    "too long": "<summary>" + "on and on " * 20_000 + "</summary>",
    "down": OverloadedError("provider: no capacity"),
}
Op = str
OPS: st.SearchStrategy[Op] = st.sampled_from(
    ["project", "project", "project", "overflow", "manual", "usage", "switch", "branch", "tiny"]
)


class Watched(Conversation):
    """A conversation that keeps an account of what is shown and what was taken away."""

    def __init__(self, manager: Engine, scope: Scope) -> None:
        super().__init__(manager, scope)
        self.held: list[AgentMessage] = []  # ids of objects must not be used again
        self.gone: set[int] = set()

    def _take(self, rewrite: Any) -> None:
        if rewrite.changed:
            assert rewrite.tokens_after < rewrite.tokens_before
            for edit in rewrite.edits:
                taken = self.transcript[edit.start : edit.stop]
                self.held += taken
                self.gone |= {id(message) for message in taken}
        super()._take(rewrite)

    async def check(self) -> None:
        before = self.transcript
        made = await self.project()
        view = list(made.messages)
        self.held += [*before, *view]
        shown = {id(message) for message in view}
        assert not shown & self.gone, "what was taken away came back"
        assert {id(message) for message in self.written} <= shown | self.gone, "something disappeared"
        self._check_rules(view)
        if not any("failed" in text for text, _ in self.scope.warnings):  # else it may be tried again
            again = await self.project()
            assert list(again.messages) == view
            assert again.compaction is None

    def _check_rules(self, view: Sequence[AgentMessage]) -> None:
        newest = newest_user(self.written)
        if newest >= 0:
            assert any(message is self.written[newest] for message in view)
        systems = [message for message in self.written if message.role == "system"]
        assert all(any(message is system for message in view) for system in systems)
        tail = [(m.role, getattr(m, "tool_call_id", "")) for m in self.written[tail_of(self.written) :]]
        assert [(m.role, getattr(m, "tool_call_id", "")) for m in view[len(view) - len(tail) :]] == tail
        lowered, _ = Lowering().extend(Transcript(view), b"")
        assert validate_message_sequence(lowered) == []
        said = to_messages(self.written)
        assert bool(lowered) or not said
        calls, results = _pairs(self.written)
        kept_calls, kept_results = _pairs(view)
        assert kept_calls & results <= kept_results
        assert kept_results & calls <= kept_calls


def _pairs(messages: Sequence[AgentMessage]) -> tuple[set[str], set[str]]:
    lowered = [each for message in messages if (each := message.to_message()) is not None]
    calls = {call.id for message in lowered for call in message.tool_calls}
    return calls, {message.tool_call_id for message in lowered if message.role == "tool"}


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(
    name=st.sampled_from(sorted(MANAGERS)),
    window=st.sampled_from([1_000, 6_000, 40_000]),
    answer=st.sampled_from(sorted(ANSWERS)),
    parts=st.lists(st.tuples(histories(max_moves=6), OPS), min_size=1, max_size=6),
)
def test_the_rules_hold_whatever_happens(
    name: str, window: int, answer: str, parts: list[tuple[Said, Op]]
) -> None:
    async def main() -> None:
        scope = Scope(*[ANSWERS[answer]] * 1000, window=window, system="Be good.")
        it = Watched(MANAGERS[name](window), scope)
        for number, (messages, op) in enumerate(parts):
            it.say(*[_with_own_calls(message, number) for message in messages])
            await _do(it, op)
            await it.check()

    anyio.run(main)


def _with_own_calls(message: AgentMessage, part: int) -> AgentMessage:
    """The message with call ids that no other part has."""
    if not isinstance(message, Message):
        return message
    if message.role == "tool":
        return replace(message, tool_call_id=f"{part}.{message.tool_call_id}")
    if not message.has_tool_calls:
        return message
    content = [
        replace(block, id=f"{part}.{block.id}") if isinstance(block, ToolCall) else block
        for block in message.content
    ]
    return replace(message, content=tuple(content))


async def _do(it: Watched, op: Op) -> None:
    match op:
        case "overflow" | "manual":
            await it.project()
            await it.compact(op)
        case "usage":
            made = await it.project()
            usage = Usage(input_tokens=2 * (made.tokens or 0))
            it.say(assistant_message("Indeed.", usage=usage), *_question())
        case "switch":
            it.scope.model = ScriptedModel([], name=f"other/model-{len(it.written)}")
        case "branch":
            await it.project()
            kept = [message for message in it.transcript][: len(it.transcript) // 2]
            it.transcript, it.written, it.gone = Transcript(kept), list(kept), set()
            it.manager.sync(it.transcript)
            it.say(*_question())
        case "tiny":
            it.scope.system = (
                *it.scope.system,
                *[replace(each, text=each.text * 50) for each in it.scope.system],
            )
        case _:
            await it.project()


def _question() -> list[AgentMessage]:
    return [user_message("And then?")]
