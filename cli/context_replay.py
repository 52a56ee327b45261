"""``unspool context replay``: what other context managers would have made of a session, without a model call.

Read with: ``context_walk.py`` (how), ``context_table.py`` and ``context_plot.py`` (what is shown).
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio

from unspool.context.counters import counter_for
from unspool.context.naming import manager_named
from unspool.context.window import DEFAULT_WINDOW
from unspool.kernel.errors import AgentError
from unspool.kernel.events import AgentStart, ConfigChanged, Fact

from .context_plot import can_plot, plot
from .context_recorded import check_known, descriptions_in
from .context_recording import Recording
from .context_table import Prices, Report, print_report, report_object
from .context_walk import Walk
from .output import complain, write_json
from .places import Place

RECORDED: Final = "recorded"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a replay: managers by name, the window of all but the recorded one (0: the recorded), prices per
    million tokens, files to plot to (empty: none)."""

    managers: Sequence[str] = ()
    window: int = 0
    prices: Prices | None = None
    svg: str = ""
    png: str = ""
    as_json: bool = False


class WishError(AgentError):
    """What is asked of a replay cannot be done, whatever is in the log."""

    error_kind = "replay"


def check_wanted(wanted: Wanted) -> None:
    """See that the managers exist, and that there is something to plot with. Modules are also looked for in the
    working directory.

    Raises:
        WishError: one does not, or there is not.
    """
    if any(":" in name for name in wanted.managers) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        for name in wanted.managers:
            if name != RECORDED:
                manager_named(name)
    except ValueError as error:
        raise WishError(str(error)) from error
    if (wanted.svg or wanted.png) and not can_plot():
        raise WishError("plot: matplotlib is not installed: pip install 'unspool[plots]'")


def context_replay(place: Place, wanted: Wanted) -> int:
    """Project a session again and print what came of it; 1 where the recorded manager makes other requests, or
    a plot cannot be written.

    Raises:
        LogError: the log is damaged.
    """
    report = anyio.run(partial(replayed, list(place.facts()), wanted))
    if wanted.as_json:
        write_json(report_object(place.name, report))
    else:
        print_report(place.name, report)
    try:
        if wanted.svg:
            plot(report, wanted.svg, "svg")
        if wanted.png:
            plot(report, wanted.png, "png")
    except OSError as error:
        complain(f"plot: cannot be written (path={error.filename!r}, reason={error.strerror!r})")
        return 1
    return 0 if report.reproduced in (None, report.calls) else 1


async def replayed(facts: Sequence[Fact], wanted: Wanted) -> Report:
    """What becomes of a trajectory under each manager, the recorded one first.

    Raises:
        LogError: the facts are of a damaged log.
        ValueError: there is no such manager.
    """
    model = next((fact.model for fact in facts if type(fact) is AgentStart), "")
    recording = Recording(facts, await counter_for("auto", model))
    own = window_in(facts)
    window = wanted.window or own or DEFAULT_WINDOW
    unknown = ""
    try:
        check_known(recording)
    except ValueError as error:
        unknown = str(error)
    names = dict.fromkeys([name for name in wanted.managers if name != RECORDED])
    made = {name: manager_named(name, window=window, counter=recording.counter) for name in names}
    walk = Walk(recording, made, own, window, known=not unknown)
    await walk.go()
    return Report(
        calls=len(recording.points),
        reproduced=None if unknown else walk.recorded.reproduced,
        unknown=unknown,
        window=window,
        counter=recording.counter.name,
        factor=recording.factor,
        rows=walk.rows(wanted.prices),
    )


def window_in(facts: Sequence[Fact]) -> int:
    """The window that a log names, the manager's own before the model's; 0 where it names none."""
    for description in descriptions_in(facts):
        window = description.get("window")
        if isinstance(window, int) and window > 0:
            return window
    return next(
        (fact.window for fact in facts if isinstance(fact, AgentStart | ConfigChanged) and fact.window), 0
    )
