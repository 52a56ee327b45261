"""What is too large to be shown at all loses its middle, wherever it stands.

Read with: ``trimming.py`` and ``offloading.py`` (which come earlier and lose less).
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from unspool.kernel.messages import Message, Text, ToolCall
from unspool.kernel.ports import Edit

from .calls import owners
from .marks import marked
from .shortening import blob_of, carried, ends_of, full_size, is_gone, joined, way_to, with_text
from .work import Rewrite, Work

_SMALL: Final = 50  # tokens: texts below are left alone
_HEAD: Final = 0.6  # of what stays of a text
_TRIES: Final = 6  # at a length that gives no more tokens than wanted: they are not spread evenly over a text


class Squeeze:
    """Shortens results and the assistant's texts, those of the turn under way too, so that all of them fit.

    All that are larger than a cap are shortened to it, head and tail, with a line between that says what is
    missing and how to get at it. The cap is as high as it can be for all results and texts together to take
    no more than ``share`` of what system prompt, tools and everything else leave of the trigger level; the
    rest stays free for what is to come.

    What users say is never shortened: where that alone is too much, nothing is done.
    """

    name = "squeeze"
    last_resort = True

    def __init__(self, *, share: float = 0.5, commits: bool = True) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"context: share is a fraction of the room, above 0 and up to 1: {share}")
        self.share = share
        self.commits = commits

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        sizes = _sizes(work)
        pinned = work.budget.tokens - sum(sizes.values())
        room = int(self.share * (work.budget.trigger - pinned))
        if room <= 0:  # what cannot be shortened is above the trigger by itself, but may still fit the window
            room = int(self.share * (work.budget.window - pinned))
        if room <= 0 or sum(sizes.values()) <= room:
            return None
        cap = cap_for(list(sizes.values()), room)
        calls = {at: call for at, (_, call) in owners(work.view).items()}
        edits: list[Edit] = []
        for at, size in sizes.items():
            message = work.view[at]
            if size <= cap or not isinstance(message, Message):
                continue
            short = _squeezed(message, calls.get(at), size, cap, work)
            if short is not None:
                edits.append(Edit(start=at, stop=at + 1, messages=(short,)))
        return Rewrite(edits=edits, note=f"{len(edits)} texts, to {cap} tokens") if edits else None


def cap_for(sizes: Sequence[int], room: int) -> int:
    """The highest cap at which sizes, each cut to it, fit a room that they do not fit as they are.

    >>> cap_for([10, 100, 1000], 150)
    70
    """
    left = sorted(sizes)
    for count, size in enumerate(left):
        fair = room // (len(left) - count)
        if size > fair:
            return fair
        room -= size
    return left[-1]


def _sizes(work: Work) -> dict[int, int]:
    """By index: tokens of the text of each message that may be shortened and is worth it."""
    sizes: dict[int, int] = {}
    for at, message in enumerate(work.view):
        if not isinstance(message, Message) or message.role not in ("assistant", "tool"):
            continue
        if message.failed or is_gone(message) or work.tokens(message) < _SMALL:
            continue
        size = work.tokens(message) - _rest(message, work)
        if size >= _SMALL:
            sizes[at] = size
    return sizes


def _rest(message: Message, work: Work) -> int:
    """Tokens of a message that are not text: of images, calls, and the message itself."""
    others = tuple([block for block in message.content if type(block) is not Text])
    return work.tokens(replace(message, content=others))


def _squeezed(message: Message, call: ToolCall | None, size: int, cap: int, work: Work) -> Message | None:
    """A message whose text, of ``size`` tokens, takes ``cap`` or as few as can be; None where that is not
    less."""
    text, rest = message.text, work.tokens(message) - size
    characters = len(text) * cap // size
    short = message
    for _ in range(_TRIES):
        short = _cut(message, call, characters, work)
        over = work.tokens(short) - rest - cap
        if over <= 0 or not characters:
            break
        characters = max(0, int(characters * 0.95) - max(1, len(text) * over // size))
    else:
        short = _cut(message, call, 0, work)
    return short if work.tokens(short) < work.tokens(message) else None


def _cut(message: Message, call: ToolCall | None, characters: int, work: Work) -> Message:
    """A message with no more than about ``characters`` of its text; for very few only the line that says so."""
    text = message.text
    head = int(_HEAD * characters)
    first, last = ends_of(text, head, characters - head) if characters else ("", "")
    said = carried(message)
    left_out = full_size(message)[1] - len(first) - len(last)
    how = _way_back(message, call, work) if characters >= 200 else ""
    line = f"[… {left_out:,} characters left out{how} …]"
    return marked(message, with_text(message, joined([first, line, last])), "squeezed", **said)


def _way_back(message: Message, call: ToolCall | None, work: Work) -> str:
    blob = blob_of(message)
    if blob:
        return f"; {way_to(blob, work.tools)}"
    if call is None:
        return ""
    return f": too long to be shown; call {call.name} for a smaller part to see more"
