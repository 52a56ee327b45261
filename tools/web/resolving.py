"""Looking up the addresses of a host name."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import anyio

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host name, for a port; raises ``OSError`` where there are none."""


async def resolve(host: str, port: int) -> list[str]:
    """The addresses that the system gives for a name."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]
