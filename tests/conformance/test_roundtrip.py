"""The comparison with recorded requests, on small ones of its own: what is lost is found, what means nothing is named."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from . import roundtrip, roundtrip_anthropic, roundtrip_chat, roundtrip_gemini, roundtrip_responses
from .roundtrip_classes import Class, explained

_ROOT = Path(os.environ.get("UNSPOOL_SHARED") or Path(__file__).resolve().parents[3] / "shared")
_SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}

BODIES: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be"},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "so", "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": _SCHEMA}}],
        "tool_choice": "required",
        "max_tokens": 5,
        "temperature": 0.5,
        "stop": ["END"],
        "seed": 1,
    },
    "openai-responses": {
        "model": "m",
        "instructions": "be",
        "input": [
            {"role": "user", "content": "go"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"x": 1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
        ],
        "tools": [
            {"type": "function", "name": "f", "parameters": _SCHEMA, "strict": False},
            {"type": "web_search"},
        ],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "max_output_tokens": 5,
    },
    "anthropic-messages": {
        "model": "m",
        "max_tokens": 5000,
        "system": [{"type": "text", "text": "be", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [{"type": "text", "text": "one"}],
                    },
                    {"type": "container_upload", "file_id": "f"},
                ],
            },
        ],
        "tools": [{"name": "f", "input_schema": _SCHEMA}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "be"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "go"}]},
            {
                "role": "model",
                "parts": [
                    {"functionCall": {"name": "f", "args": {"x": 1}, "id": "c1"}, "thoughtSignature": "aGk="},
                ],
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "f", "id": "c1", "response": {"output": "one"}}}],
            },
        ],
        "tools": [
            {"functionDeclarations": [{"name": "f", "parametersJsonSchema": _SCHEMA}]},
            {"googleSearch": {}},
        ],
        "generationConfig": {"temperature": 0.5, "topK": 3},
    },
}


def put(
    folder: Path, format: str, body: dict[str, Any], answer: str = "", turn: int = 0, id: str = "x"
) -> None:
    exchange = {
        "id": id,
        "api": format,
        "provider": "p",
        "request": {"path": "/v1beta/models/m:generateContent", "body": body},
        "response": {"status": 200 if answer else 0, "body": answer},
        "conversation": {"id": "c", "index": turn},
    }
    folder.joinpath(f"{id}.json").write_text(json.dumps(exchange), encoding="utf-8")


@pytest.mark.parametrize("format", BODIES)
def test_a_request_of_our_own_form_comes_out_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    put(tmp_path, format, BODIES[format])
    assert roundtrip.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "same requests x"


@pytest.mark.parametrize("format", BODIES)
def test_what_we_would_lose_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str], format: str) -> None:
    body = copy.deepcopy(BODIES[format])
    (body.get("messages") or body.get("input") or body["contents"])[0]["unheard"] = "u"
    put(tmp_path, format, body)
    assert roundtrip.main([str(tmp_path)]) == 1
    line, *_, last = capsys.readouterr().out.splitlines()
    assert line.startswith("DIFFERS requests x: $.") and line.endswith("unheard: 'u' and nothing")
    assert last == "0 same, 0 explained, 1 differ"


@pytest.mark.parametrize("format", BODIES)
def test_what_is_altered_on_the_way_is_found(format: str) -> None:
    classes: tuple[Class, ...] = {
        "openai-chat": roundtrip_chat.CLASSES,
        "openai-responses": roundtrip_responses.CLASSES,
        "anthropic-messages": roundtrip_anthropic.CLASSES,
        "gemini": roundtrip_gemini.CLASSES,
    }[format]
    text = json.dumps(BODIES[format])
    for was, becomes in {
        '"one"': '"two"',
        '"go"': '"gone"',
        '"be"': '""',
        '"c1"': '"c2"',
        '"f"': '"g"',
    }.items():
        assert explained(BODIES[format], json.loads(text.replace(was, becomes)), classes)[1], was


EXPLAINED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a list for a string": (
        "openai-chat",
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
        "string_or_one_text",
    ),
    "no usage": (
        "openai-chat",
        {"messages": [{"role": "user", "content": "hi"}], "stream": True},
        "usage_asked_of_streams",
    ),
    "input as a string": ("openai-responses", {"input": "hi", "store": False}, "input_of_one_string"),
    "no error": (
        "anthropic-messages",
        {
            "max_tokens": 1,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "c", "content": "a", "is_error": False}
                    ],
                }
            ],
        },
        "string_or_one_text, no_error_is_the_default",
    ),
    "another name for a result": (
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"result": "a"}}}]}
            ]
        },
        "other_spelling, a_result_is_named_output",
    ),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_what_means_nothing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    format, body, classes = EXPLAINED[name]
    put(tmp_path, format, {"model": "m", **body} if format != "gemini" else body)
    assert roundtrip.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"explained requests x: {classes}"


def test_the_next_request_and_the_reply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = {"role": "assistant", "content": "so", "tool_calls": [_CALL]}
    answer = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    whole = BODIES["openai-chat"]
    put(tmp_path, "openai-chat", {**whole, "messages": whole["messages"][:2]}, answer, 0, "a")
    put(tmp_path, "openai-chat", whole, "", 1, "b")
    assert roundtrip.main([str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["same requests a", "same requests b", "same next requests b", "same replies a"]
    changed = json.loads(json.dumps(whole).replace('"so"', '"other"'))
    put(tmp_path, "openai-chat", changed, "", 1, "b")
    assert roundtrip.main([str(tmp_path)]) == 1
    assert "DIFFERS next requests b: $.messages[2].content" in capsys.readouterr().out


def test_no_folder_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert roundtrip.main([str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out.startswith("SKIP: no such folder")


@pytest.mark.skipif(
    not _ROOT.joinpath("corpus").exists(), reason="no shared test material beside the repository"
)
def test_recorded_requests(capsys: pytest.CaptureFixture[str]) -> None:
    status = roundtrip.main([str(_ROOT / "corpus")])
    differ = [line for line in capsys.readouterr().out.splitlines() if line.startswith("DIFFERS")]
    assert (differ, status) == ([], 0)
