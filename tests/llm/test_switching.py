"""Another provider goes on with a conversation: twelve directions, all kinds of blocks.

The law: what a provider is sent of another's reply depends on who is asked, not on who had answered; nothing of it
is opaque to the one who is asked; calls and results stay paired; and the one who had answered gets its reply back
just as it gave it.
"""

import json
import random
import warnings
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import pytest
from wires import ANTHROPIC, CALL, CHAT, FORMATS, GEMINI, RESPONSES, Format, Json

from unspool.kernel.messages import (
    Content,
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolReference,
    make_call,
    tool_message,
    user_message,
)
from unspool.kernel.ports import CallOptions, ModelRequest
from unspool.kernel.transcript import Transcript
from unspool.llm.origins import LeftOutWarning

SECRET = "U0VDUkVU"  # what only its own provider can read; base64, as signatures are
GO = user_message("go")
DIRECTIONS = [(FORMATS[a], FORMATS[b]) for a, b in permutations(FORMATS, 2)]
IDS = {"openai-chat": "call_1", "openai-responses": "call_1", "anthropic-messages": "toolu_1", "gemini": "g1"}


def call_of(source: Format) -> tuple[str, str, Json]:
    return (IDS[source.name], *CALL[1:])


def full_answer(source: Format) -> bytes:
    """An answer with thinking, a text, a call, and whatever the format has besides that others do not know."""
    call = call_of(source)
    match source.name:
        case "openai-chat":
            details: list[Json] = [{"type": "reasoning.encrypted", "data": SECRET, "index": 0}]
            cited = [{"type": "url_citation", "url_citation": {"url": SECRET}}]
            return source.answer(
                "so", call, reasoning_content="hm", reasoning_details=details, annotations=cited
            )
        case "openai-responses":
            summary = [{"type": "summary_text", "text": "hm"}]
            thought = {"type": "reasoning", "id": "rs_1", "encrypted_content": SECRET, "summary": summary}
            search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"q": SECRET}}
            return source.answer("so", call, thought, search)
        case "anthropic-messages":
            return source.answer(
                "so",
                call,
                {"type": "thinking", "thinking": "hm", "signature": SECRET},
                {"type": "redacted_thinking", "data": SECRET},
                {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": SECRET}},
                {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
            )
        case _:
            shown = {"text": "hm", "thought": True}
            code = {"executableCode": {"code": SECRET, "language": "PYTHON"}}
            return source.answer("so", call, shown, code, thoughtSignature=SECRET)


def conversation(source: Format, name: str = "") -> list[Message]:
    """A question, the reply that calls, the result with an image, a last answer, the next question."""
    reply = source.read(full_answer(source), name)
    (call,) = reply.tool_calls
    result = Message(
        role="tool",
        content=(Text("one"), ToolReference("late")),
        tool_call_id=call.id,
        tool_name=call.name,
    )
    last = source.read(source.answer("done"), name)
    return [GO, reply, result, last, user_message("and now?")]


def sent(target: Format, messages: Sequence[Message], name: str = "", **options: Any) -> Any:
    """The messages of a request; what cannot be sent is left out with a warning, never an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)
        body = target.sent(ModelRequest(messages=messages, options=CallOptions(**options)), name)
    return next(body[key] for key in ("messages", "input", "contents") if key in body)


# --- the table: what each is sent of another's conversation --------------------------------------

TAGGED = "<thinking>\nhm\n</thinking>"
RESULT = "one\ntool 'late' is now available"


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def expected(target: Format, id: str, thinking: str) -> list[Json]:
    """What ``target`` is sent of a conversation that any other one had; ``id`` is that of the call."""
    inline = f"{thinking}\n\nso" if thinking else "so"
    parts = [thinking, "so"] if thinking else ["so"]
    match target.name:
        case "openai-chat":
            function = {"name": "f", "arguments": '{"x": 1}'}
            calls = [{"id": id, "type": "function", "function": function}]
            return [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": inline, "tool_calls": calls},
                {"role": "tool", "tool_call_id": id, "content": RESULT},
                {"role": "assistant", "content": "done"},
                {"role": "user", "content": "and now?"},
            ]
        case "openai-responses":
            return [
                {"role": "user", "content": "go"},
                {"type": "message", "role": "assistant", "content": inline},
                {"type": "function_call", "call_id": id, "name": "f", "arguments": '{"x": 1}'},
                {"type": "function_call_output", "call_id": id, "output": RESULT},
                {"type": "message", "role": "assistant", "content": "done"},
                {"role": "user", "content": "and now?"},
            ]
        case "anthropic-messages":
            use = {"type": "tool_use", "id": id, "name": "f", "input": {"x": 1}}
            told = [text("one"), text("tool 'late' is now available")]
            return [
                {"role": "user", "content": [text("go")]},
                {"role": "assistant", "content": [*map(text, parts), use]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": told}]},
                {"role": "assistant", "content": [text("done")]},
                {"role": "user", "content": [text("and now?")]},
            ]
        case _:  # ids of others are not sent; the first call must have a signature
            asked = {
                "functionCall": {"name": "f", "args": {"x": 1}},
                "thoughtSignature": "skip_thought_signature_validator",
            }
            told_ = {"functionResponse": {"name": "f", "response": {"output": RESULT}}}
            return [
                {"role": "user", "parts": [{"text": "go"}]},
                {"role": "model", "parts": [*({"text": part} for part in parts), asked]},
                {"role": "user", "parts": [told_]},
                {"role": "model", "parts": [{"text": "done"}]},
                {"role": "user", "parts": [{"text": "and now?"}]},
            ]


@pytest.mark.parametrize("drop_reasoning", [False, True], ids=["thinking as text", "thinking dropped"])
@pytest.mark.parametrize("source, target", DIRECTIONS, ids=lambda each: each.name)
def test_what_another_is_sent(source: Format, target: Format, drop_reasoning: bool) -> None:
    found = sent(target, conversation(source), drop_reasoning=drop_reasoning)
    assert found == _spelled(
        expected(target, IDS[source.name], "" if drop_reasoning else TAGGED), source, target
    )


def _spelled(messages: list[Json], source: Format, target: Format) -> list[Json]:
    """Arguments go back in the very text that the model wrote: two formats give an object, not a text."""
    if source in (CHAT, RESPONSES) or target not in (CHAT, RESPONSES):
        return messages
    found: list[Json] = json.loads(json.dumps(messages).replace('{\\"x\\": 1}', '{\\"x\\":1}'))
    return found


@pytest.mark.parametrize("source, target", DIRECTIONS, ids=lambda each: each.name)
def test_nothing_that_only_its_provider_can_read_is_sent(source: Format, target: Format) -> None:
    messages = conversation(source)
    assert SECRET in str(sent(source, messages))
    assert SECRET not in str(sent(target, messages))
    with pytest.warns(LeftOutWarning, match=f"of {source.name} is not sent in {target.name}"):
        target.sent(ModelRequest(messages=messages))


# --- the same format ----------------------------------------------------------------------------

# Where the format shows a reply as items of its own, the answer's items; else where its opaque parts stand.
OWN: dict[str, list[Json]] = {
    "openai-chat": [],
    "openai-responses": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "encrypted_content": SECRET,
            "summary": [{"type": "summary_text", "text": "hm"}],
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"q": SECRET}},
    ],
    "anthropic-messages": [
        {"type": "thinking", "thinking": "hm", "signature": SECRET},
        {"type": "redacted_thinking", "data": SECRET},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": SECRET}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
    ],
    "gemini": [
        {"text": "hm", "thought": True},
        {"executableCode": {"code": SECRET, "language": "PYTHON"}},
    ],
}


@pytest.mark.parametrize("source, target", DIRECTIONS, ids=lambda each: each.name)
def test_there_and_back_again(source: Format, target: Format) -> None:
    """Who answered first gets its own reply back as it gave it, and the other's as a stranger's."""
    first = conversation(source)
    second = target.read(full_answer(target))
    (call,) = second.tool_calls
    both = [*first, second, tool_message(call, "two"), user_message("end")]
    before, after = sent(source, first), sent(source, both)
    assert after[: len(before)] == before  # what went before is the same, so that caches hold
    parts = list(_parts(before))
    assert all(part in parts for part in OWN[source.name])
    later = str(after[len(before) :])
    assert TAGGED in json.loads(json.dumps(later)).replace("\\n", "\n") and SECRET not in later


def _parts(value: Any) -> Iterator[Any]:
    """All objects in a value, outermost first."""
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _parts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _parts(each)


OTHERS = {
    "openai-chat": "q/other",  # another provider: reasoning details are for the one they came from
    "openai-responses": "p/gpt-5.1",
    "gemini": "p/gemini-2.5-pro",
}


@pytest.mark.parametrize("format", OTHERS)
def test_another_model_of_the_same_format_gets_nothing_that_was_encrypted(format: str) -> None:
    each = FORMATS[format]
    found = str(sent(each, conversation(each), OTHERS[format]))
    assert "encrypted" not in found and "thoughtSignature" not in found and "rs_1" not in found


def test_claude_models_read_each_others_thinking() -> None:
    found = sent(ANTHROPIC, conversation(ANTHROPIC), "p/claude-opus-4-6")
    assert found == sent(ANTHROPIC, conversation(ANTHROPIC))


# --- each kind of block --------------------------------------------------------------------------

PNG, PDF = Image(data="aGk=", mime_type="image/png"), Document(data="aGk=", mime_type="application/pdf")
BLOCKS: dict[str, Content] = {
    "text": Text("words"),
    "empty text": Text(""),
    "thinking": Thinking(text="words"),
    "signed thinking": Thinking(text="words", signature=SECRET),
    "redacted thinking": Thinking(redacted=SECRET),
    "nothing but a signature": Thinking(signature=SECRET),
    "call": make_call("c9", "f", '{"x": 1}'),
    "signed call": ToolCall(id="c9", name="f", thought_signature=SECRET),
    "call with arguments that do not parse": make_call("c9", "f", '{"x":'),
    "image": PNG,
    "image by URL": Image(url="https://h/a.png"),
    "document": PDF,
    "reference to a tool": ToolReference("late"),
    "opaque": Opaque(provider="elsewhere", data={"type": "novelty", "of": SECRET}),
    "opaque, and no object": Opaque(provider="elsewhere", data=[SECRET]),
}
SAYS_NOTHING = {
    "empty text",
    "redacted thinking",
    "nothing but a signature",
    "opaque",
    "opaque, and no object",
}


@pytest.mark.parametrize("target", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("name", BLOCKS)
def test_each_kind_of_block_in_a_strangers_reply(name: str, target: Format) -> None:
    block = BLOCKS[name]
    reply = Message(role="assistant", content=(Text("a"), block), origin="elsewhere:q/m")
    answers = [tool_message(block, "ok")] if type(block) is ToolCall else []
    messages = sent(target, [GO, reply, *answers, user_message("b")])
    assert SECRET not in str(messages)
    if "thinking" in name and name not in SAYS_NOTHING:
        assert "<thinking>" in str(messages)
    if answers:
        calls, results = _ids(messages)
        assert calls == results == ([] if target is GEMINI else ["c9"])
    alone = sent(target, [GO, Message(role="assistant", content=(block,), origin="elsewhere:q/m")])
    if name in SAYS_NOTHING:
        assert alone == sent(target, [GO])


@pytest.mark.parametrize("target", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("name", [name for name in BLOCKS if "call" not in name and "thinking" not in name])
def test_each_kind_of_block_of_a_user_and_of_a_tool(name: str, target: Format) -> None:
    block, call = BLOCKS[name], make_call("c9", "f")
    user = Message(role="user", content=(Text("a"), block))
    asked = Message(role="assistant", content=(call,), origin="elsewhere:q/m")
    told = Message(role="tool", content=(Text("c"), block), tool_call_id="c9", tool_name="f")
    found = str(sent(target, [user, asked, told]))
    assert SECRET not in found
    if type(block) in (Image, Document):
        assert found.count("aGk=") == 2 or found.count("https://h/a.png") == 2


@pytest.mark.parametrize("target", [CHAT, RESPONSES, ANTHROPIC], ids=lambda each: each.name)
@pytest.mark.parametrize("block", [PNG, PDF], ids=lambda block: type(block).__name__)
@pytest.mark.parametrize("origin", ["gemini:p/m", ""])
def test_a_file_in_a_reply_is_sent_to_gemini_alone(block: Content, target: Format, origin: str) -> None:
    messages = [GO, Message(role="assistant", content=(Text("look"), block), origin=origin)]
    with pytest.warns(LeftOutWarning, match=rf"in a reply is not sent in {target.name}"):
        body = target.sent(ModelRequest(messages=messages))
    assert "look" in str(body) and "aGk=" not in str(body)
    assert "aGk=" in str(GEMINI.sent(ModelRequest(messages=messages)))


@pytest.mark.parametrize("target", [ANTHROPIC, GEMINI], ids=lambda each: each.name)
@pytest.mark.parametrize("said", ["select 1", '{"a": 1}', '"\\'])
@pytest.mark.parametrize("source", [CHAT, RESPONSES], ids=lambda each: each.name)
def test_the_input_of_a_free_form_call_becomes_an_argument(source: Format, target: Format, said: str) -> None:
    if source is CHAT:
        custom = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sql", "input": said}}
        answer = source.answer("", None, tool_calls=[custom])
    else:
        item = {"type": "custom_tool_call", "id": "ct", "call_id": "c1", "name": "sql", "input": said}
        answer = source.answer("", None, item)
    reply = source.read(answer)
    (call,) = reply.tool_calls
    messages = sent(target, [GO, reply, tool_message(call, "one")])
    part = messages[1].get("content", messages[1].get("parts"))[0]
    call_part = part.get("functionCall") or part
    assert call_part["name"] == "sql"
    assert (call_part.get("input") or call_part.get("args")) == {"input": said}


DAMAGED: list[Any] = [
    *(None, 7, "text", [], ["x"], {}, {"type": 7}, {"type": ["x"]}, {"type": "novelty"}),
    *(
        {"type": "function_call"},
        {"type": "message_fields", "item": 7},
        {"type": "fields_of_text", "citations": 7},
    ),
    *(
        {"type": "reasoning_details", "reasoning_details": 7},
        {"type": "audio", "audio": 7},
        {"thoughtSignature": 7},
    ),
]


@pytest.mark.parametrize("target", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("data", DAMAGED, ids=repr)
def test_what_was_changed_in_a_log_does_no_harm(data: Any, target: Format) -> None:
    """Blocks that claim to be of a format, and signatures: whatever they hold, the request is made."""
    signature = json.dumps({"item": data})
    call = ToolCall(id="c1", name="f", thought_signature=signature)
    blocks = (
        Text("a"),
        Opaque(provider=target.name, data=data),
        Thinking(text="b", signature=signature),
        call,
    )
    for origin in (f"{target.name}:p/{target.model}", f"{target.name}:q/other", ""):
        reply = Message(role="assistant", content=blocks, origin=origin)
        assert sent(target, [GO, reply, tool_message(call, "ok")])


# --- ids ----------------------------------------------------------------------------------------

FOREIGN_IDS = [
    "call@1",
    "call#1",
    "call.1",
    "call|1",
    "call 1",
    "@",
    "#",
    "ä",
    "\0" * 100,
    "\0" * 101,
    "x" * 64,
    "x" * 65,
    "x" * 66,
    "call_1|fc_" + "a" * 64,
    "toolu_01A",
    "local_" + "0" * 24,
    "functions.f:0",
]
ALLOWED = {"openai-chat": 40, "openai-responses": 64, "anthropic-messages": 64}


def _ids(messages: Any) -> tuple[list[str], list[str]]:
    """The ids of calls and of results in a request, in order."""
    calls, results = [], []
    for part in _parts(messages):
        if "function" in part or part.get("type") in ("function_call", "tool_use"):
            calls.append(part.get("call_id") or part["id"])
        if part.get("type") == "tool_result" or "tool_call_id" in part:
            results.append(part.get("tool_use_id") or part["tool_call_id"])
        if part.get("type") == "function_call_output":
            results.append(part["call_id"])
    return calls, results


@pytest.mark.parametrize("format", ALLOWED)
def test_ids_of_others_stay_apart_and_paired(format: str) -> None:
    calls = [make_call(id, "f") for id in FOREIGN_IDS]
    reply = Message(role="assistant", content=tuple(calls), origin="elsewhere:q/m")
    results = [tool_message(call, str(n)) for n, call in enumerate(calls)]
    asked, answered = _ids(sent(FORMATS[format], [GO, reply, *results]))
    assert asked == answered and len(set(asked)) == len(FOREIGN_IDS)
    assert all(len(id) <= ALLOWED[format] and id.isascii() and id.isprintable() for id in asked)
    again, _ = _ids(sent(FORMATS[format], [GO, reply, *results]))
    assert again == asked


def test_gemini_pairs_by_order_and_never_sees_ids_of_others() -> None:
    calls = [make_call(id, f"f{n}") for n, id in enumerate(FOREIGN_IDS)]
    reply = Message(role="assistant", content=tuple(calls), origin="elsewhere:q/m")
    results = [tool_message(call, str(n)) for n, call in enumerate(calls)]
    random.Random(1).shuffle(results)
    _, asked, told = sent(GEMINI, [GO, reply, *results])
    names = [part["functionCall"]["name"] for part in asked["parts"]]
    assert names == [part["functionResponse"]["name"] for part in told["parts"]]
    assert not any("id" in part["functionCall"] for part in asked["parts"])
    assert not any("id" in part["functionResponse"] for part in told["parts"])


# --- the law for any conversation ----------------------------------------------------------------


def _any_conversation(seed: int) -> list[Message]:
    """Replies of all four in any order, with results and words between them."""
    rng = random.Random(seed)
    messages = [GO]
    for turn in range(rng.randint(2, 7)):
        source = rng.choice(list(FORMATS.values()))
        reply = source.read(full_answer(source) if rng.random() < 0.6 else source.answer(f"t{turn}"))
        messages.append(reply)
        messages += [tool_message(call, f"r{turn}") for call in reply.tool_calls]
        if rng.random() < 0.6:
            messages.append(user_message(f"u{turn}"))
    return messages


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", range(25))
def test_any_conversation_goes_on_anywhere(seed: int, format: str) -> None:
    target, messages = FORMATS[format], _any_conversation(seed)
    whole = sent(target, messages)
    grown: Transcript[Message] = Transcript()
    for message in messages:  # what was encoded for earlier requests changes nothing
        grown = grown.append(message)
        sent(target, grown)
    assert sent(target, grown) == whole
    calls, results = _ids(whole)
    assert sorted(calls) == sorted(results)
    said = "".join(
        part.get("text") or part.get("content") or ""
        for part in _parts(whole)
        if "text" in part or isinstance(part.get("content"), str)
    )
    assert all(message.text in said for message in messages if message.role == "user")
