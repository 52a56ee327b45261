"""Fixtures of the model tests."""

from collections.abc import Iterator

import pytest

from .loopback import Loopback  # tests/llm/, which ruff takes for llm/


@pytest.fixture
def server() -> Iterator[Loopback]:
    loopback = Loopback()
    yield loopback
    loopback.close()
