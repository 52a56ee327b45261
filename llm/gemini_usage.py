"""Token counts of generateContent answers in the kernel's form.

``promptTokenCount`` contains what came from the cache; ``Usage.input_tokens`` does not. What built-in tools put
before the model is input too. Thoughts are counted beside the answer, and both are output. A count that is 0 is
not sent, and some are left out though they are not 0: then the total decides.

Read with: ``gemini_stream.py`` (the caller), ``usage_fields.py``, ``tests/llm/test_gemini_stream.py``.
"""

from collections.abc import Mapping
from typing import Any

from unspool.kernel.messages import Usage

from .usage_fields import count


def usage_of(fields: Mapping[str, Any]) -> Usage:
    """Usage from the wire's fields; anything missing or not a count is 0.

    >>> usage = usage_of({"promptTokenCount": 9, "cachedContentTokenCount": 4, "totalTokenCount": 12})
    >>> usage.input_tokens, usage.cache_read_tokens, usage.output_tokens
    (5, 4, 3)
    """
    total, thoughts = count(fields, "totalTokenCount"), count(fields, "thoughtsTokenCount")
    output = count(fields, "candidatesTokenCount") + thoughts
    prompt = count(fields, "promptTokenCount") + count(fields, "toolUsePromptTokenCount")
    if prompt:
        output = max(output, total - prompt)
    else:
        prompt = max(0, total - output)
    read = min(count(fields, "cachedContentTokenCount"), prompt)
    return Usage(
        input_tokens=prompt - read,
        output_tokens=output,
        cache_read_tokens=read,
        reasoning_tokens=thoughts,
    )
