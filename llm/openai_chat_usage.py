"""Token counts of chat/completions answers in the kernel's form.

``prompt_tokens`` contains what came from the cache; ``Usage.input_tokens`` does not. Providers
differ in where they put the details, and some leave reasoning out of ``completion_tokens`` but not
out of the total, so the total decides: prompt and output add up to it.

Read with: ``openai_chat_stream.py`` (the caller), ``tests/llm/test_openai_chat_usage.py``.
"""

from collections.abc import Mapping
from typing import Any

from unspool.kernel.messages import Usage


def usage_of(fields: Mapping[str, Any]) -> Usage:
    """Usage from the wire's fields; anything missing or not a count is 0.

    >>> usage = usage_of({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}})
    >>> usage.input_tokens, usage.cache_read_tokens, usage.context_tokens
    (5, 4, 9)
    """
    prompt_details = _details(fields, "prompt_tokens_details")
    output_details = _details(fields, "completion_tokens_details")
    prompt, completion = _count(fields, "prompt_tokens"), _count(fields, "completion_tokens")
    read = (
        _count(prompt_details, "cached_tokens")
        or _count(fields, "prompt_cache_hit_tokens")  # DeepSeek
        or _count(fields, "cached_tokens")  # Moonshot
        or _count(fields, "cache_read_input_tokens")  # gateways in front of Anthropic models
    )
    written = _count(prompt_details, "cache_write_tokens") or _count(fields, "cache_creation_input_tokens")
    read = min(read, prompt)
    written = min(written, prompt - read)
    output = max(completion, _count(fields, "total_tokens") - prompt)
    reasoning = _count(output_details, "reasoning_tokens") or _count(fields, "reasoning_tokens")
    return Usage(
        input_tokens=prompt - read - written,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(max(reasoning, output - completion), output),
    )


def _details(fields: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = fields.get(key)
    return value if isinstance(value, dict) else {}


def _count(fields: Mapping[str, Any], key: str) -> int:
    value = fields.get(key)
    return max(0, int(value)) if isinstance(value, int | float) else 0
