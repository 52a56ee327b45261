"""What a replay under other context managers came to, as a table and as JSON.

Read with: ``context_replay.py``.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, Self

from msgspec import Struct
from rich.cells import cell_len

from unspool.context.metrics import RunMetrics
from unspool.kernel.messages import Usage

from .context_projecting import Asked, Ledger
from .context_recording import Point, Recording
from .output import console
from .view import printable

_MILLION: Final = 1_000_000
_HEADINGS: Final = (
    "manager",
    "peak",
    "total",
    "cached",
    "cost",
    "rewrites",
    "breaks",
    "overflows",
    "recall",
    "precision",
    "summaries",
)


class Prices(Struct, frozen=True, kw_only=True):
    """Prices per million tokens: of the prompt, of what of it is cached, of what is written to the cache, of answers."""

    input: float
    cached: float
    write: float
    output: float

    @classmethod
    def given(cls, input: float, cached: float | None, write: float | None, output: float | None) -> Self:
        """Prices, of which those that are None are that of the prompt."""
        return cls(
            input=input,
            cached=input if cached is None else cached,
            write=input if write is None else write,
            output=input if output is None else output,
        )

    def cost(self, metrics: RunMetrics, points: Iterable[Point], summaries: Usage) -> float:
        """What a run costs, in the currency of the prices: of each request that was answered, its cached prefix, the
        rest, which is written to the cache, and the answer; and summaries, which are not cached."""
        total = summaries.context_tokens * self.input + summaries.output_tokens * self.output
        for call, point in zip(metrics.calls, points, strict=True):
            if point.answered:
                total += call.cached * self.cached + (call.tokens - call.cached) * self.write
                total += point.output_tokens * self.output
        return total / _MILLION


class Row(NamedTuple):
    """One manager: its metrics, the calls of its rewrites and overflows, what it asked for. ``cost`` is None without prices."""

    name: str
    metrics: RunMetrics
    rewrites: Sequence[int]
    committed: int
    overflows: Sequence[int]
    asked: Asked
    cost: float | None

    @classmethod
    def of(cls, ledger: Ledger, recording: Recording, asked: Asked, prices: Prices | None) -> Self:
        metrics = ledger.metrics
        cost = prices.cost(metrics, recording.points.values(), asked.usage) if prices is not None else None
        return cls(ledger.name, metrics, ledger.rewrites, ledger.committed, ledger.overflows, asked, cost)


class Report(Struct, frozen=True, kw_only=True):
    """A replay: how many of the ``calls`` the recorded manager made as they were, None where it is ``unknown``, and why.

    ``window`` is that of the other managers. ``counter`` counted, and ``factor`` is what providers reported for each token.
    """

    calls: int
    reproduced: int | None
    unknown: str
    window: int
    counter: str
    factor: float
    rows: Sequence[Row]


def print_report(name: str, report: Report) -> None:
    """The table, and what is to be known to read it."""
    out = console()
    for line in _notes(name, report):
        out.print(printable(line), soft_wrap=True)
    cells = [_HEADINGS, *map(_cells, report.rows)]
    widths = [max([cell_len(row[column]) for row in cells]) for column in range(len(_HEADINGS))]
    for texts in cells:
        padded = [texts[0] + " " * (widths[0] - cell_len(texts[0]))]
        padded += [text.rjust(width) for text, width in zip(texts[1:], widths[1:], strict=True)]
        out.print(printable("  ".join(padded)), style="bold" if texts is _HEADINGS else "", soft_wrap=True)
    for row in report.rows:
        for failure, count in Counter(row.asked.failures).items():
            out.print(printable(f"{row.name}: failed {count} times: {failure}"), style="red", soft_wrap=True)


def _notes(name: str, report: Report) -> list[str]:
    if report.reproduced is None:
        first = f"{name}: {report.calls} requests, as recorded: {report.unknown}"
    else:
        first = f"{name}: {report.reproduced} of {report.calls} requests reproduced"
    factor = f", times {report.factor:.2f} as providers reported" if report.factor != 1 else ""
    recorded = sum([row.asked.recorded for row in report.rows])
    extracted = sum([row.asked.extracted for row in report.rows])
    lines = [first, f"tokens by {report.counter}{factor}, window {report.window:,}"]
    if recorded or extracted:
        lines.append(f"summaries: recorded {recorded}, extracted {extracted}")
    return lines


def _cells(row: Row) -> tuple[str, ...]:
    metrics, asked = row.metrics, row.asked
    committed = f" ({row.committed} committed)" if row.committed else ""
    return (
        row.name,
        f"{metrics.peak:,}",
        f"{metrics.total:,}",
        _percent(metrics.cached_ratio),
        "-" if row.cost is None else f"{row.cost:,.4f}",
        f"{len(row.rewrites)}{committed}",
        str(len(metrics.breaks)),
        str(len(row.overflows)),
        _percent(metrics.recall.recall),
        _percent(metrics.precision),
        str(asked.recorded + asked.extracted),
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def report_object(name: str, report: Report) -> dict[str, Any]:
    """The report as a JSON object; the lists are by call, and calls are numbered from 1."""
    return {
        "log": name,
        "calls": report.calls,
        "reproduced": report.reproduced,
        "unknown": report.unknown,
        "window": report.window,
        "counter": report.counter,
        "factor": report.factor,
        "managers": [_row_object(row) for row in report.rows],
    }


def _row_object(row: Row) -> dict[str, Any]:
    metrics, asked = row.metrics, row.asked
    return {
        "name": row.name,
        "calls": len(metrics.calls),
        "peak": metrics.peak,
        "total": metrics.total,
        "cached": metrics.cached,
        "cached_ratio": metrics.cached_ratio,
        "cost": row.cost,
        "rewrites": row.rewrites,
        "committed": row.committed,
        "breaks": metrics.breaks,
        "overflows": row.overflows,
        "recall": metrics.recall.recall,
        "demands": metrics.recall,
        "demands_by_kind": metrics.by_kind,
        "demands_by_label": metrics.by_label,
        "precision": metrics.precision,
        "summaries": {"recorded": asked.recorded, "extracted": asked.extracted, "usage": asked.usage},
        "failures": asked.failures,
        "tokens_by_call": [call.tokens for call in metrics.calls],
        "cached_by_call": [call.cached for call in metrics.calls],
        "inventory_by_call": [call.inventory for call in metrics.calls],
        "dropped": metrics.dropped,
    }
