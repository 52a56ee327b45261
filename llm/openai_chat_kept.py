"""What the message of a chat/completions answer holds that our blocks have no room for.

Signed reasoning of gateways (``reasoning_details``), citations (``annotations``), spoken answers (``audio``), parts
of the content that we do not know, the call of those who ask for ``functions`` by themselves (``function_call``),
tools that the server ran (``executed_tools`` of Groq) and what it looked up (``context`` of Azure) become an ``Opaque``
block each, ``{"type": <field>, <field>: <value>}``. The next request gives reasoning and sound
back to the provider they came from, in the field they came in; of sound only the id, as the format wants it. The
others are for who reads the reply: requests have no field for them, or none that goes with tools.
Images are blocks of the kernel.

What a call has beside its arguments (``extra_content``, in which Gemini signs it; that it is of a free-form tool) is
in its ``thought_signature``, and goes back with it likewise: Gemini refuses a call without.

Pieces of a stream are put together to what one answer in one piece would hold: details of the same type and index
that follow each other are one, their texts joined; a tool comes when it begins and again with what it gave.

Read with: ``openai_chat_stream.py`` (writes it), ``openai_chat_messages.py`` (reads it).
"""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from unspool.kernel.messages import Document, Image, Message, Opaque, ToolCall

from .decoder import check_blocks
from .openai_chat_wire import Delta
from .origins import warn_left_out

FORMAT: Final = "openai-chat"
DETAILS: Final = "reasoning_details"
_encode = msgspec.json.Encoder().encode
_JOINED: Final = ("text", "summary", "data", "transcript", "arguments")
_READ_ONLY: Final = frozenset(
    {"annotations", "content", "context", "executed_tools", "function_call", "images"}
)
_DATA_URL: Final = re.compile(r"data:([^;,]*)[^,]*;base64,")


class KeptFields:
    """The fields of one answer, as far as it has come."""

    __slots__ = ("_annotations", "_audio", "_context", "_details", "_function", "_images", "_parts", "_tools")

    def __init__(self) -> None:
        self._details: list[Any] = []  # an object may still grow
        self._annotations: list[Any] = []
        self._audio: list[dict[str, Any]] = []
        self._function = _Growing({})
        self._images: list[Any] = []
        self._parts: list[Any] = []  # of the content
        self._tools: dict[int | str, Any] = {}  # by index, where they have one
        self._context: dict[str, Any] = {}

    def add(self, delta: Delta) -> None:
        """Take in what a piece of the answer holds of them."""
        if isinstance(delta.reasoning_details, list):
            for detail in delta.reasoning_details:
                self._add_detail(detail)
        if isinstance(delta.annotations, list):
            self._annotations += delta.annotations
        if isinstance(delta.audio, dict):
            self._audio.append(delta.audio)
        if isinstance(delta.images, list):
            self._images += delta.images
            check_blocks(len(self._images))
        if isinstance(delta.function_call, dict) and not delta.tool_calls:  # else it is one of those
            self._function.add(delta.function_call)
        if isinstance(delta.executed_tools, list):
            for tool in delta.executed_tools:
                self._add_tool(tool)
        if isinstance(delta.context, dict):
            _update(self._context, delta.context)

    def add_part(self, part: dict[str, Any]) -> None:
        """Take in a part of the content that is neither text nor thinking."""
        (self._images if "image_url" in part else self._parts).append(part)
        check_blocks(len(self._images))

    def blocks(self) -> Iterator[tuple[str, Opaque | Image]]:
        """A block for each field that came, with its name; reasoning first. Each image is one."""
        details = [detail.whole() if isinstance(detail, _Growing) else detail for detail in self._details]
        fields = {DETAILS: details, "annotations": self._annotations, "audio": _spoken(self._audio)}
        images = [(part, _image(part)) for part in self._images]
        yield from _opaque(fields)
        yield from (("images", image) for _, image in images if image is not None)
        yield from _opaque(
            {
                "images": [part for part, image in images if image is None],
                "content": self._parts,
                "function_call": self._function.whole(),
                "executed_tools": list(self._tools.values()),
                "context": self._context,
            }
        )

    def _add_detail(self, detail: Any) -> None:
        last = self._details[-1] if self._details else None
        if not isinstance(detail, dict):
            self._details.append(detail)
        elif isinstance(last, _Growing) and _continues(last.fields, detail):
            last.add(detail)
        else:
            self._details.append(_Growing(detail))

    def _add_tool(self, tool: Any) -> None:
        index = tool.get("index") if isinstance(tool, dict) else None
        key = index if type(index) is int else f"{len(self._tools)} tools before"
        if known := self._tools.get(key):
            _update(known, tool)
        else:
            self._tools[key] = tool


