"""Fixtures of the command's tests."""

from collections.abc import Iterator

import pytest

from .driving import ChatServer  # noqa: TID251  # tests/cli/, not cli/


@pytest.fixture
def server() -> Iterator[ChatServer]:
    chat_server = ChatServer()
    yield chat_server
    chat_server.shutdown()
    chat_server.server_close()
