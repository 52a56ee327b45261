"""What bodies hold beyond the types of a provider's client, because another server of the format wants it.

Read with: ``requests.py``, which takes these out before it asks the types, and ``docs/conformance.md``.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Addition:
    """A field that ``dialects`` take; ``place`` is where: the body, a role's message, a part of a message, a call.

    With ``value`` it is that value alone which is not among the client's.
    """

    format: str
    dialects: tuple[str, ...]
    place: str
    key: str
    why: str
    value: object = None


_CHAT: Final = "openai-chat"
_EVERY: Final = ("*",)
ADDITIONS: Final = (
    Addition(_CHAT, ("openrouter",), "body", "reasoning", "OpenRouter's word for thinking of every provider"),
    Addition(_CHAT, ("together",), "body", "reasoning", "switches thinking off"),
    Addition(_CHAT, ("deepseek", "moonshot", "zai"), "body", "thinking", "their switch for thinking"),
    Addition(_CHAT, ("alibaba",), "body", "enable_thinking", "Qwen's switch for thinking"),
    Addition(_CHAT, ("alibaba",), "body", "thinking_budget", "Qwen's budget"),
    Addition(
        _CHAT,
        ("nvidia", "llamacpp", "vllm", "local"),
        "body",
        "chat_template_kwargs",
        "variables of an open model's chat template",
    ),
    Addition(_CHAT, ("groq",), "body", "reasoning_effort", "Qwen 3's word for on at Groq", value="default"),
    Addition(
        _CHAT,
        ("deepseek", "moonshot", "zai", "fireworks", "llamacpp", "local"),
        "assistant",
        "reasoning_content",
        "thinking goes back in it",
    ),
    Addition(_CHAT, ("openrouter", "vllm"), "assistant", "reasoning", "thinking goes back in it"),
    Addition(_CHAT, _EVERY, "assistant", "reasoning_details", "goes back to the provider that gave it"),
    Addition(_CHAT, _EVERY, "call", "extra_content", "Gemini's signature of a call goes back to it"),
    Addition(_CHAT, ("openrouter",), "part", "cache_control", "a mark that it passes on to Anthropic"),
    Addition(_CHAT, ("chat gateway",), "tool", "name", "some gateways want the tool's name with its result"),
    Addition(
        "anthropic-messages",
        ("anthropic", "anthropic elsewhere", "anthropic without references"),
        "body",
        "temperature",
        "models before 4.7 take it, though the client's types no longer have it; newer ones are sent none",
    ),
)


def without_additions(
    format: str, dialect: str, body: dict[str, Any]
) -> tuple[dict[str, Any], set[Addition]]:
    """A body without what its dialect adds, on a copy, and what that was."""
    body, found = copy.deepcopy(body), set[Addition]()
    for addition in ADDITIONS:
        if addition.format != format or not {dialect, "*"} & {*addition.dialects}:
            continue
        for holder in _holders(addition.place, body):
            if addition.key in holder and addition.value in (None, holder[addition.key]):
                del holder[addition.key]
                found.add(addition)
    return body, found


def _holders(place: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if place == "body":
        yield body
        return
    for message in body["messages"]:
        if place == message["role"]:
            yield message
        elif place == "call":
            yield from message.get("tool_calls") or ()
        elif place == "part" and isinstance(message.get("content"), list):
            yield from message["content"]
