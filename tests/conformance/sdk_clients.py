"""The official clients, each pointed at a server on this machine: what they make of its stream.

They are imported when they are used, by name: they belong to no environment of the project.
"""

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from .meaning import Row, stop_reason, usage_row


@dataclass(frozen=True)
class Summary:
    """What a client came to; ``error`` says that it raised, and the rest is empty then."""

    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    stop: str | None = None
    usage: Row = (0, 0, 0, 0, 0)
    error: bool = False


def sdk_summary(format: str, url: str) -> Summary:
    """The answer of the server at ``url``, as the format's official client sees it.

    Raises:
        Exception: whatever the client raises.
    """
    return _CLIENTS[format](url)


def _chat(url: str) -> Summary:
    client = importlib.import_module("openai").OpenAI(api_key="none", base_url=url, max_retries=0)
    messages = [{"role": "user", "content": "go"}]
    with client.chat.completions.stream(model="m", messages=messages) as stream:
        completion = stream.get_final_completion()
    choice = completion.choices[0]
    message = choice.message
    calls = [_chat_call(call) for call in message.tool_calls or ()]
    if message.function_call:
        calls.append((message.function_call.name, _parsed(message.function_call.arguments)))
    reason = "content_filter" if message.refusal else choice.finish_reason
    return _summary("openai-chat", message.content, calls, reason, completion.usage)


def _chat_call(call: Any) -> tuple[str, Any]:
    if call.type == "custom":
        return call.custom.name, call.custom.input
    return call.function.name, _parsed(call.function.arguments)


def _responses(url: str) -> Summary:
    client = importlib.import_module("openai").OpenAI(api_key="none", base_url=url, max_retries=0)
    with client.responses.stream(model="m", input="go") as stream:
        response = stream.get_final_response()
    kinds = {"function_call": "arguments", "custom_tool_call": "input"}
    calls = [
        (item.name, _parsed(getattr(item, kinds[item.type])) if item.type == "function_call" else item.input)
        for item in response.output
        if item.type in kinds
    ]
    details = response.incomplete_details
    reason = details.reason if details is not None else response.status
    if any(part.type == "refusal" for item in response.output for part in _parts(item)):
        reason = "content_filter"
    return _summary("openai-responses", response.output_text, calls, reason, response.usage)


def _parts(item: Any) -> Any:
    return item.content if item.type == "message" else ()


def _anthropic(url: str) -> Summary:
    client = importlib.import_module("anthropic").Anthropic(api_key="none", base_url=url, max_retries=0)
    messages = [{"role": "user", "content": "go"}]
    with client.beta.messages.stream(model="m", max_tokens=1024, messages=messages) as stream:
        message = stream.get_final_message()
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
    return _summary("anthropic-messages", text, calls, message.stop_reason, message.usage)


def _gemini(url: str) -> Summary:
    genai = importlib.import_module("google.genai")
    client = genai.Client(api_key="none", http_options={"base_url": url})
    text, calls, reason, usage = "", [], None, None
    for chunk in client.models.generate_content_stream(model="m", contents="go"):
        usage = chunk.usage_metadata or usage
        for candidate in (chunk.candidates or [])[:1]:
            reason = candidate.finish_reason or reason
            for part in (candidate.content and candidate.content.parts) or ():
                text += part.text if part.text and not part.thought else ""
                if part.function_call:
                    calls.append((part.function_call.name, part.function_call.args or {}))
    return _summary("gemini", text, calls, getattr(reason, "value", reason), usage)


_CLIENTS: Final[dict[str, Callable[[str], Summary]]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic-messages": _anthropic,
    "gemini": _gemini,
}


def _summary(
    format: str, text: str | None, calls: list[tuple[str, Any]], reason: str | None, usage: Any
) -> Summary:
    counts = (
        usage.model_dump(by_alias=True, exclude_none=True, mode="json", warnings=False) if usage else None
    )
    return Summary(text or "", calls, stop_reason(format, reason, bool(calls)), usage_row(format, counts))


def _parsed(arguments: str | None) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments
