"""``unspool show``: a stored session, read like a run.

Read with: ``view.py``, ``places.py``.
"""

from unspool.kernel.events import AgentStart, ChildStarted

from .output import console, raw_stdout
from .places import Place, StoredSession
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
    nested, above = dict[str, None](), ""
    for fact in place.facts():
        view.show(fact)
        match fact:
            case ChildStarted():
                nested[fact.child] = None
            case AgentStart() if fact.lineage is not None:
                above = fact.lineage.root or fact.lineage.parent
    if not view.ended:
        view.tell("the end is missing: the run is still going on, or its process died")
    if nested:
        hint = f": show --tree {place.name}" if isinstance(place, StoredSession) else ""
        view.tell(f"{len(nested)} nested session{'' if len(nested) == 1 else 's'}{hint}")
    if above:
        view.tell(f"nested in {above}: show --tree {above}")
    return 0
