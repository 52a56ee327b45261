"""Where servers that speak Anthropic Messages differ.

Read with: ``anthropic.py``, ``anthropic_request.py`` (the users).
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class AnthropicDialect:
    """How one server takes the format; the defaults are Anthropic's own.

    ``auth`` is the header that carries the key, ``version`` the ``anthropic-version`` (None sends none), ``betas``
    go into ``anthropic-beta`` with every request. ``cache_ttl`` says whether a mark may ask for a time to live,
    ``tool_references`` whether results may refer to deferred tools, ``adaptive`` whether the model thinks by effort
    instead of by budget (None: its name tells). ``max_tokens`` is the output limit where none is asked for, since the
    format wants one.
    """

    auth: Literal["x-api-key", "bearer"] = "x-api-key"
    version: str | None = "2023-06-01"
    betas: tuple[str, ...] = ()
    cache_ttl: bool = True
    tool_references: bool = True
    adaptive: bool | None = None
    max_tokens: int = 32_000
