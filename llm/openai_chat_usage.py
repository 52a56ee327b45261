"""Token counts of chat/completions answers in the kernel's form.

``prompt_tokens`` contains what came from the cache; ``Usage.input_tokens`` does not. Providers
differ in where they put the details, and some leave reasoning out of ``completion_tokens`` but not
out of the total, so the total decides: prompt and output add up to it.

Read with: ``openai_chat_stream.py`` (the caller), ``usage_fields.py``, ``tests/llm/test_usage_fields.py``.
"""

from collections.abc import Mapping
from typing import Any

from unspool.kernel.messages import Usage

from .usage_fields import count, object_of, told_cost


def usage_of(fields: Mapping[str, Any]) -> Usage:
    """Usage from the wire's fields; anything missing or not a count is 0.

    >>> usage = usage_of({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}})
    >>> usage.input_tokens, usage.cache_read_tokens, usage.context_tokens
    (5, 4, 9)
    """
    prompt_details = object_of(fields, "prompt_tokens_details")
    output_details = object_of(fields, "completion_tokens_details")
    prompt, completion = count(fields, "prompt_tokens"), count(fields, "completion_tokens")
    read = (
        count(prompt_details, "cached_tokens")
        or count(fields, "prompt_cache_hit_tokens")  # DeepSeek
        or count(fields, "cached_tokens")  # Moonshot
        or count(fields, "cache_read_input_tokens")  # gateways in front of Anthropic models
    )
    written = count(prompt_details, "cache_write_tokens") or count(fields, "cache_creation_input_tokens")
    read = min(read, prompt)
    written = min(written, prompt - read)
    output = max(completion, count(fields, "total_tokens") - prompt)
    reasoning = count(output_details, "reasoning_tokens") or count(fields, "reasoning_tokens")
    return Usage(
        input_tokens=prompt - read - written,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(max(reasoning, output - completion), output),
        cost=told_cost(fields),
    )
