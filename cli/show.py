"""``unspool show``: a stored session, read like a run.

Read with: ``view.py``, ``places.py``.
"""

from .output import console, raw_stdout
from .places import Place
from .view import TextView


def show(place: Place, *, as_json: bool) -> int:
    """Print the facts of a session, up to its end or its first damage."""
    if as_json:
        out = raw_stdout()
        for record in place.records():
            out.write(record.raw + b"\n")
        out.flush()
        return 0
    view = TextView(console(), live=False)
    for fact in place.facts():
        view.show(fact)
    if not view.ended:
        view.tell("the end is missing: the run is still going on, or its process died")
    return 0
