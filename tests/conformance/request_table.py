"""Conversations and options of every kind, as requests; what a format makes of each must be a body of that format.

Read with: ``requests.py`` (the runner), ``request_blocks.py``, ``request_targets.py`` (whom they are for).
"""

from collections.abc import Iterator
from typing import Any, Final

from unspool.kernel.messages import (
    Content,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolReference,
    tool_message,
    user_message,
)
from unspool.kernel.ports import LEVELS, CallOptions, ModelRequest, SystemBlock, ToolSpec

from .request_blocks import ASSISTANT_OWN, CALLS, FIRST, GIVEN, OWN_CALLS, SECOND, SIGNATURES, USER, USER_OWN

_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"q": {"type": "string", "description": "what"}},
    "required": ["q"],
}
_WIDE: Final[dict[str, Any]] = {
    "type": "object",
    "$defs": {"Kind": {"enum": ["a", "b"], "type": "string"}},
    "properties": {
        "kind": {"$ref": "#/$defs/Kind"},
        "many": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "any": {},
    },
    "additionalProperties": False,
}
_TOOLS: Final[dict[str, tuple[ToolSpec, ...]]] = {
    "plain": (ToolSpec(name="search", description="Search.", schema=_SCHEMA), ToolSpec(name="clock")),
    "strict": (
        ToolSpec(name="search", schema=_SCHEMA, strict=True),
        ToolSpec(name="wide", schema=_WIDE, strict=True),
    ),
    "not strict": (ToolSpec(name="wide", description="Wide.", schema=_WIDE, strict=False),),
    "deferred": (
        ToolSpec(name="search", schema=_SCHEMA, deferred=True),
        ToolSpec(name="clock"),
    ),
}
_CLOSED: Final[dict[str, Any]] = {
    **_WIDE,
    "properties": {key: value for key, value in _WIDE["properties"].items() if key != "any"},
}
_FORMATS: Final[dict[str, dict[str, Any]]] = {
    "json": {"type": "json"},
    "schema": {"type": "json_schema", "schema": _WIDE},
    "schema that can be closed": {"type": "json_schema", "schema": _CLOSED},
    "named schema": {"type": "json_schema", "name": "found", "strict": True, "schema": _SCHEMA},
}
_OPTIONS: Final[dict[str, CallOptions]] = {
    "temperature": CallOptions(temperature=0.2),
    "max_tokens": CallOptions(max_tokens=500),
    "stop": CallOptions(stop=("END", "\n\n")),
    "cache": CallOptions(cache_key="k", session_id="s", cache_last="1h"),
    "cache without a time": CallOptions(cache_last=""),
    **{f"thinking {level}": CallOptions(thinking=level) for level in LEVELS},
    "thinking budget": CallOptions(thinking_budget=4000, max_tokens=8000),
    "thinking level and budget": CallOptions(thinking="high", thinking_budget=4000, temperature=0.5),
    "no reasoning": CallOptions(drop_reasoning=True),
}
_CHOICES: Final = ("auto", "none", "required", "search")
_SYSTEM: Final = (SystemBlock(text="Be brief.", cache="1h"), SystemBlock(text="Be kind.", cache=""))


def cases(format: str, name: str) -> Iterator[tuple[str, ModelRequest]]:
    """All requests for the model ``name`` of ``format``, each with what it is called."""
    for label, messages in conversations(format, name):
        for tools in ("plain", "deferred"):
            options = CallOptions(thinking="low") if tools == "deferred" else CallOptions()
            yield (
                f"{label}, {tools} tools",
                ModelRequest(messages=messages, tools=_TOOLS[tools], options=options),
            )
    yield from _asked(format)


def conversations(format: str, name: str) -> Iterator[tuple[str, list[Message]]]:
    """Every block in every role, and replies of every origin with all that may follow them."""
    for label, block in {**USER, "own block": Opaque(provider=format, data=USER_OWN[format])}.items():
        yield f"user: {label}", [_user(block), user_message("so?")]
        yield f"user: text and {label}", [_user(Text("look"), block)]
        yield f"result: {label}", [user_message("go"), _reply(FIRST), _result(FIRST, block)]
        both = [_result(SECOND, Text("t"), block), _result(FIRST, block)]
        yield f"results: {label}", [user_message("go"), _reply(FIRST, SECOND), *both, user_message("on")]
    yield "system in between", [user_message("go"), _message("system", Text("now")), user_message("on")]
    yield "reply first", [_reply(Text("Hello.")), user_message("go")]
    yield "failed result", [user_message("go"), _reply(FIRST), tool_message(FIRST, "no", is_error=True)]
    for origin in ("", f"{format}:{name}", f"{format}:{name}-other", f"{format}:q/m", "elsewhere:q/m"):
        for label, blocks in _replies(format).items():
            for end, answers in _answers(blocks).items():
                what = f"reply of {origin or 'nobody'}: {label}, {end}"
                yield what, [user_message("go"), _reply(*blocks, origin=origin), *answers]


