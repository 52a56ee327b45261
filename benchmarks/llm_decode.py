"""From the bytes of a stream to events: ours, bare, and the provider's SDK."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
from laps import Job, lap
from llm_bodies import Body, bodies
from llm_formats import Format, formats

from unspool.kernel.ports import StreamEvent

Rows = dict[str, dict[str, float]]
_HERE = Path(__file__).parent
_SDK_LAPS = 3  # they take long, and the ratio is large
_BURST = 16 * 1024  # bytes of a piece when the client lags behind the server


class Pieces(httpx.AsyncByteStream):
    """A body that is there already, in pieces."""

    def __init__(self, body: Body) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._body:
            yield piece


async def ours(client: httpx.AsyncClient, format: Format) -> AsyncIterator[StreamEvent]:
    """Our events, ``StreamEnd`` last."""
    decoder = format.decoder()
    async with client.stream("POST", "http://x/") as response:
        async for piece in response.aiter_raw():
            for event in decoder.feed(piece):
                yield event
    for event in decoder.close():
        yield event


async def bare(client: httpx.AsyncClient, format: Format) -> AsyncIterator[object]:
    """Split at blank lines, decode, and give what is new."""
    decode, said, rest = format.bare, format.said, b""
    async with client.stream("POST", "http://x/") as response:
        async for piece in response.aiter_raw():
            *events, rest = (rest + piece).split(b"\n\n")
            for event in events:
                data = event[6:] if event.startswith(b"data: ") else event.partition(b"data: ")[2]
                if data != b"[DONE]" and (new := said(decode(data))):
                    yield new


async def count(source: AsyncIterator[object]) -> int:
    """What both are for: somebody takes one thing after another."""
    number = 0
    async for _ in source:
        number += 1
    return number


class Sdk:
    """The SDKs in their own process; ``formats`` are those they can read, ``reason`` why there are none."""

    def __init__(self, python: Path, events: int) -> None:
        self.formats: list[str] = []
        self.reason = f"no SDKs: there is no {python}"
        self._child: subprocess.Popen[str] | None = None
        if python.exists():
            command = [str(python), str(_HERE / "llm_sdk.py"), str(events)]
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.formats = json.loads(self._line())
            self.reason = f"its SDK is not installed in {python.parents[1]}"

    def lap(self, format: str, kind: str) -> float:
        """CPU seconds for reading a stream once."""
        assert self._child is not None and self._child.stdin is not None
        print(format, kind, file=self._child.stdin, flush=True)
        return float(self._line())

    def close(self) -> None:
        if self._child is not None:
            self._child.communicate()

    def _line(self) -> str:
        assert self._child is not None and self._child.stdout is not None
        return self._child.stdout.readline()


def decoding(laps: int, events: int, python: Path) -> tuple[Rows, dict[str, str]]:
    """µs for an event of each stream, and why rows have no SDK; an event to a piece, and in bursts."""
    rows: Rows = {}
    skipped: dict[str, str] = {}
    sdk = Sdk(python, events)
    try:
        for name, format in formats().items():
            if name not in sdk.formats:
                skipped[name] = sdk.reason
            for kind, body in bodies(name, events).items():
                peer = (lambda name=name, kind=kind: sdk.lap(name, kind)) if name in sdk.formats else None
                rows[f"{name}, {kind}, µs"] = _row(format, body, len(body), laps, peer)
                rows[f"{name}, {kind}, in bursts, µs"] = _row(format, _bursts(body), len(body), laps, None)
    finally:
        sdk.close()
    return rows, skipped


def _bursts(body: Body) -> Body:
    whole = b"".join(body)
    return [whole[at : at + _BURST] for at in range(0, len(whole), _BURST)]


def _row(
    format: Format, body: Body, events: int, laps: int, sdk: Callable[[], float] | None
) -> dict[str, float]:
    client = httpx.AsyncClient(
        transport=httpx.MockTransport(lambda _: httpx.Response(200, stream=Pieces(body)))
    )
    jobs: dict[str, Job] = {
        "ours": lambda: count(ours(client, format)),
        "bare": lambda: count(bare(client, format)),
    }
    given = {name: asyncio.run(job()) for name, job in jobs.items()}  # also warms up
    if not given["ours"] >= given["bare"] >= events * 0.8:
        raise SystemExit(f"of {events} events came {given}")
    found: dict[str, float] = dict.fromkeys([*jobs, *(["sdk"] if sdk else [])], float("inf"))
    for number in range(laps):
        for key, job in jobs.items():
            found[key] = min(found[key], lap(job))
        if sdk and number < _SDK_LAPS:
            found["sdk"] = min(found["sdk"], sdk())
    return {key: value * 1e6 / events for key, value in found.items()}
