"""JSON as it comes from models and tools, made safe to store and to send.

Everything past this file is strict JSON: no NaN or Infinity, no lone surrogates, encodable as
UTF-8. Structure is never guessed: text that was cut off stays invalid, because closing its
brackets would invent a call nobody made.

Read with: ``messages.py`` (``ToolCall``), ``tool_call.py`` (results).
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from .redaction import holds_key, redact

MAX_DEPTH = 128  # levels of nesting in arguments; what reads them later may recurse
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_canonical = msgspec.json.Encoder(order="sorted").encode


class Arguments(NamedTuple):
    """Tool arguments as parsed; ``error`` says why they could not be, and ``args`` is then ``{}``."""

    args: dict[str, Any]
    error: str | None = None
    replaced: int = 0  # lone surrogates that became U+FFFD
    strict: bool = True  # whether the text itself is strict JSON for the object


def clean_text(text: str) -> str:
    """``text`` without keys of model providers, and with each lone surrogate replaced by U+FFFD, so that it can
    be encoded as UTF-8."""
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", text)
    return text if len(text) < 16 else redact(text)


def encodable(text: str) -> str:
    """``text`` with each lone surrogate replaced, and keys left alone: for what is opaque or binary."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def clean_json(value: Any) -> tuple[Any, int]:
    """A strict-JSON copy of ``value``, without keys of model providers, and the number of lone surrogates
    replaced in it.

    ``value`` is already made of dict, list, str, int, float, bool and None.

    Raises:
        ValueError: a number is NaN or infinite; the message names its path.
    """
    return _clean(value, "$", redact)


def encodable_json(value: Any) -> tuple[Any, int]:
    """``clean_json`` that leaves keys of model providers alone: for what is opaque or binary.

    Raises:
        ValueError: a number is NaN or infinite; the message names its path.
    """
    return _clean(value, "$", str)


def _clean(value: Any, path: str, hide: Callable[[str], str]) -> tuple[Any, int]:
    match value:
        case str():
            found = 0 if value.isascii() else len(_SURROGATE.findall(value))
            return hide(_SURROGATE.sub("\ufffd", value) if found else value), found
        case float() if not math.isfinite(value):
            raise ValueError(f"{path}: {value} is not a JSON number")
        case Mapping():
            items = {_clean(str(k), path, hide)[0]: _clean(v, f"{path}.{k}", hide) for k, v in value.items()}
            return {k: v for k, (v, _) in items.items()}, sum(n for _, n in items.values())
        case list() | tuple():
            parts = [_clean(v, f"{path}[{i}]", hide) for i, v in enumerate(value)]
            return [v for v, _ in parts], sum(n for _, n in parts)
        case _:
            return value, 0


def decode_arguments(text: str) -> Arguments:
    """Arguments of a tool call from the text a model sent; never raises.

    Empty text is ``{}``. Tolerated, because the meaning is certain: raw control characters
    inside strings, an object encoded twice (a JSON string that holds the object), lone
    surrogates. Keys of model providers are taken out of what was
    parsed, because escapes hide them in the text; ``strict`` is then False. Refused with the position: cut-off text, NaN, Infinity, numbers out of range,
    anything that is not an object.
    """
    if not text.strip():
        return Arguments({}, strict=False)
    strict, replaced = True, 0
    try:
        value = _decode(text)
    except RecursionError:
        return Arguments({}, TOO_DEEP)
    except (msgspec.DecodeError, UnicodeEncodeError):
        strict = False
        try:
            value, replaced = clean_json(json.loads(text, strict=False, parse_constant=_refuse))
        except ValueError as error:
            return Arguments({}, clean_text(str(error)))
        except RecursionError:
            return Arguments({}, TOO_DEEP)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        inner = decode_arguments(clean_text(value))
        return inner._replace(replaced=inner.replaced + replaced, strict=False)
    if not isinstance(value, dict):
        return Arguments({}, f"expected a JSON object, got {json_type(value)}")
    if text.count("[") + text.count("{") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        return Arguments({}, TOO_DEEP)
    if strict and "\\" in text and holds_key(value):  # without an escape the text shows all that is in it
        value, strict = clean_json(value)[0], False
    return Arguments(value, None, replaced, strict)


def escapes_hide_key(text: str) -> bool:
    """Whether JSON, or what was meant to be JSON, holds a key of a model provider once its escapes are read."""
    return "\\" in text and holds_key(_ESCAPE.sub(_unescaped, text))


def _unescaped(match: re.Match[str]) -> str:
    code = match.group(1)
    return chr(int(code, 16)) if code else _ESCAPED.get(match.group(2), match.group(2))


def _deeper_than(value: Any, levels: int) -> bool:
    """Whether plain JSON is nested more than ``levels`` deep; does not recurse."""
    layer = [value]
    for _ in range(levels + 1):
        inner: list[Any] = []
        for item in layer:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        layer = inner
        if not layer:
            return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def json_type(value: Any) -> str:
    """The JSON name of a value's type: ``null``, ``boolean``, ``integer``, ``number``, …"""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case list() | tuple():
            return "array"
        case _:
            return type(value).__name__


def copy_json(value: Any) -> Any:
    """A copy of plain JSON, so that its owner may change it."""
    if isinstance(value, dict):
        return {key: copy_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [copy_json(inner) for inner in value]
    return value


def plain_json(value: Any) -> Any:
    """``value`` as strict JSON whatever it is made of: what has no JSON form becomes its ``repr``."""
    try:
        return clean_json(msgspec.to_builtins(value, enc_hook=_safe_repr))[0]
    except (TypeError, ValueError, RecursionError):
        return clean_text(_safe_repr(value))


def plain_object(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same of what is to be an object, and stays one: only the values in it may become their ``repr``."""
    return {clean_text(str(key)): plain_json(value) for key, value in values.items()}


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 (it is foreign code, and all that is lost is a description)
        return f"<{type(value).__qualname__}>"


def encode_text(value: Any) -> str:
    """``value`` as compact JSON text, keys in their own order."""
    return _encode(value).decode()


def canonical_bytes(value: Any) -> bytes:
    """``value`` (JSON or structs) as compact JSON with sorted keys: equal values, equal bytes."""
    return _canonical(value)
