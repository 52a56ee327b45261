"""The tokens of messages: what is sent counts, and each message is counted once."""

from typing import Any

import pytest
from msgspec import Struct

from unspool.context.media_tokens import PDF_PAGE, UNKNOWN_IMAGE
from unspool.context.tokens import PER_CALL, PER_MESSAGE, PER_TOOL, MessageTokens
from unspool.kernel.messages import (
    AgentMessage,
    BaseMessage,
    Document,
    Image,
    Message,
    Opaque,
    OpaqueMessage,
    Text,
    Thinking,
    ToolCall,
    ToolReference,
    assistant_message,
    tool_message,
    user_message,
)
from unspool.kernel.ports import SystemBlock, ToolSpec


class Letters:
    """A token for each character, and how many texts were counted."""

    name = "letters"

    def __init__(self) -> None:
        self.texts = 0

    def count(self, text: str, /) -> int:
        self.texts += 1
        return len(text)


class Note(BaseMessage, Struct, frozen=True, gc=False):
    body: str | None

    def to_message(self) -> Message | None:
        return None if self.body is None else user_message(self.body)


def tokens() -> MessageTokens:
    return MessageTokens(Letters(), "none/none")


CALL = ToolCall(id="c1", name="echo", args={"x": 1})


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(user_message("four"), PER_MESSAGE + 4, id="text"),
        pytest.param(Message(role="user"), PER_MESSAGE, id="empty"),
        pytest.param(assistant_message("ab", CALL), PER_MESSAGE + 2 + PER_CALL + 4 + 7, id="call"),
        pytest.param(
            assistant_message("", ToolCall(id="c", name="f", args_text='{"x" : 1}')),
            PER_MESSAGE + PER_CALL + 1 + 9,
            id="arguments as the model wrote them",
        ),
        pytest.param(
            assistant_message("", ToolCall(id="c", name="f", args_invalid=True, args_text="nonsense")),
            PER_MESSAGE + PER_CALL + 1 + 2,
            id="arguments that do not parse are sent as {}",
        ),
        pytest.param(tool_message(CALL, "done"), PER_MESSAGE + PER_CALL + 4, id="result"),
        pytest.param(
            Message(role="tool", tool_call_id="c", content=(ToolReference("grep"),)),
            PER_MESSAGE + PER_CALL + 4,
            id="tool reference",
        ),
        pytest.param(
            Message(
                role="assistant", content=(Thinking(text="hm", signature="sig"), Thinking(redacted="xxxx"))
            ),
            PER_MESSAGE + 5 + 4,
            id="thinking with what signs it",
        ),
        pytest.param(
            Message(role="user", content=(Image(url="https://x/y.png"),)),
            PER_MESSAGE + UNKNOWN_IMAGE,
            id="image",
        ),
        pytest.param(
            Message(role="user", content=(Document(url="https://x/y.pdf", name="y"),)),
            PER_MESSAGE + PDF_PAGE + 1,
            id="document",
        ),
        pytest.param(
            Message(role="assistant", content=(Opaque(provider="p", data={"a": [1]}),)),
            PER_MESSAGE + 9,
            id="opaque",
        ),
        pytest.param(assistant_message("x", stop_reason="error"), 0, id="a failed reply is not sent"),
        pytest.param(Note("four"), PER_MESSAGE + 4, id="what an application's message lowers to"),
        pytest.param(Note(None), 0, id="an application's message that is left out"),
        pytest.param(
            OpaqueMessage("x.y", {}, user_message("four")), PER_MESSAGE + 4, id="a class unknown here"
        ),
        pytest.param(OpaqueMessage("x.y", {"much": "more"}, None), 0, id="a class unknown here, left out"),
    ],
)
def test_what_a_message_counts(message: AgentMessage, expected: int) -> None:
    assert tokens().message(message) == expected


def test_each_message_is_counted_once() -> None:
    count = tokens()
    messages = [user_message("a"), assistant_message("b"), user_message("a")]
    first = count.total(messages)
    assert (count.total(messages), count.total(reversed(messages)), count.counted) == (first, first, 3)
    later = user_message("c")
    assert count.total([*messages, later]) == first + count.message(later)
    assert count.counted == 4


def test_a_message_is_known_by_identity_and_not_by_an_id_that_is_free_again() -> None:
    count = tokens()
    for length in range(200):  # each would take the place of the one before
        assert count.message(user_message("x" * length)) == PER_MESSAGE + length
    assert count.counted == 200


def test_what_is_not_retained_is_forgotten() -> None:
    count = tokens()
    messages = [user_message(str(number)) for number in range(100)]
    count.total(messages)
    count.retain([*messages[90:], user_message("never seen")])
    assert len(count._known) == 10
    count.total(messages[90:])
    assert count.counted == 100
    count.total(messages[:10])
    assert count.counted == 110


def test_system_prompt_and_tools_are_counted_until_others_come() -> None:
    letters = Letters()
    count = MessageTokens(letters, "none/none")
    system = (SystemBlock(text="be brief"),)
    tools = (ToolSpec(name="echo", description="says it", schema={"type": "object"}), ToolSpec(name="x"))
    expected = PER_MESSAGE + 8 + PER_TOOL + 4 + 7 + 17 + PER_TOOL + 1 + 2
    assert count.overhead(system, tools) == expected
    texts = letters.texts
    assert count.overhead(tuple(system), list(tools)) == expected
    assert letters.texts == texts
    assert count.overhead(system, tools[:1]) == expected - PER_TOOL - 3
    assert count.overhead((), ()) == 0


def test_a_message_that_cannot_be_lowered_is_not_remembered() -> None:
    class Broken(BaseMessage, Struct, frozen=True, gc=False):
        def to_message(self) -> Message | None:
            raise RuntimeError("broken")

    count, broken = tokens(), Broken()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken"):
            count.message(broken)
    assert count.counted == 0


def test_only_what_a_model_sees_counts() -> None:
    plain = Message(role="user", content=(Text("a"),))
    extra: dict[str, Any] = {"id": "m1", "metadata": {"much": "x" * 1000}, "timestamp": 5.0}
    count = tokens()
    assert count.message(Message(role="user", content=(Text("a"),), **extra)) == count.message(plain)
