"""Requests of generateContent as JSON: options, tools, and where they go; contents have a table of their own."""

import json
from typing import Any

import anyio
import pytest

from unspool.kernel.messages import Message
from unspool.kernel.ports import CallOptions, ModelRequest, SystemBlock, ToolSpec
from unspool.kernel.reply import generate
from unspool.llm.gemini import GeminiModel, vertex_base_url
from unspool.llm.gemini_request import GeminiDialect
from unspool.llm.http import close_connections
from unspool.llm.origins import LeftOutWarning

from .gemini_decoding import answer  # tests/llm/, not llm/
from .gemini_requests import GO, GO_PART, TWO, sent, text
from .loopback import Loopback
from .loopback import answer as loopback_answer

OPTIONS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "none": (TWO, {}, {}),
    "numbers": (
        TWO,
        {"max_tokens": 5, "temperature": 0.0, "stop": ("a",)},
        {"maxOutputTokens": 5, "temperature": 0.0, "stopSequences": ["a"]},
    ),
    "at most five stop sequences, and no empty ones": (
        TWO,
        {"stop": ("", "a", "b", "a", "c", "d", "e")},
        {"stopSequences": ["a", "b", "c", "d", "e"]},
    ),
    "no stop sequence that says anything": (TWO, {"stop": ("",)}, {}),
    "any object": (
        TWO,
        {"response_format": {"type": "json"}},
        {"responseMimeType": "application/json"},
    ),
    "a schema": (
        TWO,
        {"response_format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
    ),
    "the wire's own fields": (
        TWO,
        {"response_format": {"responseMimeType": "text/x.enum"}},
        {"responseMimeType": "text/x.enum"},
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str) -> None:
    model, options, expected = OPTIONS[name]
    body = sent(ModelRequest(messages=[], options=CallOptions(**options)), model)
    assert body == {"contents": [], **({"generationConfig": expected} if expected else {})}


def test_stop_sequences_beyond_the_fifth_are_left_out() -> None:
    options = CallOptions(stop=tuple("abcdefg"))
    with pytest.warns(LeftOutWarning, match="2 stop sequences"):
        body = sent(ModelRequest(messages=[], options=options))
    assert body["generationConfig"] == {"stopSequences": list("abcde")}


SHOWN = {"includeThoughts": True}
THINKING: list[tuple[str, dict[str, Any], dict[str, Any] | None]] = [
    ("gemini-3-flash-preview", {}, None),
    ("gemini-3-flash-preview", {"thinking": "off"}, {"thinkingLevel": "MINIMAL"}),
    ("gemini-3-flash-preview", {"thinking": "minimal"}, {"thinkingLevel": "MINIMAL", **SHOWN}),
    ("gemini-3-flash-preview", {"thinking": "medium"}, {"thinkingLevel": "MEDIUM", **SHOWN}),
    ("gemini-3-flash-preview", {"thinking": "max"}, {"thinkingLevel": "HIGH", **SHOWN}),
    ("gemini-3-flash-preview", {"thinking_budget": 9}, {"thinkingBudget": 9, **SHOWN}),
    ("gemini-3-pro-preview", {"thinking": "off"}, {"thinkingLevel": "LOW"}),
    ("gemini-3-pro-preview", {"thinking": "medium"}, {"thinkingLevel": "HIGH", **SHOWN}),
    ("gemini-3.1-pro-preview", {"thinking": "medium"}, {"thinkingLevel": "MEDIUM", **SHOWN}),
    ("gemini-flash-latest", {"thinking": "low"}, {"thinkingLevel": "LOW", **SHOWN}),
    ("gemini-2.5-flash", {"thinking": "off"}, {"thinkingBudget": 0}),
    ("gemini-2.5-flash", {"thinking": "minimal"}, {"thinkingBudget": 128, **SHOWN}),
    ("gemini-2.5-flash", {"thinking": "medium"}, {"thinkingBudget": 8192, **SHOWN}),
    ("gemini-2.5-flash", {"thinking": "high"}, {"thinkingBudget": 24576, **SHOWN}),
    ("gemini-2.5-flash", {"thinking": "low", "thinking_budget": 9}, {"thinkingBudget": 9, **SHOWN}),
    ("gemini-2.5-flash-lite", {"thinking": "minimal"}, {"thinkingBudget": 512, **SHOWN}),
    ("gemini-2.5-pro", {"thinking": "off"}, {"thinkingBudget": 128}),
    ("gemini-2.5-pro", {"thinking": "low"}, {"thinkingBudget": 2048, **SHOWN}),
    ("gemini-2.5-pro", {"thinking": "xhigh"}, {"thinkingBudget": 32768, **SHOWN}),
    ("gemini-2.0-flash", {"thinking": "high"}, None),
    ("gemma-3-27b-it", {"thinking": "off"}, None),
]


@pytest.mark.parametrize(("model", "options", "expected"), THINKING)
def test_thinking(model: str, options: dict[str, Any], expected: dict[str, Any] | None) -> None:
    body = sent(ModelRequest(messages=[], options=CallOptions(**options)), f"google/{model}")
    assert body.get("generationConfig", {}).get("thinkingConfig") == expected


def test_a_dialect_may_tell_the_generation() -> None:
    request = ModelRequest(messages=[], options=CallOptions(thinking="low"))
    body = sent(request, "gateway/fast", GeminiDialect(generation=3))
    assert body["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "LOW"


def test_extra_is_merged_last() -> None:
    extra = {
        "cachedContent": "cachedContents/1",
        "toolConfig": None,
        "generationConfig": {"topK": 3, "temperature": None, "maxOutputTokens": 7},
    }
    options = CallOptions(temperature=1.0, max_tokens=5, tool_choice="auto", extra=extra)
    body = sent(ModelRequest(messages=[], tools=(ToolSpec(name="f"),), options=options))
    assert sorted(body) == ["cachedContent", "contents", "generationConfig", "tools"]
    assert body["generationConfig"] == {"topK": 3, "maxOutputTokens": 7}


def test_tools_of_extra_are_added_to_ours() -> None:
    search: dict[str, Any] = {"googleSearch": {}}
    options = CallOptions(tool_choice="required", extra={"tools": [search]})
    body = sent(ModelRequest(messages=[], tools=(ToolSpec(name="f"),), options=options))
    assert [*body["tools"][0], *body["tools"][1:]] == ["functionDeclarations", search]
    assert sent(ModelRequest(messages=[], options=options)).keys() == {"contents", "tools"}


def test_the_system_prompt() -> None:
    blocks = (SystemBlock(text="a"), SystemBlock(text=" "), SystemBlock(text="b", cache="5m"))
    body = sent(ModelRequest(messages=[GO], system=blocks))
    assert body["systemInstruction"] == {"parts": [text("a"), text("b")]}


TOOLS = (
    ToolSpec(name="f", description="does f", schema={"type": "object", "properties": {"x": {"const": 1}}}),
    ToolSpec(name="g", strict=True),
)


def test_tools() -> None:
    (tool,) = sent(ModelRequest(messages=[], tools=TOOLS))["tools"]
    assert tool["functionDeclarations"] == [
        {
            "name": "f",
            "description": "does f",
            "parametersJsonSchema": {"type": "object", "properties": {"x": {"enum": [1]}}},
        },
        {"name": "g", "parametersJsonSchema": {"type": "object", "properties": {}}},
    ]


def test_tools_of_a_server_that_knows_the_subset_only() -> None:
    dialect = GeminiDialect(json_schema=False)
    shape = {"type": "json_schema", "schema": {"type": ["string", "null"]}}
    body = sent(ModelRequest(messages=[], tools=TOOLS), TWO, dialect)
    assert body["tools"][0]["functionDeclarations"] == [
        {
            "name": "f",
            "description": "does f",
            "parameters": {
                "type": "object",
                "properties": {"x": {"type": "integer", "description": "One of: 1."}},
            },
        },
        {"name": "g"},
    ]
    body = sent(ModelRequest(messages=[], options=CallOptions(response_format=shape)), TWO, dialect)
    assert body["generationConfig"]["responseSchema"] == {"type": "string", "nullable": True}


X: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
SUBSETS: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "a reference": ({"$ref": "#/$defs/A", "$defs": {"A": X}}, X),
    "a union": ({"anyOf": [X, X]}, X),
    "all of": ({"allOf": [X]}, X),
    "no parameters": ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {}}}}, None),
    "an object without properties inside": (
        {"properties": {"o": {"type": "object", "properties": {}, "description": "d"}}},
        {"type": "object", "properties": {"o": {"type": "object", "description": "d"}}},
    ),
    "an empty value of an enum": (
        {"properties": {"e": {"enum": ["", "a"], "description": "d"}, "o": {"enum": [""]}}},
        {
            "type": "object",
            "properties": {
                "e": {"type": "string", "enum": ["a"], "description": "d May be empty."},
                "o": {"type": "string", "description": "May be empty."},
            },
        },
    ),
}


