"""Whose long texts lose their middle."""

import pytest

from unspool.context.engine import Engine
from unspool.context.marks import mark_of, marked
from unspool.context.trimming import TrimText
from unspool.kernel import AgentMessage, Message, Text, Thinking, user_message
from unspool.kernel.messages import assistant_message

from .scoping import Conversation, Scope
from .working import count, done, turn, work_of

pytestmark = pytest.mark.anyio
SMALL = TrimText(keep=1, threshold=100, head=20, tail=10)
LONG = "a" * 800
SHORT = f"{'a' * 20}\n[… 770 characters left out …]\n{'a' * 10}"
END: list[AgentMessage] = [user_message("recent")]
SYSTEM = Message(role="system", content=(Text(LONG),))
FAILED = assistant_message(LONG, stop_reason="error")

CASES: dict[str, tuple[list[AgentMessage], dict[int, str]]] = {
    "the assistant's": ([assistant_message(LONG), *END], {0: SHORT}),
    "a tool's": ([*turn(1, "f", LONG), *END], {1: SHORT}),
    "not a user's": ([user_message(LONG), *END], {}),
    "not the system's": ([SYSTEM, *END], {}),
    "not what is not sent": ([FAILED, *END], {}),
    "not the newest": ([*END, assistant_message(LONG)], {}),
    "not the turn under way": ([*END, *turn(1, "f", LONG), *turn(2, "f", LONG)[:1]], {2: SHORT}),
    "not what is short": ([assistant_message("a" * 100), *END], {}),
    "each block by itself": (
        [Message(role="assistant", content=(Text("a" * 90), Text(LONG))), *END],
        {0: "a" * 90 + SHORT},
    ),
}


@pytest.mark.parametrize(("view", "texts"), CASES.values(), ids=CASES)
async def test_whose(view: list[AgentMessage], texts: dict[int, str]) -> None:
    after = await done(SMALL, work_of(view))
    new = {at: each.text for at, each in enumerate(after or view) if each is not view[at]}
    assert new == texts
    if after is not None:
        assert sum(map(count, after)) < sum(map(count, view))
        assert await done(SMALL, work_of(after)) is None


async def test_what_is_noted() -> None:
    view: list[AgentMessage] = [assistant_message(LONG), *END]
    after = await done(SMALL, work_of(view))
    assert after is not None
    assert mark_of(after[0]) == {"kind": "trimmed", "of": "", "blocks": 1, "lines": 1, "characters": 800}
    assert view[0].text == LONG and not mark_of(view[0])


async def test_reasoning_stays() -> None:
    thinking = Thinking(text=LONG, signature="c2ln")
    view: list[AgentMessage] = [Message(role="assistant", content=(thinking, Text(LONG))), *END]
    after = await done(SMALL, work_of(view))
    assert after is not None and isinstance(after[0], Message) and after[0].content == (thinking, Text(SHORT))


async def test_what_is_shortened_already_stays() -> None:
    """The line in its middle says where the rest is."""
    reply = assistant_message(LONG)
    view: list[AgentMessage] = [marked(reply, reply.content, "offloaded", blob="f"), *END]
    assert await done(SMALL, work_of(view)) is None


async def test_the_newest_few_stay() -> None:
    view: list[AgentMessage] = [assistant_message(LONG * 9) for _ in range(6)]
    after = await done(TrimText(), work_of(view))
    assert (
        after is not None
        and [each is old for each, old in zip(after, view, strict=True)] == [False] * 2 + [True] * 4
    )


@pytest.mark.parametrize("wrong", [{"keep": -1}, {"head": 4000}, {"tail": -1}])
def test_wrong_settings(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="head and tail must be less than threshold"):
        TrimText(**wrong)  # type: ignore[arg-type]  # one at a time


async def test_in_an_engine() -> None:
    """What it did is committed, told step by step, and counted in the snapshot until the transcript is another."""
    talk = Conversation(Engine([SMALL], window=300, reserve=100, counter="estimate"), Scope())
    talk.say(user_message("go"), assistant_message("word " * 300), *END)
    made = await talk.project()
    assert made.compaction is None and len(talk.rewrites) == 1
    rewrite, view = talk.rewrites[0], talk.transcript
    assert rewrite.commit and mark_of(view[1])["kind"] == "trimmed" and talk.written[1].text == "word " * 300
    assert [step.strategy for step in rewrite.steps] == ["light_trim"]
    assert rewrite.steps[0].tokens_after < rewrite.steps[0].tokens_before
    snapshot = talk.manager.snapshot()
    assert snapshot is not None and snapshot.kinds == {"trimmed": 1} and snapshot.last == rewrite.steps
    talk.manager.sync(view)
    assert talk.manager.snapshot() is None
