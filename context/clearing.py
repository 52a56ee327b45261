"""Old tool results become a line that says what they were.

Read with: ``values.py`` (which go first), ``gist.py`` (what stays of them), ``offloading.py``.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Literal

from unspool.kernel.messages import Document, Image, Message, Text, ToolCall
from unspool.kernel.ports import Edit

from .calls import Answered, answered, key_of, name_of, use_of
from .gist import gist
from .marks import marked
from .shortening import blob_of, carried, full_size, is_gone, size_text, way_to
from .values import worths
from .work import Rewrite, Work


class ClearToolResults:
    """Puts a short text in the place of old tool results: which call it was, how much it gave, and how to
    get it back where that has no effects.

    The newest ``keep`` results of different calls stay (older ones of the same call do not count and do not
    stay), and those of the turn under way, of fewer than ``min_tokens``, of calls that are not to be cleared,
    and errors, unless ``keep_errors`` is False: what did not work is what an agent is prone to try again.
    ``tools`` are the names of tools whose results may be cleared, or a function of the call; None is all.

    ``order``: ``value`` clears no more than the target needs, what is least worth its tokens first, and for a
    person who asks all that does not stay; ``age`` always does. ``gist_chars`` is how much is kept of each:
    its first line, and hashes, tickets, tests and paths in it, because these are quoted later. 160 characters
    are some 50 tokens: a dozen short names, and a quarter of the smallest result that is cleared.
    """

    name = "clear_tool_results"

    def __init__(
        self,
        *,
        keep: int = 5,
        min_tokens: int = 200,
        keep_errors: bool = True,
        tools: Collection[str] | Callable[[ToolCall], bool] | None = None,
        order: Literal["value", "age"] = "value",
        gist_chars: int = 160,
        commits: bool = True,
    ) -> None:
        if min(keep, min_tokens, gist_chars) < 0:
            raise ValueError(
                f"context: clearing has settings below 0 (keep={keep}, min_tokens={min_tokens}, gist_chars={gist_chars})"
            )
        self.keep = keep
        self.min_tokens = min_tokens
        self.keep_errors = keep_errors
        self.tools = tools
        self.order = order
        self.gist_chars = gist_chars
        self.commits = commits

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        found = answered(work.view)
        edits: list[Edit] = []
        excess, all_go = work.budget.excess, self.order == "age" or work.reason == "manual"
        for each in self._in_order(work, found):
            if excess <= 0 and not all_go:
                break
            cleared = self._cleared(each, _way_back(each, work))
            saved = work.tokens(each.message) - work.tokens(cleared)
            if saved > 0:
                edits.append(Edit(start=each.at, stop=each.at + 1, messages=(cleared,)))
                excess -= saved
        if not edits:
            return None
        return Rewrite(edits=sorted(edits, key=lambda edit: edit.start), note=f"{len(edits)} results")

    def _in_order(self, work: Work, found: Sequence[Answered]) -> list[Answered]:
        """The results that may go, those first that go first."""
        candidates = [each for each in found if self._may_go(each, work)]
        free = [each for each in _older(candidates, self.keep) if each.at < work.tail]
        if self.order == "value" and free:
            worth = worths(found, work.tokens)
            free.sort(key=lambda each: (worth[each.at], each.at))
        return free

    def _may_go(self, each: Answered, work: Work) -> bool:
        if is_gone(each.message) or (each.message.is_error and self.keep_errors):
            return False
        return self._is_meant(each.call) and work.tokens(each.message) >= self.min_tokens

    def _is_meant(self, call: ToolCall) -> bool:
        if self.tools is None:
            return True
        return self.tools(call) if callable(self.tools) else call.name in self.tools

    def _cleared(self, each: Answered, back: str) -> Message:
        """What stands for a result; blocks that make tools available, or that only a provider understands, stay."""
        message = each.message
        media = [
            type(block).__name__.lower() for block in message.content if isinstance(block, Image | Document)
        ]
        what = ", ".join([size_text(*full_size(message)), *media])
        text = f"[{name_of(each.call)}: {what} cleared{back}]"
        kept = gist(message.text, self.gist_chars)
        others = [block for block in message.content if not isinstance(block, Text | Image | Document)]
        content = (Text(f"{text}\n{kept}" if kept else text), *others)
        return marked(message, content, "cleared", tool=each.call.name, **carried(message))


def _way_back(each: Answered, work: Work) -> str:
    """How to see a result again; nothing where the call would have its effect again."""
    blob = blob_of(each.message)
    if blob:
        return f"; {way_to(blob, work.tools)}"
    only_reads = use_of(each.call).kind in ("read", "search", "list") or any(
        tool.read_only for tool in work.tools if tool.name == each.call.name
    )
    return "; call it again to see it" if only_reads else ""


def _older(candidates: Sequence[Answered], keep: int) -> list[Answered]:
    """All but the newest ``keep`` results of different calls."""
    newest: set[str] = set()
    older: list[Answered] = []
    for each in reversed(candidates):
        key = key_of(each.call)
        if key not in newest and len(newest) < keep:
            newest.add(key)
        else:
            older.append(each)
    return older[::-1]
