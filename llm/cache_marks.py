"""Cache marks in chat/completions, for servers that pass them on to a provider which wants them.

A mark says: what goes before and up to here is worth caching. It goes on the system blocks that ask for
one and on the last message that is not a system reminder, in copies: the history knows nothing of it.

Read with: ``openai_chat_request.py`` (the caller), ``CallOptions.cache_last``, ``SystemBlock.cache``.
"""

from collections.abc import Sequence
from typing import Any, Final

from unspool.kernel.ports import SystemBlock

_SYSTEM: Final = ("system", "developer")


def mark(ttl: str) -> dict[str, str]:
    """A mark that lasts for ``ttl`` (``5m``, ``1h``), or as long as the provider likes."""
    return {"type": "ephemeral", "ttl": ttl} if ttl else {"type": "ephemeral"}


def marked_system(blocks: Sequence[SystemBlock]) -> list[dict[str, Any]]:
    """System blocks as content parts, each with the mark it asks for."""
    parts: list[dict[str, Any]] = []
    for block in blocks:
        part: dict[str, Any] = {"type": "text", "text": block.text}
        if block.cache is not None:
            part["cache_control"] = mark(block.cache)
        parts.append(part)
    return parts


def mark_last(messages: list[dict[str, Any]], ttl: str) -> bool:
    """Mark the last of ``messages`` that is no system message and has content; whether there was one.

    In place, for a list of the caller's own.
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        content = message.get("content")
        if message["role"] not in _SYSTEM and content:
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
            parts[-1] = {**parts[-1], "cache_control": mark(ttl)}
            messages[index] = {**message, "content": parts}
            return True
    return False
