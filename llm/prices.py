"""What a call of a model costs, by a price list that is kept by others.

``kept_prices`` gives the prices of the package ``genai-prices`` (``pip install 'unspool[prices]'``): cached input,
cache writes for five minutes and an hour, and prices that go up with the prompt's length are as it has them. The
prices are those of the installed version; nothing is fetched. What is not in the list costs None, which is not 0.

A function of one's own does as well, for a server of one's own or a contract.

Read with: ``http_model.py`` (the caller), ``unspool.kernel.messages`` (``Usage``, ``Cost``), ``Limits.cost``.
"""

import importlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from unspool.kernel.messages import Cost, Usage
from unspool.kernel.ports import ModelRequest

Price: TypeAlias = Callable[[str, Usage, str], Cost | None]
"""What ``provider/model`` charges for a usage, in US dollars, or None where that is not known.

The last argument says for how long what was written to the cache is kept (``1h``), as far as the request says.
"""

PROVIDER_IDS: Final = {  # in the list, where it is not ours
    "openai-responses": "openai",
    "gemini": "google",
    "vertex": "google",
    "xai": "x-ai",
    "moonshot": "moonshotai",
}


def kept_prices() -> Price:
    """The prices of the installed ``genai-prices``. Loading it takes a third of a second: do it once, early.

    Raises:
        ImportError: the package is not installed.
    """
    try:
        library: Any = importlib.import_module("genai_prices")
    except ImportError:
        raise ImportError("prices: genai-prices is not installed: pip install 'unspool[prices]'") from None
    listed = (
        library.data_snapshot.get_snapshot().providers
    )  # loads them, now and not when the first reply ends
    known = frozenset(provider.id for provider in listed)

    def price(name: str, usage: Usage, ttl: str) -> Cost | None:
        provider, _, model = name.partition("/")
        provider = PROVIDER_IDS.get(provider, provider)
        # by its own id alone: the library would take a server of one's own for the vendor of its model
        return _kept_price(library, provider, model, usage, ttl) if provider in known else None

    return price


def price_of(price: Price, name: str, answered: str, usage: Usage, request: ModelRequest) -> Cost | None:
    """What a call cost: as its provider says, else by ``price``.

    ``answered`` is the model that the server says it was: an alias or a deployment may stand for another.
    """
    if usage.cost is not None or not usage.total_tokens:
        return usage.cost
    provider, ttl = name.partition("/")[0], cache_ttl(request)
    found = price(f"{provider}/{answered}", usage, ttl) if answered else None
    return found or price(name, usage, ttl)


def cache_ttl(request: ModelRequest) -> str:
    """How long the cached prefix of a request is kept; empty where it says nothing, or different things."""
    marks = {block.cache for block in request.system if block.cache is not None}
    if request.options.cache_last is not None:
        marks.add(request.options.cache_last)
    return marks.pop() if len(marks) == 1 else ""


def _kept_price(library: Any, provider: str, model: str, usage: Usage, ttl: str) -> Cost | None:
    """What the library says. It gives one sum for the prompt, so its parts are found by asking without them."""
    prompt, read, written = usage.context_tokens, usage.cache_read_tokens, usage.cache_write_tokens
    kept = {"cache_write_tokens": written, "cache_write_1h_tokens": written if ttl == "1h" else 0}
    output = {"output_tokens": usage.output_tokens, "output_reasoning_tokens": usage.reasoning_tokens}

    def ask(**tokens: int) -> Any:
        counts = {key: count for key, count in tokens.items() if count}
        return library.calc_price(
            library.Usage(input_tokens=prompt, **counts),
            model,
            provider_id=provider,
        )

    try:
        whole = ask(cache_read_tokens=read, **kept, **output)
        rates = whole.model_price
        if (prompt and rates.input_mtok is None) or (usage.output_tokens and rates.output_mtok is None):
            return None  # the library counts as nothing what it has no price for
        each = ask().input_price / prompt if prompt and (read or written) else 0  # of what is not cached
        unwritten = ask(cache_read_tokens=read).input_price if written else whole.input_price
    except (LookupError, ValueError):
        return None
    cached = unwritten - each * (prompt - read) if read else 0
    newly_cached = whole.input_price - unwritten + each * written if written else 0
    return Cost(
        input=float(whole.input_price - cached - newly_cached),
        output=float(whole.output_price),
        cache_read=float(cached),
        cache_write=float(newly_cached),
    )
