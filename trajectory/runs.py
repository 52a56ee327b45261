"""The runs of a session, one after another, without its messages in between.

Read with: ``points.py`` (where to fork to ask again), ``unspool.kernel.events``.
"""

from collections.abc import Iterable

from msgspec import Struct

from unspool.kernel.codec import transcript_entry
from unspool.kernel.events import (
    AgentEnd,
    AgentStart,
    ChildEnded,
    Fact,
    MessageEnd,
    ModelResponse,
    QueueChanged,
)
from unspool.kernel.messages import AgentMessage, Usage


class RunInfo(Struct, kw_only=True, omit_defaults=True):
    """A run: why it began and after which other one, what it was asked, its first and last fact.

    ``prompts`` have the ids that they have in the conversation, once they are there. ``end_reason`` is empty
    as long as the run has no end: it is under way, or its process died. ``usage`` is that of its model calls,
    ``child_usage`` that of nested sessions which ended in it.
    """

    run_id: str
    previous_run: str = ""
    cause: str = ""
    prompts: list[AgentMessage] = []
    first: int
    last: int
    end_reason: str = ""
    usage: Usage = Usage()
    child_usage: Usage = Usage()


def runs(facts: Iterable[Fact]) -> list[RunInfo]:
    """The runs that ``facts``, a session's from the first on, tell of; in their order."""
    found: dict[str, RunInfo] = {}
    places: dict[str, tuple[RunInfo, int]] = {}  # of prompts that are queued
    for fact in facts:
        if isinstance(fact, AgentStart):
            found[fact.run_id] = RunInfo(
                run_id=fact.run_id,
                previous_run=fact.previous_run,
                cause=fact.cause,
                first=fact.seq,
                last=fact.seq,
            )
        if isinstance(fact, MessageEnd) and fact.queue_id in places:
            asker, place = places.pop(fact.queue_id)  # after a crash the message is committed by a later run
            asker.prompts[place] = transcript_entry(fact.message, fact.app)
        run = found.get(fact.run_id)
        if run is None:
            continue  # recorded while no run was active
        run.last = fact.seq
        match fact:
            case QueueChanged(lane="prompt", action="queued", ids=(id, *_)):
                places[id] = run, len(run.prompts)
                run.prompts.append(transcript_entry(fact.message, fact.app))
            case ModelResponse():
                run.usage += fact.usage
            case ChildEnded():
                run.child_usage += fact.usage
            case AgentEnd():
                run.end_reason = fact.reason
    return list(found.values())
