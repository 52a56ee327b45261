"""Token counts of Responses answers in the kernel's form.

``input_tokens`` of the wire contains what came from the cache and what was written to it;
``Usage.input_tokens`` does not. Reasoning is contained in ``output_tokens`` on both sides.

Read with: ``openai_responses_stream.py`` (the caller), ``usage_fields.py``.
"""

from collections.abc import Mapping
from typing import Any

from unspool.kernel.messages import Usage

from .usage_fields import count, object_of, told_cost


def usage_of(fields: Mapping[str, Any]) -> Usage:
    """Usage from the wire's fields; anything missing or not a count is 0.

    >>> usage = usage_of({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}})
    >>> usage.input_tokens, usage.cache_read_tokens, usage.context_tokens
    (5, 4, 9)
    """
    given, output = count(fields, "input_tokens"), count(fields, "output_tokens")
    details = object_of(fields, "input_tokens_details")
    read = min(count(details, "cached_tokens"), given)
    written = min(count(details, "cache_write_tokens"), given - read)
    reasoning = count(object_of(fields, "output_tokens_details"), "reasoning_tokens")
    return Usage(
        input_tokens=given - read - written,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(reasoning, output),
        cost=told_cost(fields),
    )
