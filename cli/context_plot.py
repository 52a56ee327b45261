"""Tokens over the calls of a session, for each context manager, as SVG or PNG.

Read with: ``context_table.py``. Needs ``pip install 'unspool[plots]'``, which is imported only here and when needed.
"""

import importlib
import importlib.util
from typing import Any, Final, Literal

from .context_table import Report

_INCHES: Final = (9.0, 4.5)
_WINDOWS: Final = 2.0  # that are shown: what is above does not fit anyway


def can_plot() -> bool:
    """Whether there is something to plot with."""
    return importlib.util.find_spec("matplotlib") is not None


def plot(report: Report, path: str, form: Literal["svg", "png"]) -> None:
    """Plot to a file. The same report gives the same bytes.

    Raises:
        OSError: the file cannot be written.
    """
    matplotlib = importlib.import_module("matplotlib")
    figure_of: Any = importlib.import_module("matplotlib.figure").Figure
    with matplotlib.rc_context({"svg.hashsalt": "unspool", "svg.fonttype": "none"}):
        figure = figure_of(figsize=_INCHES, layout="constrained")  # no pyplot: no window, nothing global
        _draw(figure.add_subplot(), report)
        figure.savefig(path, format=form, metadata={"Date": None} if form == "svg" else None)


def _draw(axes: Any, report: Report) -> None:
    for row in report.rows:
        tokens = [call.tokens for call in row.metrics.calls]
        first = row is report.rows[0]  # the recorded one, below the others: some may be the same
        (line,) = axes.plot(
            range(1, len(tokens) + 1),
            tokens,
            label=row.name,
            linewidth=3.0 if first else 1.0,
            alpha=0.5 if first else 1,
        )
        marked = sorted(set(row.rewrites))
        heights = [tokens[call - 1] for call in marked]
        axes.plot(marked, heights, "v", color=line.get_color(), markersize=3)
    axes.axhline(report.window, linestyle="--", linewidth=0.8, color="0.4", label="window")
    axes.set_xlabel("model call (triangles: rewrites)")
    axes.set_ylabel("tokens")
    peak = max([row.metrics.peak for row in report.rows])
    axes.set_ylim(0, min(1.1 * max(peak, 1), _WINDOWS * report.window))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(loc="upper left", fontsize="small", frameon=False)
