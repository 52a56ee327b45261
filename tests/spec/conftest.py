"""Every test of the specification runs on both backends."""

import pytest
from play import Player


@pytest.fixture(params=["asyncio", "trio"])
def play(request: pytest.FixtureRequest) -> Player:
    """Plays a script on one backend."""
    return Player(request.param)
