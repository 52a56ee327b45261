"""A summary without a model: what can be read off the older part of a conversation, in few words.

It says what was done, not why. It is there for when no model can be asked: it always works, costs nothing, and gives the same
text for the same messages.

Read with: ``cuts.py``, ``checkpoint.py``, ``summary.py`` (by a model).
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from unspool.kernel.json_edge import encode_text
from unspool.kernel.messages import AgentMessage

from .calls import call_text
from .checkpoint import chars_for, checkpoint, earlier_text, info_of, middle_out
from .cuts import Span, edits_for, room_for_messages, span_of
from .marks import is_summary
from .serializing import text_of
from .work import Rewrite, Work

_SHARE: Final = 0.1  # of what the relief level leaves for messages
_LEAST_TOKENS: Final = 256
_EARLIER: Final = 0.4  # of the text: what an earlier summary may take
_SENTENCE_CHARS: Final = 240
_LOOKED_AT: Final = 4_000  # characters of a message in which names are looked for, at each end
_NAMES: Final = 30
_NAMES_SHARE: Final = 0.2  # of the text

_BEFORE: Final = "## Earlier"
_DONE: Final = "## Steps, oldest first"
_TURN: Final = "## Work on the current request"
_QUOTED: Final = "## Names that came up again and again"
_SENTENCES: Final = re.compile(r".+?(?:[.!?](?=\s|$)|[。！？]|\n|$)")
_NAME: Final = re.compile(
    r"(?<![\w./-])(?:"
    r"(?:[\w@~-]{1,60})?(?:/[\w.@~+-]{1,80}){1,12}"  # paths
    r"|[\w-]{1,60}\.(?:py|js|ts|tsx|go|rs|c|h|cpp|java|rb|md|toml|ya?ml|json|txt|sql|sh|html|css|cfg|ini|lock)"
    r"|[A-Z][A-Z0-9]{1,9}-\d{1,8}"  # tickets
    r"|(?=[0-9a-f]{0,40}\d)[0-9a-f]{7,64}"  # hashes
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # UUIDs
    r")(?![\w/-])"
)


class ExtractiveSummary:
    """Replaces the older part of the view by a record of its steps, made without a model.

    ``keep`` is how many tokens of the newest messages stay, ``max_tokens`` about how long the record may be, without the
    users' requests and the files; 0 chooses.
    """

    name = "extract"
    last_resort = True
    forced = True

    def __init__(self, *, keep: int = 0, max_tokens: int = 0, commits: bool = True) -> None:
        if min(keep, max_tokens) < 0:
            raise ValueError(
                f"context: keep and max_tokens are tokens (keep={keep}, max_tokens={max_tokens})"
            )
        self.keep = keep
        self.max_tokens = max_tokens
        self.commits = commits

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        """The record in the place of what it is of; None where that is nothing new, or it is no shorter."""
        span = span_of(work, self.keep)
        if span is None:
            return None
        tokens = self.max_tokens or max(_LEAST_TOKENS, int(_SHARE * room_for_messages(work)))
        text = extracted(work, span, chars_for(tokens))
        message = checkpoint(work, span, text, by="extract")
        info = info_of(work, span, message)
        if info.tokens_after >= info.tokens_before:
            return None
        return Rewrite(edits=edits_for(span, [message]), note=f"{info.compacted} messages")


def extracted(work: Work, span: Span, limit: int) -> str:
    """The record of a span in about ``limit`` characters."""
    gone = [work.original(message) for message in span.fresh]
    earlier = earlier_text(span.earlier).replace(f"{_BEFORE}\n", "")
    earlier = middle_out(earlier, int(_EARLIER * limit))
    names = _names(gone, int(_NAMES_SHARE * limit))
    room = limit - len(earlier) - len(names)
    turn = _turn_in(work, span)
    before, during = _steps(gone[:turn]), _steps(gone[turn:])
    length = len("\n".join(before)), len("\n".join(during))
    # what the turn under way does not need, steps before it may take
    first = max(room // 2, room - length[1])
    parts = [f"{_BEFORE}\n{earlier}"] if earlier else []
    parts += [f"{_DONE}\n{_fitting(before, first)}"] if before else []
    parts += [f"{_TURN}\n{_fitting(during, room - min(first, length[0]))}"] if during else []
    return "\n\n".join([*parts, f"{_QUOTED}\n{names}"] if names else parts)


def _turn_in(work: Work, span: Span) -> int:
    """How many of the messages that go come before the current request; all where that is not cut through."""
    if not 0 <= work.newest_user < span.cut.stop:
        return len(span.fresh)
    return sum([at < work.newest_user and not is_summary(work.view[at]) for at in span.indexes])


def _steps(messages: Sequence[AgentMessage]) -> list[str]:
    """A line for what somebody said, for each call, with the error that it led to; the same again is counted."""
    lines: list[str] = []
    calls: dict[str, int] = {}
    for message in messages:
        lowered = message.to_message()
        if lowered is None:
            continue
        if lowered.role == "tool":
            at = calls.pop(lowered.tool_call_id, -1)
            if lowered.is_error and at >= 0:
                lines[at] += f" → error: {_first_sentence(text_of(lowered))}"
            continue
        if sentence := _first_sentence(text_of(lowered)):
            lines.append(f"{lowered.role.capitalize()}: {sentence}")
        for call in lowered.tool_calls:
            calls[call.id] = len(lines)
            lines.append(call_text(call))
    return _counted(lines)


def _counted(lines: Sequence[str]) -> list[str]:
    """The lines, each that follows itself but once, with how often it came."""
    counted: list[str] = []
    times = 1
    for at, line in enumerate(lines):
        if at + 1 < len(lines) and lines[at + 1] == line:
            times += 1
            continue
        counted.append(f"{line} (×{times})" if times > 1 else line)
        times = 1
    return counted


def _first_sentence(text: str) -> str:
    found = _SENTENCES.search(text.lstrip()[: 4 * _SENTENCE_CHARS])
    return _in_line(found.group(), _SENTENCE_CHARS) if found else ""


def _in_line(text: str, limit: int) -> str:
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit and len(text) <= 4 * limit else f"{line[: limit - 1]}…"


def _fitting(lines: Sequence[str], room: int) -> str:
    """The lines that there is room for: the newest, and some of the oldest."""
    if sum(map(len, lines)) + len(lines) <= room:
        return "\n".join(lines)
    oldest = _taken(lines, room // 5)
    newest = _taken(lines[len(oldest) :][::-1], room - room // 5)[::-1]
    left_out = len(lines) - len(oldest) - len(newest)
    return "\n".join([*oldest, f"[… {left_out:,} steps left out …]", *newest])


def _taken(lines: Sequence[str], room: int) -> list[str]:
    """The first lines, as many as there is room for."""
    taken: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        taken.append(line)
    return taken


def _names(messages: Sequence[AgentMessage], room: int) -> str:
    """Paths, tickets, hashes that are in more than one message, those in most of them first."""
    counts: Counter[str] = Counter()
    for message in messages:
        lowered = message.to_message()
        if lowered is None:
            continue
        text = text_of(lowered)
        parts = [text] if len(text) <= 2 * _LOOKED_AT else [text[:_LOOKED_AT], text[-_LOOKED_AT:]]
        parts += [encode_text(call.args)[: 2 * _LOOKED_AT] for call in lowered.tool_calls]
        counts.update({name.rstrip(".") for part in parts for name in _NAME.findall(part)})
    often = [name for name, count in counts.items() if count > 1 and _is_name(name)]
    often.sort(key=lambda name: (-counts[name], name))
    return "\n".join(_taken(often[:_NAMES], room))


def _is_name(text: str) -> bool:
    """Whether this is no mere alternative, as in and/or."""
    return "/" not in text or text.startswith("/") or "." in text or text.count("/") > 1
