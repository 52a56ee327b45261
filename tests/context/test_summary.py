"""A model's summary in the place of the older part of a view: its shape, what is carried, when there is none."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from unspool.context.checkpoint import SummaryInfo
from unspool.context.engine import Engine
from unspool.context.extract import ExtractiveSummary
from unspool.context.marks import is_summary, mark_of, marked
from unspool.context.summarizing import SummaryError
from unspool.context.summary import SummaryCheckpoint
from unspool.context.work import Rewrite, Work
from unspool.kernel import (
    AgentMessage,
    CallOptions,
    Edit,
    Image,
    Message,
    ModelRequest,
    StreamEvent,
    SystemBlock,
    Text,
    Thinking,
    ToolCall,
    ToolSpec,
    user_message,
)
from unspool.kernel.conformance_context import check_context
from unspool.kernel.errors import AuthError, ContextOverflowError, OverloadedError
from unspool.kernel.messages import assistant_message, tool_message

from .scoping import Conversation, Scope
from .working import count, done, work_of

pytestmark = pytest.mark.anyio

ANSWER = "<analysis>Hm.</analysis><summary>They built the parser.</summary>"
LONG = "It was done as it was asked for, and then some. " * 20


def talk(turns: int, *, said: str = LONG) -> list[AgentMessage]:
    """Turns of a request and an answer, and one more request."""
    view: list[AgentMessage] = []
    for number in range(turns):
        view += [user_message(f"Request {number}."), assistant_message(f"Answer {number}. {said}")]
    return [*view, user_message("And now?")]


def loop(rounds: int, *, start: int = 0, tool: str = "read_file", said: str = LONG) -> list[AgentMessage]:
    """Rounds of a call and its result."""
    view: list[AgentMessage] = []
    for number in range(start, start + rounds):
        call = ToolCall(id=f"c{number}", name=tool, args={"path": f"{number}.py"})
        view += [assistant_message("", call), tool_message(call, f"Content {number}. {said}")]
    return view


def summed(view: Sequence[AgentMessage] | None) -> Message:
    """The one summary of a view."""
    assert view is not None
    found = [message for message in view if is_summary(message)]
    assert len(found) == 1
    assert isinstance(found[0], Message)
    return found[0]


def roles(view: Sequence[AgentMessage] | None) -> str:
    return "".join(["S" if is_summary(message) else message.role[0] for message in view or ()])


async def test_the_older_part_becomes_one_user_message() -> None:
    view = talk(3)
    work = work_of(view, target=2000, replies=[ANSWER])
    after = await done(SummaryCheckpoint(keep=10), work)
    summary = summed(after)
    assert roles(after) == "Su"
    assert after is not None
    assert after[-1] is view[-1]
    assert summary.role == "user"
    assert summary.text.startswith("<context-summary>\n")
    assert summary.text.endswith("\n</context-summary>")
    assert "They built the parser." in summary.text
    mark = mark_of(summary)
    assert {key: mark[key] for key in ("kind", "by", "summary", "covered", "tokens_before")} == {
        "kind": "summary",
        "by": "model",
        "summary": "They built the parser.",
        "covered": 6,
        "tokens_before": work.budget.tokens,
    }
    assert mark["requests"] == ["Request 0.", "Request 1.", "Request 2."]


async def test_what_the_model_is_asked() -> None:
    scope = Scope(ANSWER, instructions="the names of functions")
    work = work_of(talk(3), target=2000, scope=scope)
    await done(SummaryCheckpoint(keep=10, focus="the tests"), work)
    [(request, purpose)] = scope.asked
    assert purpose == "compaction"
    assert request.tools == ()
    assert request.options.thinking == "off"
    assert request.options.max_tokens == 666  # a third of the target: 0.8 of the reserve would be 1,600
    [asked] = request.messages
    assert asked.role == "user"
    assert asked.text.startswith("<conversation>\n[User]\nRequest 0.\n\n[Assistant]\nAnswer 0.")
    assert "And now?" not in asked.text
    assert "special attention to this: the tests" in asked.text
    assert "special attention to this: the names of functions" in asked.text


@pytest.mark.parametrize("reason", ["threshold", "overflow", "manual"])
async def test_the_answer_may_always_have_tokens(reason: str) -> None:
    scope = Scope(ANSWER)
    work = work_of(talk(30), target=900, trigger=1200, reason=reason, scope=scope)
    await done(SummaryCheckpoint(keep=10), work)
    assert {request.options.max_tokens for request, _ in scope.asked} == {380}


async def test_within_one_long_turn_the_request_stays_behind_the_summary() -> None:
    view = [user_message("Read them all."), *loop(40)]
    scope = Scope(ANSWER)
    after = await done(SummaryCheckpoint(keep=600), work_of(view, target=4000, scope=scope))
    assert roles(after) == "Suatat"
    assert after is not None
    assert after[1] is view[0]
    assert summed(after).text.count("Read them all.") == 0  # once, as the user wrote it
    asked = scope.asked[0][0].messages[0].text
    assert asked.startswith("<conversation>\n[User, current request]\nRead them all.")
    assert "## Work on the current request" in asked


async def test_an_earlier_summary_goes_into_the_next_one() -> None:
    scope = Scope(ANSWER, "<summary>And then the printer.</summary>")
    strategy = SummaryCheckpoint(keep=10)
    first = await done(strategy, work_of([*talk(2), *loop(1, tool="edit_file")], target=2000, scope=scope))
    assert roles(first) == "Suat"
    assert first is not None
    second = await done(strategy, work_of([*first, *loop(3, start=1)], target=2000, scope=scope))
    summary = summed(second)
    asked = scope.asked[1][0].messages[0].text
    assert asked.count("They built the parser.") == 1
    assert "<previous-summary>\nThey built the parser.\n</previous-summary>" in asked
    assert "context-summary" not in asked
    mark = mark_of(summary)
    assert mark["summary"] == "And then the printer."
    assert mark["covered"] == 4 + 6  # and not the request that stays
    assert mark["requests"] == ["Request 0.", "Request 1."]
    assert (mark["read_files"], mark["modified_files"]) == (["1.py", "2.py"], ["0.py"])
    assert summary.text.count("<context-summary>") == 1


async def test_only_a_summary_before_the_cut_is_nothing_to_sum_up() -> None:
    scope = Scope(ANSWER)
    before = marked(Message(role="user"), [Text(LONG)], "summary", summary=LONG)
    view = [before, user_message("Go on."), *loop(1)]
    assert await done(SummaryCheckpoint(keep=10), work_of(view, target=100, scope=scope)) is None
    assert await done(SummaryCheckpoint(keep=10), work_of(view, reason="manual", scope=scope)) is None
    assert scope.asked == []


async def test_it_does_not_grow_with_the_number_of_compactions() -> None:
    scope, strategy = Scope(), SummaryCheckpoint(keep=300)
    view: list[AgentMessage] = [user_message("Build the parser. " * 20)]
    sizes = []
    for number in range(30):
        wish = user_message(f"Wish {number}: " + "and this, " * 60)
        view += [*loop(4, start=4 * number), assistant_message("Done."), wish]
        after = await done(strategy, work_of(view, target=4000, scope=scope))
        assert after is not None
        view = after
        summary = summed(view)
        sizes.append(count(summary))
        assert summary.text.count("<context-summary>") == 1
        assert any("Build the parser." in request for request in mark_of(summary)["requests"])
    assert mark_of(summed(view))["covered"] + len(view) - 1 == 1 + 30 * 10
    assert max(sizes[10:]) - min(sizes[10:]) < 100
    assert max(sizes) < 4000 // 3


async def test_little_is_not_worth_a_call() -> None:
    scope = Scope(ANSWER)
    work = work_of([*talk(1, said=""), *loop(20)], target=40_000, scope=scope)
    assert await done(SummaryCheckpoint(keep=work.total() - 1), work) is None
    assert scope.asked == []


@pytest.mark.parametrize(
    ("images", "target", "shown"), [(False, 9000, False), (True, 9000, True), (True, 1000, False)]
)
async def test_images_are_shown_where_that_is_wanted_and_fits(images: bool, target: int, shown: bool) -> None:
    image = Image(data="aGk=", mime_type="image/png")
    view = [Message(role="user", content=(Text("See."), image)), *talk(3)]
    scope = Scope(ANSWER)
    await done(SummaryCheckpoint(keep=10, images=images), work_of(view, target=target, scope=scope))
    content = scope.asked[0][0].messages[0].content
    assert (image in content) is shown
    assert isinstance(content[0], Text)
    assert "[image: image/png, 0 KB]" in content[0].text


# --- answers that cannot be used


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "it is empty"),
        ("   \n", "it is empty"),
        (
            Message(role="assistant", content=(Thinking(text="hmm"),), stop_reason="length"),
            "reasoning without text",
        ),
        (assistant_message("", ToolCall(id="s1", name="f")), "it calls tools"),
        ("<analysis>Only this.</analysis>", "its summary is empty"),
        (assistant_message("As far as", stop_reason="length"), "output limit"),
        (assistant_message("No.", stop_reason="safety"), "'safety'"),
    ],
)
async def test_an_answer_without_a_summary_is_asked_for_once_more(reply: str | Message, reason: str) -> None:
    scope = Scope(reply, reply, ANSWER)
    with pytest.raises(SummaryError, match=reason):
        await done(SummaryCheckpoint(keep=10), work_of(talk(3), target=2000, scope=scope))
    assert len(scope.asked) == 2
    assert reason.strip("'") in scope.asked[1][0].messages[0].text
    assert await done(SummaryCheckpoint(keep=10), work_of(talk(3), target=2000, replies=[reply, ANSWER]))


async def test_a_summary_as_long_as_what_it_is_of_is_none() -> None:
    work = work_of(talk(3), target=2000, replies=[f"<summary>{LONG * 9}</summary>"])
    with pytest.raises(SummaryError, match="hardly shorter"):
        await done(SummaryCheckpoint(keep=10), work)


@pytest.mark.parametrize("error", [OverloadedError("502"), AuthError("401")])
async def test_what_the_model_raises_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        await done(SummaryCheckpoint(keep=10), work_of(talk(3), target=2000, replies=[error]))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OverloadedError("502"), "overloaded"),
        (AuthError("401"), "auth"),
        ("", "summary"),
        (ContextOverflowError("no"), "context_overflow"),
    ],
)
async def test_the_engine_names_the_cause_and_goes_on_without_a_model(error: Any, kind: str) -> None:
    scope = Scope(*[error] * 4, window=8000)
    engine = Engine([SummaryCheckpoint(), ExtractiveSummary()], reserve=4000, counter="estimate")
    conversation = Conversation(engine, scope)
    conversation.say(*talk(30))
    await conversation.project()
    assert [details["error_kind"] for _, details in scope.warnings] == [kind]
    assert [step.strategy for step in conversation.rewrites[0].steps] == ["extract"]
    assert mark_of(summed(conversation.transcript))["by"] == "extract"


# --- another model, a shared prefix


class Other:
    name = "other/model"
    supports_tools = True

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        raise NotImplementedError
        yield


class Asked(Scope):
    """Remembers which model was asked."""

    def __init__(self, *answers: Any, **settings: Any) -> None:
        super().__init__(*answers, **settings)
        self.models: list[Any] = []

    async def call_model(self, request: ModelRequest, purpose: str, /, *, model: Any = None) -> Message:
        self.models.append(model)
        return await super().call_model(request, purpose, model=model)


def forking(*answers: Any) -> Asked:
    tools = [ToolSpec(name="read_file")]
    options = CallOptions(temperature=0.5, cache_last="ephemeral", thinking="high")
    return Asked(*answers, system="You build.", tools=tools, options=options)


async def test_a_shared_prefix_is_the_request_and_one_message() -> None:
    scope, view = forking(ANSWER), talk(3)
    after = await done(SummaryCheckpoint(keep=10, share_prefix=True), work_of(view, target=4000, scope=scope))
    [(request, _)] = scope.asked
    assert request.system == (SystemBlock(text="You build."),)
    assert request.tools == scope.tools
    assert (request.options.temperature, request.options.cache_last, request.options.thinking) == (
        0.5,
        "ephemeral",
        "high",
    )
    assert request.options.max_tokens
    assert list(request.messages[:-1]) == view
    assert request.messages[-1].text.startswith("Stop working on the task now")
    assert mark_of(summed(after))["summary"] == "They built the parser."


@pytest.mark.parametrize(
    "first",
    ["No tags.", "", ContextOverflowError("too long"), assistant_message("", ToolCall(id="x", name="f"))],
)
async def test_without_tags_it_is_asked_for_as_text(first: Any) -> None:
    scope = forking(first, ANSWER)
    after = await done(
        SummaryCheckpoint(keep=10, share_prefix=True), work_of(talk(3), target=4000, scope=scope)
    )
    assert len(scope.asked) == 2
    assert scope.asked[1][0].messages[0].text.startswith("<conversation>")
    assert mark_of(summed(after))["summary"] == "They built the parser."


async def test_another_model_shares_no_prefix() -> None:
    scope, other = forking(ANSWER), Other()
    strategy = SummaryCheckpoint(keep=10, share_prefix=True, model=other)
    await done(strategy, work_of(talk(3), target=4000, scope=scope))
    assert scope.models == [other]
    assert len(scope.asked[0][0].messages) == 1


async def test_a_prefix_that_leaves_no_room_for_the_answer_is_not_shared() -> None:
    scope = forking(ANSWER)
    strategy = SummaryCheckpoint(keep=10, share_prefix=True)
    await done(strategy, work_of(talk(30), target=2000, scope=scope))
    assert all(len(request.messages) == 1 for request, _ in scope.asked)


# --- what comes after


async def test_messages_can_be_put_directly_after_the_summary() -> None:
    infos: list[tuple[SummaryInfo, int]] = []

    def first(info: SummaryInfo, room: int) -> list[AgentMessage]:
        infos.append((info, room))
        return [user_message("hook reminder")]

    async def second(info: SummaryInfo, room: int) -> list[AgentMessage]:
        infos.append((info, room))
        return []

    view = [*talk(3), *loop(3)]
    work = work_of(view, target=1000, trigger=2000, replies=[ANSWER])
    after = await done(SummaryCheckpoint(keep=10, after=[first, second]), work)
    assert roles(after) == "Suuat"
    assert after is not None
    assert [message.text for message in after[1:3]] == ["hook reminder", "And now?"]
    (info, room), (_, less) = infos
    assert room - less == count(after[1])
    assert (info.compacted, info.kept, info.messages_before, info.messages_after) == (10, 3, 13, 4)
    assert (info.split_turn, info.incremental) == (True, False)
    assert info.tokens_before == work.budget.tokens
    assert info.tokens_after == sum(map(count, after)) - count(after[1])
    assert info.read_files == ("0.py", "1.py")
    assert info.summary_chars == len("They built the parser.")


async def test_where_what_comes_after_fails_there_is_no_summary() -> None:
    def fails(info: SummaryInfo, room: int) -> list[AgentMessage]:
        raise RuntimeError("no reminder")

    with pytest.raises(RuntimeError):
        await done(SummaryCheckpoint(keep=10, after=[fails]), work_of(talk(3), target=2000))


# --- with an engine


class Clear:
    """Empties old results."""

    name = "clear"
    commits = True

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        old = [(at, each) for at, each in enumerate(work.view[: work.tail]) if each.role == "tool"]
        edits = [
            Edit(start=at, stop=at + 1, messages=(marked(each, [Text("[cleared]")], "cleared"),))
            for at, each in old
            if isinstance(each, Message)
        ]
        return Rewrite(edits=edits)


@pytest.mark.parametrize("reason", ["threshold", "manual"])
async def test_what_another_strategy_has_just_shortened_is_summed_up_in_full(reason: str) -> None:
    scope = Scope(window=8000)
    conversation = Conversation(Engine([Clear(), SummaryCheckpoint(keep=500)], counter="estimate"), scope)
    call = ToolCall(id="c", name="grep", args={})
    conversation.say(user_message("Begin."), assistant_message("", call))
    conversation.say(tool_message(call, f"VERY_IMPORTANT_TOOL_RESULT {LONG}"), *talk(20))
    await (conversation.project() if reason == "threshold" else conversation.compact("manual"))
    steps = [step.strategy for step in conversation.rewrites[0].steps]
    assert steps == (["clear", "summary"] if reason == "threshold" else ["summary"])
    asked = "".join([request.messages[0].text for request, _ in scope.asked])
    assert "VERY_IMPORTANT_TOOL_RESULT" in asked
    assert "[cleared]" not in asked


@pytest.mark.parametrize("settings", [{}, {"commits": False}, {"share_prefix": True}, {"keep": 200}])
@pytest.mark.parametrize("window", [1500, 8000])
async def test_conformance(settings: dict[str, Any], window: int) -> None:
    await check_context(
        lambda: Engine([SummaryCheckpoint(**settings)], window=window, counter="estimate"), long=200
    )


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="keep=-1"):
        SummaryCheckpoint(keep=-1)
