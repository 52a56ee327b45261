"""What a server says of usage is taken where it is a count or a sum of money, and nowhere else."""

import doctest
import json
from typing import Any

import pytest

from unspool.kernel.messages import Cost, Usage
from unspool.llm import anthropic_usage, gemini_usage, openai_chat_usage, openai_responses_usage, usage_fields

FORMATS = {
    "chat": (openai_chat_usage.usage_of, "prompt_tokens"),
    "Responses": (openai_responses_usage.usage_of, "input_tokens"),
    "Messages": (anthropic_usage.usage_of, "input_tokens"),
    "generateContent": (gemini_usage.usage_of, "promptTokenCount"),
}
MODULES = (anthropic_usage, gemini_usage, openai_chat_usage, openai_responses_usage, usage_fields)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_doctests(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("value", [None, "9", -1, 10**30, float("inf"), float("nan"), [], True])
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_no_count_counts_nothing(format: str, value: Any) -> None:
    read, key = FORMATS[format]
    assert read({key: value}) == Usage()


@pytest.mark.parametrize("format", ["chat", "Responses", "Messages"])
@pytest.mark.parametrize(
    ("said", "cost"),
    [
        ('{"cost": 0.5}', Cost(output=0.5)),
        ('{"cost": 0}', Cost()),
        ('{"cost_in_usd_ticks": 20000000000}', Cost(output=2.0)),
        ('{"cost": {"total_cost": 3, "input_tokens_cost": 1}}', Cost(input=1, output=2)),
        ('{"cost": 1, "is_byok": true, "cost_details": {"upstream_inference_cost": 2}}', Cost(output=3)),
        ('{"cost": "1"}', None),
        ('{"cost": -1}', None),
        ('{"cost": NaN}', None),
        ('{"cost": true}', None),
        ("{}", None),
    ],
)
def test_what_a_call_cost(format: str, said: str, cost: Cost | None) -> None:
    assert FORMATS[format][0](json.loads(said)).cost == cost
