"""Our models beside the providers' official clients: both read the same streams from a server on this machine.

``python -m tests.conformance.sdk DIR``; ``docs/conformance.md`` says what it needs.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from unspool.kernel import ModelRequest, generate, user_message
from unspool.kernel.errors import ModelError
from unspool.kernel.messages import Usage
from unspool.kernel.ports import ChatModel

from .corpus import given_arguments
from .exchange import Exchange, exchanges
from .formats import FORMATS, model_of
from .meaning import BROKEN, row_of
from .replay import Answer, ReplayServer
from .report import differs
from .sdk_clients import Summary, sdk_summary


def main(argv: list[str] | None = None) -> int:
    """Compare all streams of a folder; the exit status is 1 where an answer differs that should not."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.sdk", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--format", default="", choices=FORMATS)
    parser.add_argument("--only", default="", metavar="ID")
    args = parser.parse_args(argv)
    agree = known = differ = 0
    with ReplayServer() as server:
        for exchange in exchanges(args.folder):
            wanted = (args.only or exchange.id) == exchange.id and (
                args.format or exchange.format
            ) == exchange.format
            if not (wanted and exchange.stream and exchange.status < 300 and exchange.format in FORMATS):
                continue
            model = model_of(exchange.format, server.url)
            if model is None:
                continue
            server.answers = [Answer(exchange.body, exchange.status)]
            lines = list(_compare(exchange, model, server.url))
            if not lines:
                agree += 1
                continue
            fault = is_known(exchange)
            known, differ = known + fault, differ + (not fault)
            for line in lines:
                print(f"{'known' if fault else 'DIFFER'} {exchange.id}: {line}", flush=True)
    print(f"{agree} agree, {known} known SDK faults, {differ} differ")
    return 1 if differ else 0


def is_known(exchange: Exchange) -> bool:
    """Whether the folder itself says that the SDK comes to something else, or takes a cut for an end."""
    expected = exchange.expected
    helper = expected.get("sdk_stream_helper_agrees", True)
    return helper is False or bool(exchange.notes) or bool(expected.get("truncated"))


def _compare(exchange: Exchange, model: ChatModel, url: str) -> Iterator[str]:
    ours, error = our_summary(model)
    try:
        theirs = sdk_summary(exchange.format, url)
    except Exception as raised:  # noqa: BLE001 (clients raise what they like, also AssertionError)
        theirs, error = Summary(error=True), error or f"{type(raised).__name__}: {raised}"[:200]
    if ours.error and theirs.stop == BROKEN:
        return
    if ours.error or theirs.error:
        if ours.error != theirs.error:
            yield f"{'ours' if ours.error else 'theirs'} raised {error}"
        return
    for name in ("text", "calls", "stop", "usage"):
        yield from differs(f"{name} (theirs, ours)", getattr(theirs, name), getattr(ours, name))


def our_summary(model: ChatModel) -> tuple[Summary, str]:
    """What our model comes to, and the error it raised."""
    request = ModelRequest(messages=[user_message("go")])
    try:
        reply = asyncio.run(generate(model, request))
    except ModelError as error:
        return Summary(error=True), str(error)[:200]
    calls = [(call.name, given_arguments(call)) for call in reply.tool_calls]
    return Summary(reply.text, calls, reply.stop_reason, row_of(reply.usage or Usage())), ""


if __name__ == "__main__":
    sys.exit(main())