@pytest.mark.parametrize("name", SUBSETS)
def test_parameters_in_the_subset(name: str) -> None:
    schema, expected = SUBSETS[name]
    request = ModelRequest(messages=[], tools=(ToolSpec(name="f", schema=schema),))
    (tool,) = sent(request, TWO, GeminiDialect(json_schema=False))["tools"][0]["functionDeclarations"]
    assert tool.get("parameters") == expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("f", {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ],
)
def test_tool_choice(choice: str, expected: dict[str, Any]) -> None:
    options = CallOptions(tool_choice=choice)
    body = sent(ModelRequest(messages=[], tools=TOOLS, options=options))
    assert body["toolConfig"] == {"functionCallingConfig": expected}
    assert "toolConfig" not in sent(ModelRequest(messages=[], options=options))


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("global", "aiplatform.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
    ],
)
def test_hosts_of_vertex(location: str, host: str) -> None:
    path = f"/v1/projects/p/locations/{location}/publishers/google"
    assert vertex_base_url("p", location) == f"https://{host}{path}"


VERTEX = "projects/p/locations/us-central1/publishers/google"
ROUTES: list[tuple[str, str, dict[str, Any], str, str]] = [
    (
        "google/gemini-2.5-flash",
        "/v1beta",
        {},
        "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
        "x-goog-api-key: k-1",
    ),
    (
        "google/gemini-2.5-flash",
        "/v1beta/",
        {"streaming": False},
        "/v1beta/models/gemini-2.5-flash:generateContent",
        "x-goog-api-key: k-1",
    ),
    (
        "google/tunedModels/mine",
        "/v1beta",
        {},
        "/v1beta/tunedModels/mine:streamGenerateContent?alt=sse",
        "x-goog-api-key: k-1",
    ),
    (
        "vertex/gemini-2.5-flash",
        vertex_base_url("p", "us-central1").partition(".com")[2],
        {"dialect": GeminiDialect(bearer=True)},
        f"/v1/{VERTEX}/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
        "authorization: Bearer k-1",
    ),
]


@pytest.mark.parametrize(("name", "base", "more", "path", "header"), ROUTES)
def test_where_a_request_goes(
    server: Loopback, name: str, base: str, more: dict[str, Any], path: str, header: str
) -> None:
    whole = json.dumps(answer(text("hi"))).encode()
    server.script(loopback_answer(200, whole, Content_Type="application/json"))
    model = GeminiModel(name, base_url=server.url + base, api_key="k-1", **more)

    async def main() -> Message:
        try:
            return await generate(model, ModelRequest(messages=[GO]))
        finally:
            await close_connections()

    came = anyio.run(main)
    (exchange,) = server.exchanges
    lines = exchange.head.split("\r\n")
    assert (came.text, came.origin) == ("hi", f"gemini:{name}")
    assert lines[0] == f"POST {path} HTTP/1.1"
    assert header.lower() in map(str.lower, lines)
    assert exchange.json == {"contents": [GO_PART]}
