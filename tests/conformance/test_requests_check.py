"""The check of request bodies, with types of its own: what is wrong is found, and where."""

from typing import Any, Literal, Required

import pytest
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from unspool.kernel.messages import user_message
from unspool.kernel.ports import ModelRequest
from unspool.llm.openai_chat import OpenAIChatModel
from unspool.llm.openai_chat_dialect import ChatDialect

from . import request_models, requests
from .request_additions import without_additions
from .request_models import Check, closed, schema_check, spelled
from .request_table import cases
from .request_targets import Target, targets


class _Text(TypedDict, total=False):
    type: Required[Literal["text"]]
    text: Required[str]


class _Picture(TypedDict, total=False):
    type: Required[Literal["picture"]]
    url: str


class _Params(TypedDict, total=False):
    model: Required[str]
    parts: list[_Text | _Picture]


_RIGHT: dict[str, Any] = {
    "model": "m",
    "parts": [{"type": "text", "text": "hi"}, {"type": "picture", "url": "u"}],
}
_WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a field it does not have": ({**_RIGHT, "seed": 1}, "'seed' was unexpected"),
    "a field that a part does not have": (
        {**_RIGHT, "parts": [{"type": "text", "text": "hi", "mark": 1}]},
        "$.parts[0]: Additional properties are not allowed ('mark' was unexpected)",
    ),
    "a field of another part": (
        {"model": "m", "parts": [{"type": "picture", "text": "a"}]},
        "'text' was unexpected",
    ),
    "a number for a text": ({"model": 1}, '$.model: 1 is not of type "string"'),
    "nothing where something must be": ({"parts": []}, '"model" is a required property'),
    "a kind that is not known": ({"model": "m", "parts": [{"type": "video"}]}, "$.parts[0]"),
}


def check(body: dict[str, Any]) -> list[str]:
    return schema_check(closed(TypeAdapter(_Params).json_schema()))(body)


def test_a_right_body_passes() -> None:
    assert check(_RIGHT) == []


@pytest.mark.parametrize("name", _WRONG)
def test_a_wrong_body_is_found(name: str) -> None:
    body, line = _WRONG[name]
    assert line in "; ".join(check(body))


def test_what_a_dialect_adds_is_taken_out_for_it_alone() -> None:
    body = {"messages": [{"role": "assistant", "reasoning": "hm"}], "reasoning": {"effort": "low"}}
    left, added = without_additions("openai-chat", "openrouter", body)
    assert left == {"messages": [{"role": "assistant"}]}
    assert {addition.key for addition in added} == {"reasoning"}
    assert without_additions("openai-chat", "groq", body) == (body, set())


def test_all_formats_dialects_and_cases_are_there() -> None:
    found = list(targets())
    assert len({target.dialect for target in found}) > 25
    for target in {target.model.format: target for target in found}.values():
        names = [name for name, _ in cases(target.model.format, target.model.name)]
        assert len(names) == len(set(names)) > 200


def test_each_case_of_a_target_is_checked() -> None:
    target = Target("own", OpenAIChatModel("p/m", base_url="http://h", dialect=ChatDialect()))
    checks: dict[bool, Check] = dict.fromkeys((False, True), lambda body: [*body.get("stop", ())])
    refuse = {case: errors for case, errors, _ in requests.checked(target, checks, {})}
    assert refuse["stop, no tools"] == ["END", "\n\n"]
    assert [case for case, errors in refuse.items() if errors] == ["stop, plain tools", "stop, no tools"]


def test_a_client_that_is_not_there_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(request_models.PACKAGES, "gemini", "no_such_client")
    assert requests.main(["--format", "gemini"]) == 0
    assert "SKIP gemini: the client is not installed: pip install no_such_client" in capsys.readouterr().out


def test_googles_spelling() -> None:
    theirs = {
        "tools": [{"function_declarations": [{"parameters": {"type": "object", "properties": {"a_b": {}}}}]}]
    }
    assert spelled(theirs) == {
        "tools": [{"functionDeclarations": [{"parameters": {"type": "OBJECT", "properties": {"a_b": {}}}}]}]
    }
    assert spelled({"args": {"a_b": 1}}) == {"args": {"a_b": 1}}


def test_the_body_is_what_the_model_sends() -> None:
    model = OpenAIChatModel("p/m", base_url="http://h")
    assert requests.body_of(model, ModelRequest(messages=[user_message("hi")]))["messages"] == [
        {"role": "user", "content": "hi"}
    ]
