"""Context managers over long transcripts of coding agents: what each costs, and what of it was still there when needed.

    python benchmarks/context.py [--count 24] [--window 64000] [--cache DIR] [--peers PYTHON] [--write] [--quick]

All managers get the same transcripts (``context_tasks.py``), the same window, counter and summariser
(``context_summary.py``). ``--peers`` is the interpreter of an environment with other projects' policies, which are run
through their own code (``context_peers.py``); ``$BENCH_VENVS/context/bin/python`` where it is not given and there.
``--write`` puts the table and the plot into ``docs/context.md``. Exits with 1 when a target is missed: the default
manager is the cheapest of those with a recall as good as its own or better, and more than 0.9 of its prompts is cached.
``benchmarks/README.md`` says what the columns are.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from context_demands import Demands
from context_ours import Bytes, run_own
from context_peers import PEERS, run_peer
from context_price import Cached, SideCall, fixed_tokens, price
from context_tasks import Task, call_points, tasks

from unspool.context import ClearToolResults, Engine, default, keep_tokens, keep_turns, none
from unspool.kernel import AgentMessage

_DOCS = Path(__file__).parent.parent / "docs"
_BEGIN, _END = "<!-- benchmark: begin -->", "<!-- benchmark: end -->"
_CACHED = 0.9  # of the prompts, that the default manager leaves in the cache
_COLUMNS = (
    "manager", "cost, $", "recall", "after 10 calls", "after 30", "cached", "tokens a request", "peak", "rewrites",
    "summaries", "overflows",
)  # fmt: skip
_OLD = (10, 30)  # calls between a demand and what it was shown before


class Row(NamedTuple):
    """A manager in figures, over all transcripts."""

    name: str
    cost: float
    recall: float
    old: tuple[float, ...]
    cached: float
    peak: int
    tokens: int
    rewrites: int
    summaries: int
    overflows: int
    took_s: float


Run = tuple[Sequence[Sequence[AgentMessage]], Sequence[SideCall]]


def ours(window: int) -> dict[str, Callable[[], Engine]]:
    """The managers of ours that are compared, by name."""

    def clearing() -> Engine:
        return Engine([ClearToolResults()], window=window, counter=Bytes())

    return {
        "unspool, `default()`": lambda: default(window=window, counter=Bytes()),
        "unspool, clearing alone": clearing,
        "unspool, `keep_turns(20)`": lambda: keep_turns(20, window=window, counter=Bytes()),
        "unspool, `keep_turns(50)`": lambda: keep_turns(50, window=window, counter=Bytes()),
        "unspool, `keep_tokens(16_000)`": lambda: keep_tokens(16_000, window=window, counter=Bytes()),
        "unspool, `keep_tokens(32_000)`": lambda: keep_tokens(32_000, window=window, counter=Bytes()),
        "the whole transcript": lambda: none(window=window, counter=Bytes()),
    }


class Judge:
    """Makes rows of runs over the same transcripts."""

    def __init__(self, given: Sequence[Task], window: int) -> None:
        self._tasks = given
        self._window = window
        self._demands = [Demands(task.messages) for task in given]

    def row(self, name: str, runs: Iterable[Run]) -> Row:
        """The figures of ``name``, whose runs are one for each transcript."""
        started, bills, met, asked, ratios = time.perf_counter(), [], [0] * 3, [0] * 3, []
        for task, demands, (views, side_calls) in zip(self._tasks, self._demands, runs, strict=True):
            replies = [task.messages[at] for at in call_points(task)]
            fixed = fixed_tokens(task.system, task.tools)
            bill = price(
                views, replies, fixed=fixed, window=self._window, count=Cached(), side_calls=side_calls
            )
            bills.append(bill)
            ratios.append(bill.cached_ratio)
            for place, age in enumerate((0, *_OLD)):
                score = demands.score(views, min_age=age)
                met[place] += score.met
                asked[place] += score.asked
        recalls = [part / whole for part, whole in zip(met, asked, strict=True)]
        return Row(
            name,
            sum([bill.cost for bill in bills]),
            recalls[0],
            tuple(recalls[1:]),
            sum(ratios) / len(ratios),
            max([bill.peak for bill in bills]),
            sum([bill.tokens for bill in bills]) // sum([bill.requests for bill in bills]),
            sum([bill.rewrites for bill in bills]),
            sum([bill.side_calls for bill in bills]),
            sum([bill.overflows for bill in bills]),
            time.perf_counter() - started,
        )


def own_runs(make: Callable[[], Engine], given: Sequence[Task]) -> Iterable[Run]:
    """The runs of a manager of ours, one after the other."""
    for task in given:
        run = anyio.run(run_own, make, task)
        yield run.views, run.side_calls


def table(rows: Sequence[Row], count: int, window: int) -> str:
    """The rows as Markdown, the cheapest first."""
    lines = [
        f"Over {count} transcripts, a window of {window:,} tokens:",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        "|---" * len(_COLUMNS) + "|",
    ]
    for row in sorted(rows, key=lambda row: row.cost):
        old = " | ".join([f"{each:.3f}" for each in row.old])
        lines.append(
            f"| {row.name} | {row.cost:.2f} | {row.recall:.3f} | {old} | {row.cached:.3f} | {row.tokens:,} "
            f"| {row.peak:,} | {row.rewrites} | {row.summaries} | {row.overflows} |"
        )
    return "\n".join(lines)


def missed(rows: Sequence[Row]) -> list[str]:
    """The targets that the default manager does not reach, in words."""
    own = rows[0]
    fits = [row for row in rows[1:] if not row.overflows]
    rivals = [row for row in fits if row.recall >= own.recall and row.cost <= own.cost]
    said = [f"{row.name} costs {row.cost:.2f} with a recall of {row.recall:.3f}" for row in rivals]
    if own.cached <= _CACHED:
        said.append(f"cached: {own.cached:.3f}")
    return said


def plot(rows: Sequence[Row], path: Path) -> None:
    """Cost against recall, as SVG."""
    import matplotlib  # noqa: PLC0415 (an extra, needed for this alone)

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "unspool"
    from matplotlib import pyplot  # noqa: PLC0415 (likewise)

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for row in rows:
        if row.overflows > 10:
            continue  # it would not have been sent
        mine = row.name.startswith("unspool")
        axes.plot(row.cost, row.recall, "o" if mine else "s", color="tab:blue" if mine else "tab:orange")
        axes.annotate(
            row.name.replace("`", ""),
            (row.cost, row.recall),
            fontsize=7,
            xytext=(5, 4),
            textcoords="offset points",
        )
    axes.set_xlabel("cost, $")
    axes.set_ylabel("recall")
    axes.margins(x=0.2)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})


def write(rows: Sequence[Row], count: int, window: int) -> None:
    """Put table and plot into the documentation."""
    page = _DOCS / "context.md"
    plot(rows, _DOCS / "context.svg")
    text = f"{_BEGIN}\n{table(rows, count, window)}\n\n![Cost against recall](context.svg)\n{_END}"
    old = page.read_text(encoding="utf-8")
    page.write_text(re.sub(f"{_BEGIN}.*{_END}", lambda _: text, old, flags=re.DOTALL), encoding="utf-8")


def peer_rows(judge: Judge, given: Sequence[Task], window: int, python: Path) -> Iterable[Row]:
    for name in PEERS:
        runs = run_peer(python, name, given, window)
        failed = [run.task for run in runs if run.failed]
        label = f"{name} {runs[0].version}" + (f", {len(failed)} runs ended early" if failed else "")
        yield judge.row(label, [(run.views, run.side_calls) for run in runs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--window", type=int, default=64_000)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options: Any = parser.parse_args()
    count = 2 if options.quick else options.count
    given = tasks(count, options.cache)
    judge, rows = Judge(given, options.window), list[Row]()
    for name, make in ours(options.window).items():
        rows.append(judge.row(name, own_runs(make, given)))
        print(f"{name}: {rows[-1].took_s:.0f} s", file=sys.stderr)
    python = options.peers or Path(os.environ.get("BENCH_VENVS", "/nowhere"), "context", "bin", "python")
    if python.exists() and not options.quick:
        rows += peer_rows(judge, given, options.window, python)
    else:
        print("without peers: no environment for them", file=sys.stderr)
    print(f"unspool {version('unspool')}\n\n{table(rows, count, options.window)}")
    if options.write:
        write(rows, count, options.window)
    found = missed(rows)
    print("\n" + ("missed: " + "; ".join(found) if found else "all targets met"))
    sys.exit(bool(found) and not options.quick)


if __name__ == "__main__":
    main()
