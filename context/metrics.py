"""What the requests of a run say of its context manager: recall, precision, cached prefixes, tokens, what was dropped.

- *Recall*: of what replies showed to have needed, the share whose content was in the request that they answered.
- *Precision*: of the tokens of items shown, over all requests, the share that was needed then or later.
- *Cached*: the tokens that a request has in common with the one before it, from its beginning.

Read with: ``meter.py`` (how they are found), ``items.py``, ``demands.py``, ``prefix.py``, ``shown.py``.
"""

from collections.abc import Sequence

from msgspec import Struct

from unspool.kernel.events import CompactionStep
from unspool.kernel.messages import AgentMessage, ContextDemand, ContextItem

from .prefix import PrefixBreak
from .shown import Dropped


class Call(Struct, frozen=True, kw_only=True):
    """One model call: its request and what came of it.

    ``messages`` are those of the request as sent; ``view`` are those that they were made of, where there are application
    messages. ``system``, ``tools`` and ``options`` are what tells one from another, hashes for instance;
    ``overhead`` are the tokens of system prompt and tools. ``steps`` were done to the view since the last call.
    ``demands`` are those of the reply, for all calls of a run or for none: then they are taken from ``reply``, or
    from the next request.
    ``label`` is the caller's own, for recall by label.
    """

    messages: Sequence[AgentMessage]
    view: Sequence[AgentMessage] | None = None
    reply: AgentMessage | None = None
    system: str = ""
    tools: str = ""
    options: str = ""
    overhead: int = 0
    steps: Sequence[CompactionStep] = ()
    demands: Sequence[ContextDemand] | None = None
    label: str = ""


class Tally(Struct, kw_only=True):
    """How many demands there were, and of how many the content was shown."""

    demanded: int = 0
    shown: int = 0

    @property
    def recall(self) -> float | None:
        """The share that was shown; None where nothing was demanded."""
        return self.shown / self.demanded if self.demanded else None

    def add(self, shown: bool) -> None:
        self.demanded += 1
        self.shown += shown


class CallMetrics(Struct, frozen=True, kw_only=True):
    """Request ``n``, from 1: its tokens, how many of them were ``cached``, and what it shows.

    ``inventory`` counts the items shown by representation; ``added`` and ``removed`` are those that the request before
    did not, or no longer, show.
    """

    n: int
    label: str
    messages: int
    tokens: int
    cached: int
    broken: PrefixBreak | None
    inventory: dict[str, int]
    added: tuple[ContextItem, ...]
    removed: tuple[ContextItem, ...]
    dropped: tuple[Dropped, ...]

    @property
    def cached_ratio(self) -> float:
        return self.cached / self.tokens if self.tokens else 0.0


class RunMetrics(Struct, frozen=True, kw_only=True):
    """All requests of a run. Tokens are counted over all of them; ``by_kind`` and ``by_label`` are demands.

    ``item_tokens`` are those of the items shown, ``needed_tokens`` of those that were needed then or later.
    """

    calls: tuple[CallMetrics, ...]
    recall: Tally
    by_kind: dict[str, Tally]
    by_label: dict[str, Tally]
    item_tokens: int
    needed_tokens: int

    @property
    def peak(self) -> int:
        return max([call.tokens for call in self.calls], default=0)

    @property
    def total(self) -> int:
        return sum([call.tokens for call in self.calls])

    @property
    def cached(self) -> int:
        return sum([call.cached for call in self.calls])

    @property
    def cached_ratio(self) -> float:
        """The cached share of all tokens; 0 where there are none."""
        total = self.total
        return self.cached / total if total else 0.0

    @property
    def breaks(self) -> list[PrefixBreak]:
        return [call.broken for call in self.calls if call.broken is not None]

    @property
    def dropped(self) -> list[Dropped]:
        return [each for call in self.calls for each in call.dropped]

    @property
    def precision(self) -> float | None:
        """The share of the tokens of items that was needed; None where no item was shown."""
        return self.needed_tokens / self.item_tokens if self.item_tokens else None

    def inventory(self, n: int) -> list[ContextItem]:
        """The items that request ``n`` shows, as they came.

        Raises:
            IndexError: there is no such request.
        """
        if not 1 <= n <= len(self.calls):
            raise IndexError(f"metrics: there is no request {n}, there are {len(self.calls)}")
        items: list[ContextItem] = []
        for call in self.calls[:n]:
            for item in call.removed:
                items.remove(item)
            items += call.added
        return items
