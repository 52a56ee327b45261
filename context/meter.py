"""Metrics of the requests of a run, one by one, each at the cost of what is new in it. Nothing is changed or asked.

Read with: ``metrics.py`` (what they mean), ``shown.py``, ``prefix.py``, ``demands.py``.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from unspool.kernel.messages import AgentMessage, ContextDemand

from .demands import Demands
from .items import ContextReader
from .metrics import Call, CallMetrics, RunMetrics, Tally
from .prefix import PrefixBreak, cause_of, shared
from .shown import Change, Shown

_PARTS: Final = ("system", "tools", "options")  # of a request, besides its messages


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