def _replies(format: str) -> dict[str, tuple[Content, ...]]:
    signed = Thinking(text="hm", signature=SIGNATURES.get(format, GIVEN))
    calls = {**CALLS, **OWN_CALLS.get(format, {})}
    return {
        "text": (Text("so "),),
        "nothing": (),
        "thinking alone": (signed,),
        "thinking": (Thinking(text="hm"), Text("so")),
        "signed thinking": (signed, Text("so")),
        "redacted thinking": (Thinking(redacted=GIVEN), Text("so")),
        "own blocks": ASSISTANT_OWN[format],
        "own blocks and a call": (*ASSISTANT_OWN[format], FIRST),
        "blocks of another": (Opaque(provider="elsewhere", data={"type": "x"}), Text("so")),
        "image": (Image(data=GIVEN, mime_type="image/png"), Text("so")),
        "signed thinking and calls": (signed, Text("so"), FIRST, SECOND),
        **{label: (call,) for label, call in calls.items()},
    }


def _answers(blocks: tuple[Content, ...]) -> dict[str, list[Message]]:
    results = [_result(block, Text("found")) for block in blocks if type(block) is ToolCall]
    if not results:
        return {"the end": [], "a user": [user_message("on")]}
    return {"results": results, "results and a user": [*results, user_message("on")]}


def _asked(format: str) -> Iterator[tuple[str, ModelRequest]]:
    """Every option by itself, with tools and without."""
    messages = [user_message("go")]
    yield "system", ModelRequest(messages=messages, system=_SYSTEM)
    for label, options in _OPTIONS.items():
        for tools in ("plain", ""):
            yield (
                f"{label}, {tools or 'no'} tools",
                ModelRequest(messages=messages, system=_SYSTEM, tools=_TOOLS.get(tools, ()), options=options),
            )
    for label, tools_of in _TOOLS.items():
        yield f"{label} tools", ModelRequest(messages=messages, tools=tools_of)
    for choice in _CHOICES:
        for thinking in (None, "high"):
            options = CallOptions(tool_choice=choice, thinking=thinking)
            request = ModelRequest(messages=messages, tools=_TOOLS["plain"], options=options)
            yield f"tool_choice {choice}, thinking {thinking}", request
    for label, response_format in _FORMATS.items():
        if format != "anthropic-messages" or label not in (
            "json",
            "schema",
        ):  # it has none of these, and says so
            options = CallOptions(response_format=response_format)
            yield f"response_format {label}", ModelRequest(messages=messages, options=options)
    yield "extra", ModelRequest(messages=messages, options=CallOptions(extra=_EXTRA[format]))
    loaded = [user_message("go"), _reply(SECOND), _result(SECOND, ToolReference("search"))]
    yield "a deferred tool that was found", ModelRequest(messages=loaded, tools=_TOOLS["deferred"])


_EXTRA: Final[dict[str, dict[str, Any]]] = {
    "openai-chat": {"seed": 1, "n": 1, "user": "u", "logprobs": True, "parallel_tool_calls": False},
    "openai-responses": {"tools": [{"type": "web_search"}], "service_tier": "auto", "metadata": {"a": "b"}},
    "anthropic-messages": {
        "metadata": {"user_id": "u"},
        "betas": ["b"],
        "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}],
    },
    "gemini": {
        "generationConfig": {"topK": 5, "seed": 1},
        "tools": [{"googleSearch": {}}],
        "safetySettings": [
            {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"},
        ],
        "cachedContent": "cachedContents/1",
    },
}


def _message(role: Any, *blocks: Content, origin: str = "") -> Message:
    return Message(role=role, content=blocks, origin=origin)


def _user(*blocks: Content) -> Message:
    return _message("user", *blocks)


def _reply(*blocks: Content, origin: str = "") -> Message:
    return _message("assistant", *blocks, origin=origin)


def _result(call: ToolCall, *blocks: Content) -> Message:
    return Message(role="tool", content=blocks, tool_call_id=call.id, tool_name=call.name)
