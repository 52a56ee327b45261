"""Recorded answers: what each comes to, against what is expected of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unspool.kernel.errors import PartialStreamError
from unspool.kernel.messages import Message, Opaque, Thinking, ToolCall, Usage
from unspool.llm.decoder import AnswerDecoder

from .exceptions import END_TWICE, INSTEAD
from .exchange import Exchange, Outcome, beginnings, cuts, decode, exchanges
from .formats import decoder_class
from .meaning import error_classes, retry_after_s, row_of, stop_reasons, usage_row
from .report import Result, differs, guarded

_MESSAGE_CHARS = 100  # of a provider's message that must be in the error


def run(root: Path, *, only: str = "", format: str = "", max_bytes: int | None = None) -> Iterator[Result]:
    """The result of each exchange below ``root``.

    ``only`` is an id, ``format`` a format. A body of more than ``max_bytes`` is not read byte by byte.
    """
    for exchange in exchanges(root):
        if (only and exchange.id != only) or (format and exchange.format != format):
            continue
        decoder = decoder_class(exchange.format)
        if decoder is None:
            yield Result(exchange.id, skipped=f"{exchange.format} is not built")
        else:
            yield Result(exchange.id, guarded(differences(exchange, decoder, max_bytes)))


def differences(exchange: Exchange, decoder: type[AnswerDecoder], max_bytes: int | None) -> Iterator[str]:
    """A line for everything that is not as expected."""
    whole = decode(decoder, [exchange.body], exchange.status, exchange.headers)
    yield from compare(exchange, whole)
    for name, chunks in cuts(exchange.body, exchange.id).items():
        if max_bytes is not None and len(chunks) > max_bytes:
            continue
        outcome = decode(decoder, chunks, exchange.status, exchange.headers)
        if outcome != whole:
            yield from differs(name, whole, outcome)
    if exchange.status < 300 and exchange.id not in END_TWICE:
        yield from _compare_beginnings(exchange, decoder, whole)


def _compare_beginnings(exchange: Exchange, decoder: type[AnswerDecoder], whole: Outcome) -> Iterator[str]:
    """An answer that was cut is an error, unless all that it says had come, and its end with it."""
    for body in beginnings(exchange.body, exchange.id):
        outcome = decode(decoder, [body])
        if outcome.error is None and not _says_all(outcome.reply, whole):
            yield f"cut after {len(body)} of {len(exchange.body)} bytes: is a success with less in it"


def _says_all(reply: Message, whole: Outcome) -> bool:
    if whole.error is None:
        return reply.content == whole.reply.content
    ours, theirs = (
        reply,
        whole.reply,
    )  # an error after the end: what decoders add to a complete reply is missing
    return (ours.text, ours.thinking, ours.tool_calls) == (theirs.text, theirs.thinking, theirs.tool_calls)


def compare(exchange: Exchange, outcome: Outcome) -> Iterator[str]:
    """The differences of an outcome to what is expected."""
    expected = {**exchange.expected, **INSTEAD.get(exchange.id, {})}
    reply, error, classes = outcome.reply, outcome.error, error_classes(exchange)
    got = None if error is None else type(error)
    if got not in classes:
        yield from differs("error", " or ".join(map(_name, classes)), f"{_name(got)} {error or ''}".strip())
    yield from differs("text", expected["text"], reply.text)
    yield from differs("thinking", expected["thinking"], thinking_of(reply, exchange.format))
    if isinstance(error, PartialStreamError):
        yield from differs("text of the error", expected["text"], error.text)
    if error is not None:
        yield from _compare_error(exchange, error)
        return
    wanted = stop_reasons(exchange)
    if reply.stop_reason not in wanted:
        yield from differs("stop_reason", " or ".join(sorted(wanted)), reply.stop_reason)
    yield from _compare_calls(expected["tool_calls"], reply.tool_calls, reply.stop_reason)
    usage = row_of(reply.usage or Usage())
    yield from differs("usage", usage_row(exchange.format, expected["usage"]), usage)
    extra = expected.get("extra") or {}
    if "refusal" in extra and exchange.format == "openai-chat":
        yield from differs("refusal", extra["refusal"], reply.metadata.get("refusal"))
    yield from _compare_server_items(extra.get("server_items") or [], reply)


def thinking_of(reply: Message, format: str) -> str:
    """The thinking as ``expected`` has it: with a blank line between the items of a Responses answer."""
    texts = [block.text for block in reply.content if isinstance(block, Thinking) and block.text]
    return ("\n\n" if format == "openai-responses" else "").join(texts)


def _compare_error(exchange: Exchange, error: Any) -> Iterator[str]:
    delay = retry_after_s(exchange)
    if delay is not None or not any(
        "ratelimit" in name for name in exchange.headers
    ):  # they name times gone by
        yield from differs("retry_after_s", delay, error.retry_after_s)
    said = (exchange.expected["error"] or {}).get("message", "")
    made_up = said.startswith(("<html>", "HTTP 200"))  # what the SDK says where the server said nothing
    if not made_up and said[:_MESSAGE_CHARS] not in str(error.args[0]):
        yield from differs("message", said, str(error))


def _compare_calls(
    wanted: list[dict[str, Any]], got: tuple[ToolCall, ...], stop: str | None
) -> Iterator[str]:
    yield from differs("number of calls", len(wanted), len(got))
    ids = [call["id"] for call in wanted]
    for number, (want, call) in enumerate(zip(wanted, got, strict=False)):
        name = f"call {number}"
        yield from differs(f"{name}, name", want["name"], call.name)
        yield from differs(f"{name}, arguments", arguments_of(want), given_arguments(call))
        if want["id"] and ids.count(want["id"]) == 1:
            yield from differs(f"{name}, id", want["id"], call.id)
        elif not call.id:
            yield f"{name}, id: there is none"
    if len({call.id for call in got}) < len(got):
        yield f"ids of calls: are not unique: {[call.id for call in got]}"
    if stop == "length" and got and got[-1].completed:
        yield "last call: is completed though the answer was cut"
    if stop == "tool_use" and not all(call.completed for call in got):
        yield "calls: not all are completed"


def arguments_of(want: dict[str, Any]) -> Any:
    """Expected arguments: what they are, or the text of those that do not parse."""
    arguments = want["arguments"]
    return arguments if arguments is not None else want.get("arguments_raw") or {}


def given_arguments(call: ToolCall) -> Any:
    """Arguments as they came, in the same form."""
    return call.args_text if call.args_invalid else call.args


def _compare_server_items(wanted: list[str], reply: Message) -> Iterator[str]:
    """What servers' own tools did must be kept, each as a block of its own."""
    got = [_kind(block.data) for block in reply.content if isinstance(block, Opaque)]
    for item in sorted(set(wanted)):
        if sum(item in kinds for kinds in got) < wanted.count(item):
            yield from differs("server items", wanted, [sorted(kinds) for kinds in got])
            return


def _kind(data: Any) -> set[str]:
    """What an item may be called: its type, its type and name, or its keys where it has no type."""
    if not isinstance(data, dict):
        return set()
    kind = data.get("type")
    return {kind, f"{kind}:{data.get('name')}"} if isinstance(kind, str) else set(data)


def _name(cls: type | None) -> str:
    return "no error" if cls is None else cls.__name__
