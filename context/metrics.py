"""What the requests of a run say of its context manager: recall, precision, cached prefixes, tokens, what was dropped.

Pure functions of the requests. ``RunMeter`` takes them one by one, each at the cost of what is new in it.

- *Recall*: of what replies showed to have needed, the share whose content was in the request that they answered.
- *Precision*: of the tokens of items shown, over all requests, the share that was needed then or later.
- *Cached*: the tokens that a request has in common with the one before it, from its beginning.

Read with: ``items.py``, ``demands.py``, ``prefix.py``, ``shown.py``.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from unspool.kernel.events import CompactionStep
from unspool.kernel.messages import AgentMessage, ContextDemand, ContextItem

from .demands import Demands
from .items import ContextReader
from .prefix import PrefixBreak, cause_of, shared
from .shown import Change, Dropped, Shown

_PARTS = ("system", "tools", "options")


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


def measure(
    calls: Iterable[Call], tokens: Callable[[AgentMessage], int], reader: ContextReader | None = None
) -> RunMetrics:
    """The metrics of a run; ``tokens`` counts a message, and remembers."""
    meter = RunMeter(tokens, reader)
    for call in calls:
        meter.see(call)
    return meter.result()


class RunMeter:
    """Takes the calls of a run one by one.

    ``tokens`` counts a message, and remembers. Readers are for one conversation and its managers: what they know
    of a message is shared. ``visited`` counts the messages looked at, for tests and benchmarks.
    """

    def __init__(self, tokens: Callable[[AgentMessage], int], reader: ContextReader | None = None) -> None:
        self._tokens = tokens
        self._shown = Shown(tokens, reader or ContextReader())
        self._demands = Demands(self._shown.reader)
        self._calls: list[CallMetrics] = []
        self._last: Call | None = None
        self._total = 0  # tokens of the messages of the last request
        self._recall = Tally()
        self._by_kind: dict[str, Tally] = {}
        self._by_label: dict[str, Tally] = {}
        self.visited = 0

    def see(self, call: Call) -> CallMetrics:
        """Take in the next request, and its reply if it is given."""
        n = len(self._calls) + 1
        change = self._shown.change(call.messages if call.view is None else call.view)
        self._judge_written(call, change)
        dropped = self._shown.take(change, n, call.steps)
        kept, total = self._compare(call)
        tokens, cached, broken = self._cached(call, change, n, kept, total)
        made = CallMetrics(
            n=n,
            label=call.label,
            messages=len(call.messages),
            tokens=tokens,
            cached=cached,
            broken=broken,
            inventory=self._shown.inventory,
            added=tuple([item for each in change.added for item in self._shown.reader.items(each)]),
            removed=tuple([item for each in change.removed for item in self._shown.reader.items(each)]),
            dropped=dropped,
        )
        self._calls.append(made)
        self._last, self._total = call, total
        self._judge_reply(call)
        return made

    def result(self) -> RunMetrics:
        """The metrics of the calls so far."""
        items, needed = self._shown.tokens_of_items(len(self._calls))
        return RunMetrics(
            calls=tuple(self._calls),
            recall=replace(self._recall),
            by_kind={key: replace(tally) for key, tally in self._by_kind.items()},
            by_label={key: replace(tally) for key, tally in self._by_label.items()},
            item_tokens=items,
            needed_tokens=needed,
        )

    # --- tokens

    def _compare(self, call: Call) -> tuple[int, int]:
        """How many messages the request shares with the last one, and the tokens of all its messages."""
        before = self._last.messages if self._last is not None else ()
        kept = shared(before, call.messages).kept
        if kept < len(before):  # a rewrite: rare
            self.visited += len(call.messages)
            return kept, self._sum(call.messages)
        new = call.messages[kept:]
        self.visited += len(new)
        return kept, self._total + self._sum(new)

    def _cached(
        self, call: Call, change: Change, n: int, kept: int, total: int
    ) -> tuple[int, int, PrefixBreak | None]:
        """Tokens of the request, those of them that the last one began with, and the break if there is one."""
        tokens, last = call.overhead + total, self._last
        if last is None:
            return tokens, 0, None
        changed = next((part for part in _PARTS if getattr(last, part) != getattr(call, part)), "")
        if not changed and kept == len(last.messages):
            return tokens, last.overhead + self._total, None
        cached = 0 if changed else call.overhead + self._sum(call.messages[:kept])
        broken = PrefixBreak(
            call=n,
            cause=cause_of(changed, call.steps, change.added),
            kept=0 if changed else kept,
            lost=last.overhead + self._total - cached,
        )
        return tokens, cached, broken

    def _sum(self, messages: Iterable[AgentMessage]) -> int:
        return sum(map(self._tokens, messages))

    # --- demands

    def _judge_written(self, call: Call, change: Change) -> None:
        """What was written since the last request shows what that should have held."""
        if call.demands is not None:
            return
        last = self._last
        for message in change.added:
            if last is None:
                self._demands.see(message)
            elif message.role != "assistant" or last.reply is None:
                self._judge(self._demands.see(message), last.label)

    def _judge_reply(self, call: Call) -> None:
        if call.demands is not None:
            self._judge(call.demands, call.label)
        elif call.reply is not None:
            self._judge(self._demands.see(call.reply), call.label)

    def _judge(self, demands: Iterable[ContextDemand], label: str) -> None:
        """Count demands by whether the request at hand shows what they ask for."""
        for demand in demands:
            shown = self._shown.has(demand)
            self._shown.need(demand, len(self._calls))
            self._recall.add(shown)
            self._by_kind.setdefault(demand.kind, Tally()).add(shown)
            if label:
                self._by_label.setdefault(label, Tally()).add(shown)
