"""The managers that are ready to use keep to the protocol and to the rules, on both event loops."""

from collections.abc import Callable

import pytest

from unspool.context import Engine, SummaryCheckpoint, default, keep_tokens, keep_turns, none
from unspool.kernel.conformance_context import check_context

pytestmark = pytest.mark.anyio

MANAGERS: dict[str, Callable[[], Engine]] = {
    "default": lambda: default(window=8_000, counter="estimate"),
    "default, tight": lambda: default(window=2_000, counter="estimate"),
    "default, shared prefix": lambda: default(
        window=8_000, counter="estimate", summary=SummaryCheckpoint(share_prefix=True)
    ),
    "keep_turns": lambda: keep_turns(5, counter="estimate"),
    "keep_turns, one": lambda: keep_turns(1, counter="estimate"),
    "keep_tokens": lambda: keep_tokens(2_000, counter="estimate"),
    "none": lambda: none(counter="estimate"),
}


@pytest.mark.parametrize("name", MANAGERS)
async def test_they_pass_the_conformance_kit(name: str) -> None:
    await check_context(MANAGERS[name])
