"""A server that answers with canned bodies, in a process of its own so that its CPU is not counted.

    python benchmarks/llm_server.py TURNS

Writes its port. ``TURNS`` answers are a tool call, the next is text, then it starts again. ``GET`` gives the
SHA-256 of all bodies since the last one. Ends when its standard input does.
"""

import asyncio
import hashlib
import json
import sys
from typing import Any

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _event(delta: Any, finish: str | None = None, **more: Any) -> bytes:
    choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    value = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**value, "choices": choices, **more}).encode() + b"\n\n"


def _chunked(events: list[bytes]) -> bytes:
    done = [*events, _event({}, usage={"prompt_tokens": 9, "completion_tokens": 9}), b"data: [DONE]\n\n"]
    return _HEAD + b"".join([b"%x\r\n%s\r\n" % (len(event), event) for event in done]) + b"0\r\n\r\n"


def call(number: int) -> bytes:
    """An answer that says something and asks for a tool."""
    start = {"index": 0, "id": f"call_{number:08}", "type": "function"}
    pieces = [{"index": 0, "function": {"arguments": piece}} for piece in ('{"x', '":', "1}")]
    return _chunked(
        [
            _event({"role": "assistant", "content": ""}),
            *[_event({"content": word}) for word in ("I", " will", " look", " at", " it", ".")],
            _event({"tool_calls": [{**start, "function": {"name": "noop", "arguments": ""}}]}),
            *[_event({"tool_calls": [piece]}) for piece in pieces],
            _event({}, "tool_calls"),
        ]
    )


DONE = _chunked([_event({"role": "assistant", "content": "done"}), _event({}, "stop")])


class Answers:
    """What comes next, and what was asked."""

    def __init__(self, turns: int) -> None:
        self._bodies = [*[call(number) for number in range(turns)], DONE]
        self._next = 0
        self._seen = hashlib.sha256()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                writer.write(self._answer(await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _answer(self, body: bytes) -> bytes:
        if not body:
            digest, self._seen = self._seen.hexdigest().encode(), hashlib.sha256()
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(digest), digest)
        self._seen.update(body)
        answer = self._bodies[self._next]
        self._next = (self._next + 1) % len(self._bodies)
        return answer


async def main() -> None:
    server = await asyncio.start_server(Answers(int(sys.argv[1])).serve, "127.0.0.1", 0, limit=1 << 24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
