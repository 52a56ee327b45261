"""What the providers' SDKs take for the same bytes, in their own environment and process.

    <venv>/bin/python benchmarks/llm_sdk.py EVENTS

Writes the names of the formats that it can read, then for each line ``format kind`` the CPU seconds of one lap.
The SDKs read through their own streams, over a transport in memory that gives an event at a time.
"""

import gc
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from llm_bodies import Body, bodies

Open = Callable[[Body], Any]


def openai_streams() -> dict[str, Open]:
    openai: Any = importlib.import_module("openai")
    streaming: Any = importlib.import_module("openai._streaming")
    client = openai.OpenAI(api_key="k", base_url="http://x/v1", http_client=_client(streaming))
    chat, responses = client.chat.completions, client.responses
    return {
        "openai-chat": lambda body: _given(body, lambda: chat.create(model="m", messages=[], stream=True)),
        "openai-responses": lambda body: _given(
            body, lambda: responses.create(model="m", input="x", stream=True)
        ),
    }


def anthropic_streams() -> dict[str, Open]:
    anthropic: Any = importlib.import_module("anthropic")
    streaming: Any = importlib.import_module("anthropic._streaming")
    client = anthropic.Anthropic(api_key="k", base_url="http://x", http_client=_client(streaming))
    ask = client.messages.create
    return {
        "anthropic-messages": lambda body: _given(
            body,
            lambda: ask(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}], stream=True),
        )
    }


def google_streams() -> dict[str, Open]:
    import httpx  # noqa: PLC0415
    from google import genai  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415

    options = genai.types.HttpOptions(base_url="http://x", httpx_client=_client_of(httpx))
    client = genai.Client(api_key="k", http_options=options)
    ask = client.models.generate_content_stream
    return {"gemini": lambda body: _given(body, lambda: ask(model="m", contents="x"))}


_body: Body = []  # what the next request is answered with


def _given(body: Body, open: Callable[[], Any]) -> Any:
    _body[:] = body
    return open()


def _client(streaming: Any) -> Any:
    """A client of the HTTP library that the SDK was written for."""
    return _client_of(getattr(streaming, "httpx2", None) or streaming.httpx)


def _client_of(httpx: Any) -> Any:
    class Pieces(httpx.SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            return iter(list(_body))

    def answer(request: Any) -> Any:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces())

    return httpx.Client(transport=httpx.MockTransport(answer))


def lap(open: Open, body: Body) -> float:
    gc.collect()
    start = time.process_time()
    given = sum(1 for _ in open(body))
    assert given >= len(body) * 0.9, (given, len(body))
    return time.process_time() - start


def main() -> None:
    events = int(sys.argv[1])
    streams: dict[str, Open] = {}
    for some in (openai_streams, anthropic_streams, google_streams):
        try:
            streams |= some()
        except ImportError:
            continue
    material = {format: bodies(format, events) for format in streams}
    print(json.dumps(list(streams)), flush=True)
    for line in sys.stdin:
        format, kind = line.split()
        print(lap(streams[format], material[format][kind]), flush=True)


if __name__ == "__main__":
    main()