def _opaque(fields: dict[str, Any]) -> Iterator[tuple[str, Opaque]]:
    for field, value in fields.items():
        if value:
            yield field, Opaque(provider=FORMAT, data={"type": field, field: value})


def _image(part: Any) -> Image | None:
    """An image as OpenRouter gives it, or as requests have it; None for one in another form."""
    url = part.get("image_url") if isinstance(part, dict) else None
    url = url.get("url") if isinstance(url, dict) else url
    if not isinstance(url, str):
        return None
    if head := _DATA_URL.match(url):
        return Image(data=url[head.end() :], mime_type=head.group(1))
    return Image(url=url)


def _continues(last: dict[str, Any], detail: dict[str, Any]) -> bool:
    if detail.get("index") is None:
        return False
    same = all(last.get(key) == detail.get(key) for key in ("type", "index"))
    return same and detail.get("id") in (None, last.get("id"))


class _Growing:
    """An object that comes in pieces: texts go on, of the rest what is said last holds."""

    __slots__ = ("_texts", "fields")

    def __init__(self, first: dict[str, Any]) -> None:
        self.fields = dict(first)
        self._texts: dict[str, list[str]] = {}  # the pieces of those that went on

    def add(self, then: dict[str, Any]) -> None:
        for key, value in then.items():
            known = self.fields.get(key)
            if key in _JOINED and isinstance(value, str) and isinstance(known, str):
                self._texts.setdefault(key, [known]).append(value)
            elif value is not None:
                self._texts.pop(key, None)
                self.fields[key] = value

    def whole(self) -> dict[str, Any]:
        return {**self.fields, **{key: "".join(pieces) for key, pieces in self._texts.items()}}


def _update(first: dict[str, Any], then: dict[str, Any]) -> None:
    """Put what ``then`` says into ``first``, in place: there may be many pieces."""
    first.update((key, value) for key, value in then.items() if value is not None)


def _spoken(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """Audio in one piece; its data comes as base64, each piece by itself."""
    if len(pieces) < 2:
        return pieces[0] if pieces else {}
    growing = _Growing({})
    for piece in pieces:
        growing.add({key: value for key, value in piece.items() if key != "data"})
    whole = growing.whole()
    data = [piece["data"] for piece in pieces if isinstance(piece.get("data"), str)]
    try:
        whole["data"] = base64.b64encode(b"".join(map(base64.b64decode, data))).decode()
    except (binascii.Error, ValueError):
        whole["data"] = "".join(data)
    return whole


def kept_fields(message: Message, provider: str) -> dict[str, Any]:
    """The fields that go back to ``provider`` with a reply; another one's are left out, with a warning."""
    fields: dict[str, Any] = {}
    for block in message.content:
        if type(block) is Image or type(block) is Document:
            warn_left_out(block, FORMAT)
        if type(block) is not Opaque:
            continue
        if block.provider != FORMAT or not _is_from(message, provider) or not isinstance(block.data, dict):
            warn_left_out(block, FORMAT)
            continue
        fields |= {key: value for key, value in block.data.items() if key not in ("type", *_READ_ONLY)}
    if isinstance(audio := fields.get("audio"), dict):
        fields["audio"] = {"id": audio.get("id")}
    return fields


class KeptCall(Struct, frozen=True, omit_defaults=True):
    """What a call has beside its id, its name and its arguments."""

    custom: bool = False
    extra_content: Any = None


_decode = msgspec.json.Decoder(KeptCall).decode


def kept_call(custom: bool, extra_content: Any) -> str | None:
    """The signature of a call; None where there is nothing to keep."""
    kept = KeptCall(custom, extra_content or None)
    return None if kept == KeptCall() else _encode(kept).decode()


def kept_of(call: ToolCall, message: Message, provider: str) -> KeptCall:
    """What goes back to ``provider`` with a call of ``message``."""
    if not call.thought_signature or not _is_from(message, provider):
        return KeptCall()
    try:
        return _decode(call.thought_signature)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return KeptCall()


def _is_from(message: Message, provider: str) -> bool:
    return not message.origin or message.origin.startswith(f"{FORMAT}:{provider}/")
