"""A conversation as text: what is kept of what, and how it is said what is not."""

import pytest

from unspool.context.marks import marked
from unspool.context.serializing import serialize, shortened
from unspool.kernel import Document, Image, Message, Text, Thinking, ToolCall, make_call, user_message
from unspool.kernel.messages import Opaque, ToolReference, assistant_message, tool_message

READ = ToolCall(id="c1", name="read_file", args={"path": "a.py", "limit": 3})


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (user_message("Hello."), "[User]\nHello."),
        (assistant_message("Hi."), "[Assistant]\nHi."),
        (Message(role="system", content=(Text("Be kind."),)), "[System]\nBe kind."),
        (assistant_message("", READ), '[Assistant, calls]\nread_file(limit=3, path="a.py")'),
        (
            Message(role="assistant", content=(Thinking(text="Hm."), Text("Now."), READ)),
            '[Assistant, thinking]\nHm.\n[Assistant]\nNow.\n[Assistant, calls]\nread_file(limit=3, path="a.py")',
        ),
        (
            assistant_message("", make_call("c1", "edit", '{"path": ')),
            '[Assistant, calls]\nedit(arguments that do not parse: {"path": )',
        ),
        (tool_message(READ, "1 line"), "[Result of read_file]\n1 line"),
        (tool_message(READ, "not there", is_error=True), "[Result of read_file, error]\nnot there"),
        (
            marked(tool_message(READ, ""), [Text("[cleared: 3 lines]")], "cleared"),
            "[Result of read_file, cleared]\n[cleared: 3 lines]",
        ),
        (
            Message(role="user", content=(Text("See:"), Image(data="A" * 16_000, mime_type="image/png"))),
            "[User]\nSee:\n[image: image/png, 12 KB]",
        ),
        (
            Message(role="user", content=(Document(url="https://x.test/a.pdf", name="a.pdf"),)),
            "[User]\n[document: a.pdf, type unknown, https://x.test/a.pdf]",
        ),
        (Message(role="user", content=(ToolReference("grep"),)), "[User]\n[the tool grep became available]"),
        (
            Message(role="user", content=(Opaque(provider="x", data={}),)),
            "[User]\n[something only x can read]",
        ),
        (assistant_message("I beg", stop_reason="error"), ""),  # no model is sent it
    ],
)
def test_entry(message: Message, text: str) -> None:
    assert serialize([message]) == text


def test_a_long_result_is_shortened_in_its_middle_and_says_by_how_much() -> None:
    text = serialize([tool_message(READ, "a" * 3000 + "z" * 2000)])
    assert text == (
        f"[Result of read_file]\n{'a' * 1400}\n[… 3,000 characters of output left out …]\n{'z' * 600}"
    )
    assert serialize([tool_message(READ, "a" * 2000)]).count("a" * 2000) == 1


def test_what_people_and_the_model_said_is_whole() -> None:
    for message in (user_message("u" * 50_000), assistant_message("a" * 50_000)):
        assert "left out" not in serialize([message])


def test_what_is_left_out_of_a_users_message_is_told_from_output() -> None:
    text = serialize([user_message("SPEC-7731: must be idempotent. " * 30)], text_chars=200)
    assert "SPEC-7731" in text
    assert "characters of the user's message left out" in text
    assert "output" not in text


def test_long_arguments_are_bounded() -> None:
    call = ToolCall(id="c1", name="write_file", args={"text": "x" * 9000, "path": "a.py"})
    assert len(serialize([assistant_message("", call)])) < 700
    assert len(serialize([assistant_message("", make_call("c1", "edit", "{" * 9000))])) < 700


def test_the_order_of_arguments_does_not_matter() -> None:
    other = ToolCall(id="c1", name="read_file", args={"limit": 3, "path": "a.py"})
    assert serialize([assistant_message("", READ)]) == serialize([assistant_message("", other)])


def test_shortened_never_cuts_through_a_character() -> None:
    assert shortened("é" * 100, 10).startswith("é" * 7 + "\n[… 90 ")


def test_what_a_provider_has_summed_up_in_words_is_read() -> None:
    data = {"type": "compaction", "content": "They fixed CORE-7."}
    reply = Message(
        role="assistant", content=(Opaque(provider="anthropic-messages", data=data), Text("Done."))
    )
    said = serialize([reply])
    assert "[summed up by anthropic-messages earlier]: They fixed CORE-7." in said
    sealed = Opaque(provider="openai-responses", data={"type": "compaction", "encrypted_content": "x"})
    assert "only openai-responses can read" in serialize([Message(role="assistant", content=(sealed,))])
