"""Changes to an answer that keep some of its shape: a random byte seldom gets beyond the JSON parser.

Half of the changes are made inside the JSON of one event or document, the rest to the bytes.
"""

import json
import random
import re
from collections.abc import Callable
from typing import Any, Final

_JSON: Final = re.compile(rb"(?m)^(?:data: )?([\[{].*)$")


def _nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


_ODD: Final[tuple[Callable[[], Any], ...]] = (
    lambda: None,
    lambda: True,
    lambda: 0,
    lambda: -1,
    lambda: 2**63,
    lambda: 10**40,
    lambda: 1.5,
    lambda: 1e308,
    lambda: "",
    lambda: "x",
    lambda: "\ud800",
    lambda: "sk-proj-abcdefghijklmnop",
    lambda: "\x00\u2028é😀",
    lambda: "x" * 600,
    lambda: "{",
    lambda: '{"x": 1}',
    list,
    dict,
    lambda: [None],
    lambda: [[]],
    lambda: {"type": "text", "text": "x"},
    lambda: {"": {}},
    lambda: _nested(90),
    lambda: _nested(400),
)
_RAW: Final = (
    b"NaN",
    b"1e999",
    b"-Infinity",
    b"[" * 3000,
    b'{"a":' * 3000,
    b"9" * 5000,
    b'"\\ud800"',
    b'"\xff"',
)
_BYTES: Final = (
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\n\n",
    b"data: ",
    b"event: error\n",
    b"\x00",
    b"\xff",
    b"{",
    b'"',
    b"<",
    b"[DONE]",
)


def mutated(body: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """``body`` with one to four changes; some take pieces of ``others``."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        body = rng.choice((_in_json, _in_json, _in_bytes, _in_lines))(body, rng, others)
    return body


def _in_json(body: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    spans = [match.span(1) for match in _JSON.finditer(body)]
    if not spans:
        return _in_bytes(body, rng, others)
    start, end = rng.choice(spans)
    try:
        value = json.loads(body[start:end])
    except (ValueError, RecursionError):
        return _in_bytes(body, rng, others)
    place = "*place*"  # what is put there may be no JSON at all
    raw = rng.choice(_RAW) if rng.random() < 0.15 else json.dumps(rng.choice(_ODD)()).encode()
    text = json.dumps(_changed(value, rng, place)).encode()
    return body[:start] + text.replace(json.dumps(place).encode(), raw) + body[end:]


def _changed(value: Any, rng: random.Random, place: str) -> Any:
    """``value`` with one node replaced, dropped or doubled."""
    if not (isinstance(value, dict | list) and value) or rng.random() < 0.1:
        return place
    if isinstance(value, list):
        index = rng.randrange(len(value))
        return [*value[:index], _changed(value[index], rng, place), *value[index + rng.choice((0, 1)) :]]
    key = rng.choice(list(value))
    if rng.random() < 0.15:
        return {name: inner for name, inner in value.items() if name != key}
    return {**value, key: _changed(value[key], rng, place)}


def _in_lines(body: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Events dropped, doubled, moved, or taken from another answer."""
    events = body.split(b"\n\n")
    index = rng.randrange(len(events))
    match rng.randrange(4):
        case 0:
            del events[index]
        case 1:
            events.insert(rng.randrange(len(events) + 1), events[index])
        case 2:
            events.insert(index, rng.choice(rng.choice(others).split(b"\n\n")))
        case _:
            events[index:] = events[index : rng.randrange(len(events)) + 1]
    return b"\n\n".join(events)


def _in_bytes(body: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    start = rng.randrange(len(body) + 1)
    match rng.randrange(4):
        case 0:
            return body[:start]
        case 1:
            return body[:start] + rng.choice(_BYTES) + body[start:]
        case 2:
            return body[:start] + body[start + rng.randrange(1, 9) :]
        case _:
            return body[:start] + bytes([rng.randrange(256)]) + body[start + 1 :]
