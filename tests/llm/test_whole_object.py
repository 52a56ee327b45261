"""Whether text in pieces is one JSON object: as if all of it were parsed each time, but it is not."""

import json
from itertools import pairwise

import pytest

from unspool.llm import whole_object
from unspool.llm.whole_object import ObjectScan, is_object

TEXTS = [
    "{}",
    ' {"a": [1, {"b": "}"}], "c": "\\"{\\\\"} \n',
    '{"a": 1}{"a": 1}',
    '{"a": 1} x ',
    '{"a": ]} }',
    "}{}",
    "[{}]",
    '"{}"',
    "x{}",
    '{"a": "\\\\\\"}"}',
    "",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_the_same_as_parsing_all_of_it(text: str, size: int) -> None:
    pieces: list[str] = []
    scan, late = ObjectScan(pieces), ObjectScan(pieces)
    for start in range(0, len(text), size):
        pieces += [text[start : start + size], ""]
        assert scan.is_whole() is is_object("".join(pieces).rstrip(" \n"))
    assert late.is_whole() is scan.is_whole()


def test_an_object_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def noted(text: str) -> bool:
        parsed.append(text)
        return is_object(text)

    monkeypatch.setattr(whole_object, "is_object", noted)
    text = json.dumps({"code": "if (a) {b} else {c}" * 50}) + "  \n" * 20
    pieces: list[str] = []
    scan = ObjectScan(pieces)
    was = []
    for character in text:
        pieces.append(character)
        was.append(scan.is_whole())
    assert parsed == [text.strip()]
    assert [after for before, after in pairwise(was) if before is not after] == [True]
