"""The laws Fold, Lock-step, Closure, Valid transcript and Rebuild over random runs."""

import anyio
import pytest
from drawing import scenarios
from hypothesis import given, settings
from scenarios import Scenario, play


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=200, deadline=None)
@given(scenario=scenarios())
def test_laws_hold_in_every_run(backend: str, scenario: Scenario) -> None:
    anyio.run(play, scenario, backend=backend)
