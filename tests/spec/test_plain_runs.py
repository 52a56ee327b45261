"""Runs that go well: answers, tool turns, continuing, queues."""

import pytest
from msgspec import Struct
from play import Player, echo, lines, without_ids

from unspool.kernel import (
    AgentMessage,
    Codec,
    ContinueError,
    Message,
    Reduced,
    Text,
    assistant_message,
    make_call,
    tool_message,
    user_message,
)
from unspool.llm.scripted import Say, call


def test_plain_answer(play: Player) -> None:  # T1, T258, T432
    run = play(Say(["hello"], chunk=3), prompt="hi")
    assert run.trace == lines("""
        agent_start prompt
        queue_changed [prompt] queued 'hi'
        turn_start 1
        queue_changed [prompt] taken
        message_start user
        message_end user 'hi'
        context_projected 1 message
        message_start assistant
        message_update text 'hel'
        message_update text 'lo'
        message_end assistant 'hello'
        model_response stop, attempt 1
        turn_end 1
        agent_end stop
    """)
    assert (run.end.turns, run.end.tool_calls, run.end.tool_errors) == (1, 0, 0)
    assert run.texts == ["user: hi", "assistant: hello"]


def test_turn_with_two_calls(play: Player) -> None:  # T432
    run = play([call("c1", "echo", value="a"), call("c2", "echo", value="b")], "done", tools=[echo()])
    assert run.trace == lines("""
        agent_start prompt
        queue_changed [prompt] queued 'go'
        turn_start 1
        queue_changed [prompt] taken
        message_start user
        message_end user 'go'
        context_projected 1 message
        message_start assistant
        message_update tool_call '{"value":"a"}'
        message_update tool_call '{"value":"b"}'
        message_end assistant '' echo#c1 echo#c2
        model_response tool_use, attempt 1
        tool_exec_start c1 echo({"value":"a"})
        tool_exec_dispatch c1
        tool_exec_end c1 ok: a
        message_start tool
        message_end tool c1
        tool_exec_start c2 echo({"value":"b"})
        tool_exec_dispatch c2
        tool_exec_end c2 ok: b
        message_start tool
        message_end tool c2
        turn_end 1
        turn_start 2
        context_projected 4 messages
        message_start assistant
        message_update text 'done'
        message_end assistant 'done'
        model_response stop, attempt 1
        turn_end 2
        agent_end stop
    """)


def test_one_call(play: Player) -> None:  # T3, T20, T261
    run = play([call("c1", "echo", value="ping")], "done", tools=[echo()])
    assert run.outcomes() == {"c1": "ok"}
    assert run.sent() == ["user: go", "assistant: echo#c1", "tool c1: ping"]
    assert (run.end.turns, run.end.tool_calls, run.end.tool_errors) == (2, 1, 0)
    assert run.end.reason == "stop"


def test_tool_starts_only_after_its_message_is_committed(play: Player) -> None:  # T18
    run = play([call("c1", "echo", value="x"), "after the call"], "done", tools=[echo()])
    rows = run.trace.splitlines()
    assert rows.index("message_end assistant 'after the call' echo#c1") < rows.index(
        'tool_exec_start c1 echo({"value":"x"})'
    )


def test_follow_up_is_delivered_after_the_answer(play: Player) -> None:  # T8
    run = play("first", "second", on={"message_end assistant": lambda o: o.follow_up("and now?")})
    assert run.texts == ["user: go", "assistant: first", "user: and now?", "assistant: second"]


def test_several_prompts(play: Player) -> None:
    run = play("yes", prompt=["one", user_message("two")])
    assert run.sent() == ["user: one", "user: two"]


def test_committed_messages_are_the_result(play: Player) -> None:  # T31, T32
    run = play(
        [call("c1", "echo", value="x")],
        "done",
        tools=[echo()],
        on={"tool_exec_end c1": lambda o: o.steer("hurry")},
    )
    assert run.texts == ["user: go", "assistant: ", "tool: x", "user: hurry", "assistant: done"]
    assert run.result is not None
    assert list(run.result.messages) == list(run.state.messages)


def test_continue_from_a_user_message(play: Player) -> None:  # T29, T265
    run = play("answer", prompt=None, messages=[user_message("hi")])
    assert run.texts == ["user: hi", "assistant: answer"]
    assert run.trace.count("message_end") == 1
    assert run.sent() == ["user: hi"]


def test_continue_from_a_tool_result(play: Player) -> None:  # T287 without a real provider
    asked = make_call("c1", "echo", '{"value":"8"}')
    history = [user_message("3 + 5?"), assistant_message("", asked), tool_message(asked, "8")]
    run = play("it is 8", prompt=None, messages=history)
    assert run.texts[-1] == "assistant: it is 8"


@pytest.mark.parametrize(
    "history",
    [[], [user_message("hi"), assistant_message("hello")]],
    ids=["no messages", "an answer is last"],
)
def test_nothing_to_continue(play: Player, history: list[Message]) -> None:  # T30, T264
    with pytest.raises(ContinueError):
        play("never", prompt=None, messages=history)


def test_callers_list_is_left_alone(play: Player) -> None:
    history = [user_message("hi"), assistant_message("hello")]
    play("fine", messages=history)
    assert len(history) == 2


class Note(Struct):
    """An application message; the model sees it only where ``visible``."""

    body: str
    visible: bool = False
    role: str = "note"
    timestamp: float = 0.0
    text: str = ""
    thinking: str = ""
    has_tool_calls: bool = False
    priority: int = 0

    def raw(self) -> AgentMessage:
        return self

    def compact(self, expect: float) -> Reduced:
        return Reduced(self, 1.0)

    def to_message(self) -> Message | None:
        return user_message(self.body) if self.visible else None


def noting() -> Codec:
    codec = Codec()
    codec.register("note", Note)
    return codec


def test_application_message_can_stay_hidden(play: Player) -> None:  # T259
    run = play("fine", messages=[Note("sent a mail")], codec=noting())
    assert run.sent() == ["user: go"]
    assert run.state.messages[0] == Note("sent a mail")


def test_continue_from_an_application_message(play: Player) -> None:  # T266
    run = play("fine", prompt=None, messages=[Note("look", visible=True)], codec=noting())
    assert run.sent() == ["user: look"]
    assert run.end.reason == "stop"


def test_prompt_is_committed_as_it_was_given(play: Player) -> None:
    given = Message(role="user", content=(Text("a"), Text("b")), metadata={"from": "cli"})
    run = play("fine", prompt=given)
    held = run.state.messages[0]
    assert isinstance(held, Message)
    assert without_ids(held) == given
    assert run.requests[0].messages[0].text == "ab"
