"""Cache marks on the system prompt and the last message, for servers that know them."""

import json
from typing import Any

import pytest

from unspool.kernel import (
    CallOptions,
    Message,
    ModelRequest,
    SystemBlock,
    Text,
    make_call,
    tool_message,
    user_message,
)
from unspool.kernel.messages import assistant_message
from unspool.llm.openai_chat_dialect import ChatDialect
from unspool.llm.openai_chat_request import encode_request

MARKS = ChatDialect(cache_marks=True)
EPHEMERAL = {"type": "ephemeral"}


def sent(
    messages: list[Message],
    *,
    system: tuple[SystemBlock, ...] = (),
    dialect: ChatDialect = MARKS,
    cache: str | None = "",
) -> Any:
    request = ModelRequest(messages=messages, system=system, options=CallOptions(cache_last=cache))
    return json.loads(encode_request(request, "m", dialect))["messages"]


def marks(messages: Any) -> list[int]:
    return [n for n, message in enumerate(messages) if "cache_control" in json.dumps(message)]


CALL = make_call("c1", "t", "{}")
ASKED = [user_message("hi"), assistant_message("", CALL)]


@pytest.mark.parametrize(
    "last",
    [user_message("more"), tool_message(CALL, "result"), assistant_message("said")],
    ids=["user", "tool", "assistant"],
)
def test_only_the_last_message_is_marked(last: Message) -> None:  # T34
    messages = sent([*ASKED, last])
    assert marks(messages) == [2]
    assert messages[-1]["content"][-1]["cache_control"] == EPHEMERAL


def test_trailing_reminders_are_passed_over() -> None:  # T35
    reminder = Message(role="system", content=(Text("be quick"),))
    messages = sent([assistant_message("hello"), user_message("hi"), reminder, reminder])
    assert marks(messages) == [1]


def test_history_is_left_as_it_is() -> None:  # T36
    given = user_message("hi", metadata={"kept": 1})
    sent([given])
    assert given == user_message("hi", metadata={"kept": 1})


def test_the_time_to_live() -> None:
    assert sent([user_message("hi")], cache="1h")[0]["content"][0]["cache_control"] == {
        **EPHEMERAL,
        "ttl": "1h",
    }


def test_system_blocks_keep_their_own_marks() -> None:  # T456
    blocks = (SystemBlock(text="long", cache=""), SystemBlock(text="short"))
    (system, _) = sent([user_message("hi")], system=blocks)
    assert [part.get("cache_control") for part in system["content"]] == [EPHEMERAL, None]


def test_a_server_that_does_not_know_them_gets_none() -> None:
    blocks = (SystemBlock(text="long", cache=""),)
    messages = sent([user_message("hi")], system=blocks, dialect=ChatDialect())
    assert marks(messages) == []
    assert messages[0]["content"] == "long"
