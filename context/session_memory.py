"""A text that the application keeps up to date itself, in the place of the older part of a conversation.

Read with: ``cuts.py``, ``checkpoint.py``, ``summary.py`` (by a model).
"""

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final

from unspool.kernel.errors import describe, error_kind
from unspool.kernel.messages import AgentMessage

from .checkpoint import checkpoint, info_of, middle_out, summary_of
from .cuts import Cut, Span, edits_for, find_cut, kept_tokens, span_to, turn_before
from .marks import mark_of
from .work import Rewrite, Work

_EARLIER: Final = "## From earlier summaries"
_CUT: Final = "[… the session memory is longer: {count:,} characters left out …]"


class SessionMemory:
    """Replaces the older part of the view by what ``seed`` gives: the application's own notes on the session.

    ``keep`` is how many tokens of the newest messages stay; a turn is not cut through, because notes may not cover it.
    A text longer than ``max_chars`` is cut, at the end of a line where that is not far; a negative number keeps all.
    What an earlier summary says stays beside it. A seed that raises or is blank changes nothing.
    """

    name = "session_memory"
    last_resort = True
    forced = True

    def __init__(
        self,
        seed: Callable[[], str | Awaitable[str]],
        *,
        keep: int = 20_000,
        max_chars: int = 20_000,
        commits: bool = True,
    ) -> None:
        if keep < 0:
            raise ValueError(f"context: keep is tokens (keep={keep})")
        self.keep = keep
        self.max_chars = max_chars
        self.commits = commits
        self._seed = seed

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        """The seed in the place of the turns before the newest; None without one, or where nothing would be saved."""
        span = self._span(work)
        seed = (await self._seeded(work)).strip() if span else ""
        if span is None or not seed:
            return None
        base = "\n\n".join([text for text in map(_base, span.earlier) if text])
        base = middle_out(base, self.max_chars // 2) if self.max_chars > 0 else base
        text = within(seed, self.max_chars)
        if base:
            text = f"{text}\n\n{_EARLIER}\n{base}"
        message = checkpoint(work, span, text, by="memory", base=base)
        info = info_of(work, span, message)
        if info.tokens_after >= info.tokens_before:
            return None
        return Rewrite(edits=edits_for(span, [message]), note=f"{info.compacted} messages")

    def _span(self, work: Work) -> Span | None:
        cut = find_cut(work.view, kept_tokens(self.keep, work), work.tokens, limit=work.tail)
        if cut is None:
            return None
        stop = turn_before(work.view, cut) if cut.split else cut.stop
        return span_to(work, Cut(stop)) if stop > 0 else None

    async def _seeded(self, work: Work) -> str:
        try:
            seed = self._seed()
            return await seed if isawaitable(seed) else seed
        except Exception as error:  # noqa: BLE001 (an application's notes; without them the next strategy is asked)
            work.warn(
                f"context: the session memory could not be had, and is left out: {describe(error)}",
                strategy=self.name,
                error_kind=error_kind(error),
            )
            return ""


def _base(summary: AgentMessage) -> str:
    """What of an earlier summary stays: all, but of one that a session memory made only what it had from others."""
    mark = mark_of(summary)
    return str(mark.get("base", "")) if mark.get("by") == "memory" else summary_of(summary)


def within(text: str, limit: int) -> str:
    """A text of about ``limit`` characters and a note of what is missing; all of it where the limit is negative."""
    if limit < 0 or len(text) <= limit:
        return text
    head = text[:limit]
    end = head.rfind("\n")
    head = head[:end] if end > limit // 2 else head
    return f"{head}\n{_CUT.format(count=len(text) - len(head))}"
