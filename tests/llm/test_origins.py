"""What of a reply is worth a warning where it is not sent."""

import warnings
from typing import Any

import pytest

from unspool.kernel.messages import Opaque
from unspool.llm.origins import LeftOutWarning, is_bookkeeping, warn_left_out


def details(**fields: Any) -> dict[str, Any]:
    return {"type": "reasoning_details", "reasoning_details": [{"type": "reasoning.x", **fields}]}


BOOKKEEPING: list[Any] = [
    {"thoughtSignature": "s"},
    {"text": "", "thoughtSignature": "s"},
    {"type": "fields_of_text", "id": "i"},
    {"type": "message_fields", "item": {"id": "i", "annotations": []}},
    {"type": "reasoning_details", "reasoning_details": 7},
    {"type": "reasoning_details", "reasoning_details": [7, {"text": ""}]},
    details(data="s"),
    details(text="", summary=None, signature="s"),
]
READABLE: list[Any] = [
    None,
    {"text": "words"},
    {"text": "words", "thoughtSignature": "s"},
    {"type": "fields_of_text", "citations": [1]},
    {"type": "audio", "audio": {}},
    details(text="words"),
    details(summary="words"),
    {"type": "reasoning_details", "reasoning_details": [{"data": "s"}, {"text": "words"}]},
]


@pytest.mark.parametrize("data", BOOKKEEPING, ids=str)
def test_of_ids_and_signatures_nothing_is_said(data: Any) -> None:
    assert is_bookkeeping(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_left_out(Opaque(provider="p", data=data), "gemini")


@pytest.mark.parametrize("data", READABLE, ids=str)
def test_of_what_can_be_read_it_is_warned(data: Any) -> None:
    assert not is_bookkeeping(data)
    with pytest.warns(LeftOutWarning, match="is not sent in gemini"):
        warn_left_out(Opaque(provider="p", data=data), "gemini")


@pytest.mark.parametrize("inner, found", [([1], True), ([], False)])
def test_sources_are_found_however_deep_they_are(inner: list[Any], found: bool) -> None:
    value: Any = {"citations": inner}
    for _ in range(10_000):
        value = {"a": [value]}
    assert is_bookkeeping({"type": "fields_of_text", "a": value}) is not found
