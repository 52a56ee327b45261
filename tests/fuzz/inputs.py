"""One fuzzing input as bytes, and the check that it is for.

The first byte chooses the check, the second how the body is cut, the rest is the body.
"""

import gzip
import random
import zlib
from collections.abc import Callable
from typing import Final

from . import seeds
from .checks import check_answer, check_arguments, check_fault, check_inflate, check_retry_after, check_sse
from .formats import decoders
from .mutate import mutated

_STATUSES: Final = (400, 401, 403, 404, 413, 429, 500, 503, 529)
_CUTS: Final = 8


def _places(body: bytes, seed: int) -> list[int]:
    """Where to cut: everywhere for some seeds, at a few places for the others."""
    if seed % 4 == 0 and len(body) < 20_000:
        return list(range(len(body)))
    rng = random.Random(seed)
    return [rng.randrange(len(body) + 1) for _ in range(_CUTS)]


def _fault(body: bytes, seed: int) -> None:
    value = body[:40].decode("latin-1")
    check_fault(_STATUSES[seed % len(_STATUSES)], {"retry-after": value, "retry-after-ms": value}, body)


def _delay(body: bytes, seed: int) -> None:
    check_retry_after(body.decode("utf-8" if seed % 2 else "latin-1", "replace"))


CHECKS: Final[dict[str, Callable[[bytes, int], None]]] = {
    "sse": lambda body, seed: check_sse(body, _places(body, seed)),
    "fault": _fault,
    "retry-after": _delay,
    "arguments": lambda body, seed: check_arguments(
        body.decode("utf-8", "surrogateescape" if seed % 2 else "replace")
    ),
    "inflate": lambda body, seed: check_inflate(("gzip", "deflate")[seed % 2], body, _places(body, seed)),
    **{
        format: lambda body, seed, decoder=decoder: check_answer(decoder, body, _places(body, seed))  # type: ignore[misc]
        for format, decoder in decoders().items()
    },
}
SEEDS: Final[dict[str, list[bytes]]] = {
    "sse": [seeds.STREAM, *seeds.ANSWERS["openai-chat"]],
    "fault": seeds.REFUSALS,
    "retry-after": seeds.DELAYS,
    "arguments": seeds.ARGUMENTS,
    "inflate": [pack(seeds.STREAM * 20) for pack in (gzip.compress, zlib.compress)],
    **{format: seeds.ANSWERS[format] for format in decoders()},
}
_NAMES: Final = list(CHECKS)


def pack(name: str, body: bytes, seed: int = 0) -> bytes:
    return bytes([_NAMES.index(name), seed]) + body


def name_of(data: bytes) -> str:
    return _NAMES[data[0] % len(_NAMES)] if data else _NAMES[0]


def run(data: bytes) -> None:
    """Check one input."""
    CHECKS[name_of(data)](data[2:], data[1] if len(data) > 1 else 0)


def all_seeds() -> list[bytes]:
    return [pack(name, body, seed) for name, bodies in SEEDS.items() for body in bodies for seed in (0, 1)]


def changed(data: bytes, rng: random.Random) -> bytes:
    """Another input for the same check."""
    name = name_of(data)
    return pack(name, mutated(data[2:], rng, SEEDS[name]), rng.randrange(256))
