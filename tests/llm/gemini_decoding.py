"""Runs the bytes of a Gemini answer through its decoder in any chunking, and says what parts and blocks are."""

import json
from functools import partial
from typing import Any

from unspool.kernel.messages import Opaque
from unspool.llm.gemini_stream import GeminiDecoder

from . import decoding  # tests/llm/, not llm/
from .decoding import Outcome, same  # tests/llm/, not llm/

__all__ = [
    "CODE",
    "META",
    "PNG",
    "S1",
    "S2",
    "SOUND",
    "Outcome",
    "answer",
    "call",
    "decode",
    "fields",
    "kept",
    "same",
    "signed",
    "sse",
    "stream",
    "text",
    "thought",
]


decode = partial(decoding.decode, make=partial(GeminiDecoder, seed="1"))


def answer(*parts: dict[str, Any], finish: str | int | None = "STOP", **fields: Any) -> dict[str, Any]:
    """One chunk, or a whole answer, of these parts; ``fields`` are those of its candidate."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, **fields}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "responseId": "r1", "modelVersion": "gemini-x"}


def sse(*chunks: Any) -> bytes:
    """Chunks as a stream of events."""
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)


def stream(*parts: dict[str, Any], finish: str | int | None = "STOP") -> bytes:
    """A stream of one part each, and the end by itself."""
    chunks = [answer(part, finish=None) for part in parts]
    return sse(*chunks, answer({"text": ""}, finish=finish))


S1, S2 = "c2lnLTE=", "c2lnLTI="
CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}
PNG = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
META = {"partMetadata": {"k": 1}}
SOUND = {"inlineData": {"mimeType": "audio/wav", "data": "aGk="}}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"text": said, **more}


def thought(said: str, **more: Any) -> dict[str, Any]:
    return {"text": said, "thought": True, **more}


def call(name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"functionCall": {**({"name": name} if name else {}), **more}}


def signed(signature: str) -> dict[str, Any]:
    return {"thoughtSignature": signature}


def kept(part: dict[str, Any]) -> Opaque:
    return Opaque(provider="gemini", data=part)


def fields(more: dict[str, Any]) -> Opaque:
    return kept({"type": "fields_of_part", **more})
