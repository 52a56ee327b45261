"""Application messages that inherit what they have in common."""

from dataclasses import dataclass

import pytest
from msgspec import Struct

from unspool.kernel import AgentMessage, BaseMessage, Codec, Message, user_message
from unspool.kernel.events import MessageEnd


class Note(BaseMessage, Struct, frozen=True):
    body: str
    timestamp: float = 0.0

    def to_message(self) -> Message:
        return user_message(f"note: {self.body}")


@dataclass(frozen=True)
class Aside(BaseMessage):
    text: str

    def to_message(self) -> None:
        return None


@pytest.mark.parametrize(
    "message", [Note("buy milk", 7.0), Aside("nobody reads this")], ids=["struct", "dataclass"]
)
def test_it_is_an_agent_message_and_comes_back_as_itself(message: Note | Aside) -> None:
    assert isinstance(message, AgentMessage)
    assert (message.role, message.thinking, message.has_tool_calls, message.priority) == (
        "user",
        "",
        False,
        0,
    )
    assert message.raw() is message and message.compact(0.5) == (message, 1.0)
    codec = Codec()
    codec.register("note", type(message))
    fact = MessageEnd("m1", message.to_message(), codec.wrap(message))
    assert codec.decode(codec.encode(fact)).app.value == message  # type: ignore[union-attr]  # a MessageEnd


def test_fields_of_the_class_win() -> None:
    assert (Note("x", 7.0).timestamp, Note("x").text) == (7.0, "note: x")
    assert Aside("mine").text == "mine"


def test_one_that_lowers_to_nothing_said() -> None:
    class Empty(BaseMessage):
        pass

    with pytest.raises(NotImplementedError, match="Empty: write to_message"):
        Empty().to_message()
