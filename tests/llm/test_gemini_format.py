"""The format of an answer of generateContent: fields of the request, or words where a model takes none beside tools."""

from typing import Any

import pytest

from unspool.kernel.errors import BadRequestError
from unspool.kernel.ports import CallOptions, ModelRequest, SystemBlock, ToolSpec
from unspool.llm.origins import LeftOutWarning

from .gemini_requests import GO, THREE, TWO, sent, text  # tests/llm/, not llm/

SHAPE = {"type": "json_schema", "name": "n", "schema": {"type": "object", "properties": {"x": {"const": 1}}}}
JSON: dict[str, Any] = {"type": "json"}
TOOL = (ToolSpec(name="f"),)
SEARCH: dict[str, Any] = {"tools": [{"googleSearch": {}}]}
BESIDE: dict[str, tuple[str, dict[str, Any], tuple[ToolSpec, ...], dict[str, Any]]] = {
    "tools": (TWO, SHAPE, TOOL, {}),
    "any object": (TWO, JSON, TOOL, {}),
    "a tool that must be called": (TWO, SHAPE, TOOL, {"tool_choice": "required"}),
    "a search of the server": (TWO, SHAPE, (), {"extra": SEARCH}),
    "a search, and tools that are not called": (TWO, SHAPE, TOOL, {"extra": SEARCH, "tool_choice": "none"}),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_format_beside_tools_is_said_in_words(name: str) -> None:
    model, shape, tools, options = BESIDE[name]
    request = ModelRequest(
        messages=[GO],
        system=(SystemBlock(text="a"),),
        tools=tools,
        options=CallOptions(response_format=shape, **options),
    )
    with pytest.warns(LeftOutWarning, match="response_format"):
        body = sent(request, model)
    assert "generationConfig" not in body
    first, words = body["systemInstruction"]["parts"]
    assert first == text("a")
    assert "JSON" in words["text"]
    assert ('{"type":"object","properties":{"x":{"enum":[1]}}}' in words["text"]) == (shape is SHAPE)


NOT_BESIDE: dict[str, tuple[str, dict[str, Any], tuple[ToolSpec, ...], str | None, set[str]]] = {
    "no tools": (TWO, SHAPE, (), None, set()),
    "tools that are not called are not sent": (TWO, SHAPE, TOOL, "none", set()),
    "a model that knows both": (THREE, SHAPE, TOOL, None, {"tools"}),
    "a name that does not tell": ("gateway/fast", JSON, TOOL, "none", {"tools", "toolConfig"}),
    "the wire's own fields": (TWO, {"responseMimeType": "text/x.enum"}, TOOL, None, {"tools"}),
}


@pytest.mark.parametrize("name", NOT_BESIDE)
def test_a_format_that_can_be_asked_for(name: str) -> None:
    model, shape, tools, choice, keys = NOT_BESIDE[name]
    options = CallOptions(response_format=shape, tool_choice=choice)
    body = sent(ModelRequest(messages=[GO], tools=tools, options=options), model)
    assert body.keys() == {"contents", "generationConfig", *keys}
    assert body["generationConfig"]["responseMimeType"]


def test_openais_spellings_are_understood() -> None:
    schema = {"type": "object"}
    for shape, fields in (
        ({"type": "json_object"}, {"responseMimeType": "application/json"}),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
            {"responseMimeType": "application/json", "responseJsonSchema": schema},
        ),
    ):
        body = sent(ModelRequest(messages=[], options=CallOptions(response_format=shape)))
        assert body["generationConfig"] == fields


@pytest.mark.parametrize(
    "fields",
    [
        {"response_mime_type": "text/x.enum", "response_schema": {"type": "STRING"}},
        {"response_json_schema": {}, "responseMimeType": "application/json"},
        {"response_modalities": ["TEXT"]},
        {"responseSchema": {}},
    ],
    ids=str,
)
def test_the_wires_own_fields_pass_in_either_spelling(fields: dict[str, Any]) -> None:
    body = sent(ModelRequest(messages=[GO], options=CallOptions(response_format=fields)))
    assert body["generationConfig"] == fields


@pytest.mark.parametrize("model", [TWO, THREE])
def test_text_is_no_format(model: str) -> None:
    options = CallOptions(response_format={"type": "text"})
    body = sent(ModelRequest(messages=[GO], tools=TOOL, options=options), model)
    assert body.keys() == {"contents", "tools"}


def test_a_format_that_is_none() -> None:
    with pytest.raises(BadRequestError, match="response_format: not known in gemini"):
        sent(ModelRequest(messages=[], options=CallOptions(response_format={"type": "grammar"})))
