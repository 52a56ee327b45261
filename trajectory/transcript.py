"""The conversation as it was written: every message, also those that a rewrite has replaced since.

Read with: ``written.py``, ``rebuild.py`` (what the model saw of it).
"""

from msgspec import Struct

from unspool.kernel.events import ContextCompacted, Fact, MessageEnd
from unspool.kernel.messages import AgentMessage
from unspool.kernel.state import AgentState, apply

from .sources import Source, facts_from
from .written import committed_by


class Written(Struct, kw_only=True):
    """A message as somebody wrote it: the user, the model, a tool, the host.

    ``cause`` says why the kernel or a hook wrote it. ``kept`` says whether the conversation still holds it,
    or a rewrite has replaced it.
    """

    seq: int
    time: float
    run_id: str
    id: str
    message: AgentMessage
    cause: str = ""
    kept: bool = True


def transcript(source: Source) -> list[Written]:
    """All messages of a session in the order in which they were written.

    What a rewrite put in their place, a summary for instance, is not among them; what a host put there
    (``Agent.set_messages``) is.

    Raises:
        LogError: the log is damaged.
    """
    state = AgentState()
    written: list[Written] = []
    for fact in facts_from(source):
        before, state = state, apply(state, fact)
        if not _is_rewrite(fact):
            cause = fact.cause if isinstance(fact, MessageEnd) else ""
            written += [
                Written(seq=fact.seq, time=fact.time, run_id=fact.run_id, id=id, message=message, cause=cause)
                for id, message, _ in committed_by(fact, before, state)
            ]
    held = set(state.ids)
    for each in written:
        each.kept = each.id in held
    return written


def _is_rewrite(fact: Fact) -> bool:
    return isinstance(fact, ContextCompacted) and fact.reason not in ("set_messages", "reset")
