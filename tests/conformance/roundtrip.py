"""Recorded conversations, made requests of ours and sent again: what we would send, beside what was sent.

``python -m tests.conformance.roundtrip DIR``; ``docs/conformance.md`` says what DIR holds. Three things are compared:

- a recorded request, imported and sent by us, with that request;
- where the next request of a conversation was recorded too: our reading of the answer, sent back, with what its
  client sent back;
- every recorded answer, read by us and sent back, with what the server had said (``roundtrip_replies.py``).
"""

import argparse
import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from unspool.kernel.ports import ModelRequest
from unspool.llm.http_model import HttpModel

from .report import guarded
from .requests import body_of
from .roundtrip_classes import Body, Class, explained
from .roundtrip_replies import CLASSES, reply_of, said_and_sent

_FORMATS: Final = {
    "openai-chat": "roundtrip_chat",
    "openai-responses": "roundtrip_responses",
    "anthropic-messages": "roundtrip_anthropic",
    "gemini": "roundtrip_gemini",
}
_Pair: TypeAlias = tuple[Body, Body]
"""What was recorded, and ours."""


@dataclass(frozen=True)
class Recorded:
    """One exchange. ``body`` is None where only the answer was recorded; ``place`` is its conversation and its turn."""

    id: str
    format: str
    provider: str
    path: str
    body: Body | None
    stream: bool
    status: int
    answer: str
    place: tuple[str, int]


@dataclass(frozen=True)
class Verdict:
    """What became of a body: the classes that explain its differences, and those that nothing explains."""

    id: str
    classes: list[str]
    differences: list[str]

    @property
    def word(self) -> str:
        return "DIFFERS" if self.differences else "explained" if self.classes else "same"


def main(argv: list[str] | None = None) -> int:
    """Say of each whether it comes out as it was; the exit status is 1 where one does not."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.roundtrip", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="", metavar="ID")
    parser.add_argument("--format", default="", choices=_FORMATS)
    args = parser.parse_args(argv)
    if not args.folder.is_dir():
        print(f"SKIP: no such folder: {args.folder}")
        return 0
    found = [each for each in recorded(args.folder) if each.format == (args.format or each.format)]
    words: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for what, check in {"requests": requests, "next requests": continued, "replies": sent_back}.items():
        verdicts = [each for each in check(found) if args.only in ("", each.id)]
        for verdict in verdicts:
            tell(what, verdict)
        words.update([f"{what} {verdict.word}" for verdict in verdicts])
        words.update([verdict.word for verdict in verdicts])
        used.update([name for verdict in verdicts for name in verdict.classes])
    for name, count in used.most_common():
        print(f"{count:4} {name}")
    for what in ("requests ", "next requests ", "replies ", ""):
        same, named, differ = (words[f"{what}{word}"] for word in ("same", "explained", "DIFFERS"))
        print(f"{what.strip() + ': ' if what else ''}{same} same, {named} explained, {differ} differ")
    return 1 if words["DIFFERS"] else 0


def tell(what: str, verdict: Verdict) -> None:
    """A line for one that is as it was, or explained; one for each difference that is not."""
    for line in verdict.differences or [", ".join(verdict.classes)]:
        print(f"{verdict.word} {what} {verdict.id}: {line}".rstrip(": "), flush=True)


def recorded(root: Path) -> list[Recorded]:
    """The exchanges of the formats we speak, in the order of their names.

    Raises:
        ValueError: a file is not JSON.
    """
    found: list[Recorded] = []
    for path in sorted(root.rglob("*.json")):
        value: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict) or value.get("api") not in _FORMATS:
            continue
        asked, answered, turn = (value.get(key) or {} for key in ("request", "response", "conversation"))
        found.append(
            Recorded(
                id=value.get("id") or path.stem,
                format=value["api"],
                provider=value.get("provider") or "p",
                path=asked.get("path") or "",
                body=asked.get("body"),
                stream=bool(value.get("stream")),
                status=answered.get("status") or 0,
                answer=answered.get("body") or "",
                place=(turn.get("id") or "", turn.get("index") or 0),
            )
        )
    return found


def requests(found: Sequence[Recorded]) -> Iterator[Verdict]:
    """Each recorded request, imported and sent."""
    for each in found:
        if each.body is not None:
            yield judged(each.id, partial(_imported_and_sent, each), _format(each).CLASSES)


def continued(found: Sequence[Recorded]) -> Iterator[Verdict]:
    """Each recorded request whose last answer was recorded too, with our reading of that answer."""
    by_place = {each.place: each for each in found if each.place[0]}
    for each in found:
        before = by_place.get((each.place[0], each.place[1] - 1))
        if each.body is not None and before is not None and before.body is not None:
            verdict = judged(
                each.id,
                partial(_with_our_reply, each, before),
                (*_format(each).CLASSES, more_than_the_client_sent),
            )
            if verdict is not _NOTHING:
                yield verdict


def sent_back(found: Sequence[Recorded]) -> Iterator[Verdict]:
    """Each recorded answer, read and sent back."""
    for each in found:
        if 0 < each.status < 300:
            pair = partial(said_and_sent, each.format, each.provider, each.stream, each.answer)
            verdict = judged(each.id, pair, CLASSES[each.format])
            if verdict is not _NOTHING:
                yield verdict


def judged(id: str, pair: Callable[[], _Pair | None], classes: Sequence[Class]) -> Verdict:
    """What the classes leave of the differences of a pair; an exception is one."""
    names: list[str] = []
    compared = [True]

    def left() -> Iterator[str]:
        bodies = pair()
        if bodies is None:
            compared[0] = False
            return
        used, lines = explained(*bodies, classes)
        names.extend(used)
        yield from lines

    verdict = Verdict(id, names, guarded(left()))
    return verdict if compared[0] else _NOTHING


_NOTHING: Final = Verdict("", [], [])  # there is nothing to compare


def _format(each: Recorded) -> Any:
    return importlib.import_module(f"{__package__}.{_FORMATS[each.format]}")


def _imported(each: Recorded) -> tuple[HttpModel, ModelRequest]:
    made: tuple[HttpModel, ModelRequest] = _format(each).imported(each.body, each.provider, each.path)
    return made


def _imported_and_sent(each: Recorded) -> _Pair:
    return each.body or {}, body_of(*_imported(each))


def _with_our_reply(each: Recorded, before: Recorded) -> _Pair | None:
    """The request after ``before``, in which the model's turn is what we read; None where it is no continuation."""
    model, request = _imported(each)
    start = len(_imported(before)[1].messages)
    messages = list(request.messages)
    reply = reply_of(each.format, model.name, before.answer)
    if reply is None or len(messages) <= start or messages[start].role != "assistant":
        return None
    messages[start] = reply
    ours = ModelRequest(
        messages=messages, system=request.system, tools=request.tools, options=request.options
    )
    return each.body or {}, body_of(model, ours)


def more_than_the_client_sent(recorded: Body, ours: Body) -> None:
    """We send back all that the server said; the client that was recorded left some of it out."""
    for key in ("messages", "input"):
        for theirs, our in zip(recorded.get(key) or (), ours.get(key) or (), strict=False):
            for name in ("reasoning_details", "content", "id", "status"):
                if name not in theirs and our.get("role", "assistant") == "assistant":
                    our.pop(name, None)


if __name__ == "__main__":
    sys.exit(main())
