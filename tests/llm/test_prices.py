"""What calls cost: whom the price is asked of, and the kept price list where it is installed."""

import importlib.util
import subprocess
import sys
from typing import Any

import anyio
import pytest

from unspool.kernel.messages import Cost, Usage, user_message
from unspool.kernel.ports import CallOptions, ModelRequest, SystemBlock
from unspool.kernel.reply import generate
from unspool.llm import OpenAIChatModel
from unspool.llm.openai_chat_usage import usage_of
from unspool.llm.prices import Price, cache_ttl, kept_prices, price_of

from .loopback import Loopback, answer  # tests/llm/, which ruff takes for llm/

USAGE = Usage(input_tokens=10, output_tokens=2)
REQUEST = ModelRequest(messages=(user_message("hi"),))


def listed(**dollars: float) -> Price:
    """A price for each model that is listed; ``__`` stands for the slash."""
    prices = {name.replace("__", "/"): Cost(output=each) for name, each in dollars.items()}
    return lambda name, usage, ttl: prices.get(name)


ASKED: dict[str, tuple[str, str, Usage, Price, float | None]] = {
    "the model that answered": ("p/alias", "m2", USAGE, listed(p__m2=2.0, p__alias=1.0), 2.0),
    "else the one that was asked": ("p/m", "m-2026-01-01", USAGE, listed(p__m=1.0), 1.0),
    "one that answers without a name": ("p/m", "", USAGE, listed(p__m=1.0), 1.0),
    "one that nobody knows": ("p/m", "m", USAGE, listed(), None),
    "what the server says wins": (
        "p/m",
        "m",
        Usage(output_tokens=1, cost=Cost(output=9.0)),
        listed(p__m=1.0),
        9.0,
    ),
    "a call of which no tokens are known": ("p/m", "m", Usage(), listed(p__m=1.0), None),
}


@pytest.mark.parametrize("name", ASKED)
def test_whose_price(name: str) -> None:
    model, answered, usage, price, dollars = ASKED[name]
    cost = price_of(price, model, answered, usage, REQUEST)
    assert (cost.total if cost else None) == dollars


def request(last: str | None, *system: str | None) -> ModelRequest:
    blocks = tuple(SystemBlock(text="x", cache=cache) for cache in system)
    return ModelRequest(messages=(), system=blocks, options=CallOptions(cache_last=last))


TTLS: dict[str, tuple[ModelRequest, str]] = {
    "no marks": (request(None), ""),
    "one": (request("1h", None), "1h"),
    "alike": (request("1h", "1h"), "1h"),
    "different": (request("5m", "1h"), ""),
    "the provider's own": (request(""), ""),
}


@pytest.mark.parametrize("name", TTLS)
def test_how_long_a_cache_is_kept(name: str) -> None:
    asked, ttl = TTLS[name]
    assert cache_ttl(asked) == ttl


TOLD: dict[str, tuple[dict[str, Any], Cost | None]] = {
    "nothing": ({}, None),
    "a sum": ({"cost": 0.5}, Cost(output=0.5)),
    "nothing to pay": ({"cost": 0}, Cost()),
    "a sum and its parts": (
        {"cost": 0.5, "cost_details": {"upstream_inference_prompt_cost": 0.25}},
        Cost(input=0.25, output=0.25),
    ),
    "a key of one's own behind a gateway": (
        {"cost": 0.5, "is_byok": True, "cost_details": {"upstream_inference_cost": 1.5}},
        Cost(output=2.0),
    ),
    "an object": (
        {"cost": {"total_cost": 0.75, "input_tokens_cost": 0.25, "request_cost": 0.25}},
        Cost(input=0.25, output=0.5),
    ),
    "ticks": ({"cost_in_usd_ticks": 25_000_000_000}, Cost(output=2.5)),
    "no number": ({"cost": "0.5"}, None),
    "less than nothing": ({"cost": -1}, None),
    "no parts of it": (
        {"cost": 0.5, "cost_details": {"upstream_inference_prompt_cost": 9}},
        Cost(output=0.5),
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_what_servers_say(name: str) -> None:
    fields, cost = TOLD[name]
    assert usage_of(fields).cost == cost


def test_a_model_with_a_price_tells_what_its_replies_cost(server: Loopback) -> None:
    body = b'{"model":"m","choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],"usage":{"total_tokens":9}}'
    server.script(answer(200, body))
    server.script(answer(200, body))

    async def cost(price: Price | None) -> Cost | None:
        model = OpenAIChatModel("p/m", base_url=server.url, price=price)
        usage = (await generate(model, REQUEST)).usage
        return usage.cost if usage else None

    async def main() -> None:
        assert await cost(None) is None
        assert await cost(listed(p__m=1.5)) == Cost(output=1.5)

    anyio.run(main)


# --- the kept list: how it is asked, and what it says where it is installed --------------------------


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(ImportError, match=r"pip install 'unspool\[prices\]'"):
        kept_prices()


def test_importing_loads_no_price_list() -> None:
    code = "import sys, unspool.llm.prices; print('genai_prices' in sys.modules)"
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


KEPT = pytest.mark.skipif(
    importlib.util.find_spec("genai_prices") is None, reason="genai-prices is not installed"
)
M = 1_000_000
# Dollars of models whose prices no longer change, as their providers published them.
BILLS: dict[str, tuple[str, Usage, str, Cost | None]] = {
    "input and output": (
        "anthropic/claude-3-opus-20240229",
        Usage(input_tokens=M, output_tokens=M),
        "",
        Cost(input=15, output=75),
    ),
    "cached": (
        "anthropic/claude-3-opus-20240229",
        Usage(input_tokens=M, cache_read_tokens=M, cache_write_tokens=M),
        "5m",
        Cost(input=15, cache_read=1.5, cache_write=18.75),
    ),
    "cached for an hour": (
        "anthropic/claude-3-opus-20240229",
        Usage(cache_write_tokens=M),
        "1h",
        Cost(cache_write=30),
    ),
    "reasoning is output": (
        "openai/o1-2024-12-17",
        Usage(output_tokens=M, reasoning_tokens=M),
        "",
        Cost(output=60),
    ),
    "a prompt of up to 200k": ("gemini/gemini-1.5-pro", Usage(input_tokens=100_000), "", Cost(input=0.125)),
    "a long prompt costs more": ("gemini/gemini-1.5-pro", Usage(input_tokens=200_000), "", Cost(input=0.5)),
    "a format that is no provider": (
        "openai-responses/gpt-4o-2024-08-06",
        Usage(input_tokens=M, cache_read_tokens=M),
        "",
        Cost(input=2.5, cache_read=1.25),
    ),
    "a model nobody knows": ("openai/no-such-model", Usage(input_tokens=M), "", None),
    "a server of one's own": ("mine/gpt-4o", Usage(input_tokens=M), "", None),
    "a server of one's own with a known name in its own": (
        "my-openai/gpt-4o",
        Usage(input_tokens=M),
        "",
        None,
    ),
    "any server": ("openai-compat/o3", Usage(input_tokens=M), "", None),
}


@KEPT
@pytest.mark.parametrize("name", BILLS)
def test_kept_prices(name: str) -> None:
    model, usage, ttl, cost = BILLS[name]
    found = kept_prices()(model, usage, ttl)
    assert (found is None) == (cost is None)
    for part in ("input", "output", "cache_read", "cache_write"):
        assert found is None or getattr(found, part) == pytest.approx(getattr(cost, part), abs=1e-9)
