"""How many tokens models take, input and output together, as far as that is known.

The package ``genai-prices`` knows most models (``pip install 'unspool[prices]'``); nothing is fetched. Without it, and
for what it does not know, there are the most used families of models that only their vendors serve. What a server of
one's own takes, only its owner knows: ``model(…, context_window=32_768)``.

Read with: ``http_model.py`` (the caller), ``prices.py``, ``unspool.kernel.ports`` (``HasWindow``).
"""

import importlib
import re
from functools import cache
from typing import Any, Final

from .prices import PROVIDER_IDS

# As genai-prices 0.2.3 has them, and Google and OpenAI (gpt-4.1) say more exactly; November 2026. The first that a name
# begins with holds. Of a family whose windows differ it is the smallest.
_FAMILIES: Final = tuple(
    (re.compile(pattern), window)
    for pattern, window in (
        (r"claude-[a-z]+-(4[-.][6-9](?!\d)|[5-9](?!\d))", 1_000_000),
        (r"claude-", 200_000),
        (r"gpt-4\.1", 1_047_576),
        (r"gpt-4o|gpt-4-turbo|chatgpt-4o", 128_000),
        (r"gpt-5(\.\d)?-chat|gpt-5\.3(?!-codex)", 128_000),
        (r"gpt-5\.[4-9](?!-mini|-nano)|gpt-6", 1_000_000),
        (r"gpt-5", 400_000),
        (r"o1-mini|o1-preview", 128_000),
        (r"o[134](-|$)", 200_000),
        (r"gemini-(1\.5|[2-4])", 1_048_576),
        (r"grok-4(-\d)?-fast", 2_000_000),
        (r"grok-4", 256_000),
        (r"grok-3", 131_072),
    )
)


def known_window(name: str) -> int:
    """The window of ``provider/model`` in tokens; 0 where it is not known.

    The first time this is asked for, the package is loaded where it is installed: a third of a second.
    """
    provider, _, model = name.partition("/")
    return _listed_window(PROVIDER_IDS.get(provider, provider), model) or _window_of_family(model)


@cache
def _library() -> tuple[Any, frozenset[str]] | None:
    """The package, and the ids of the providers that it knows; None where it is not installed."""
    try:
        library: Any = importlib.import_module("genai_prices")
    except ImportError:
        return None
    return library, frozenset(each.id for each in library.data_snapshot.get_snapshot().providers)


def _listed_window(provider: str, model: str) -> int:
    """What the library says. As with prices, a provider that it does not know is not taken for another."""
    loaded = _library()
    if loaded is None or provider not in loaded[1]:
        return 0
    library = loaded[0]
    try:
        found = library.calc_price(library.Usage(input_tokens=1), model, provider_id=provider)
    except (LookupError, ValueError):
        return 0
    window = found.model.context_window
    return window if isinstance(window, int) else 0


def _window_of_family(model: str) -> int:
    """By the beginning of a name, without what gateways put before it (``anthropic/``, ``models/``)."""
    bare = model.rpartition("/")[2].lower()
    return next((window for pattern, window in _FAMILIES if pattern.match(bare)), 0)
