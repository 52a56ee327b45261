"""Tasks that still run when their event loop ends or the interpreter exits: killed, with a warning for each.

Read with: ``registry.py`` (the caller).
"""

import warnings

from .entry import Work


def kill_all(alive: dict[str, Work]) -> None:
    """Kill work that nobody has stopped, by the id of its task."""
    for id, work in list(alive.items()):
        work.kill()
        warn_killed(id)


def warn_killed(id: str) -> None:
    """Warn of one task. Where warnings are errors, this one is reported and raises nothing: it ends no event loop."""
    _Warns(id)


class _Warns:
    """Warns as it goes, which is at once: what is raised then goes to ``sys.unraisablehook``."""

    def __init__(self, id: str) -> None:
        self._id = id

    def __del__(self) -> None:
        warnings.warn(f"background task {self._id} was killed: await Tasks.aclose()", ResourceWarning, 2)
