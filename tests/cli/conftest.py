"""Fixtures of the command's tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .driving import ChatServer, environment  # tests/cli/, not cli/


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the in-process runner sees."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name not in environment():
            monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def server() -> Iterator[ChatServer]:
    chat_server = ChatServer()
    yield chat_server
    chat_server.leaving.set()
    chat_server.shutdown()
    chat_server.server_close()
