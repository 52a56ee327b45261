"""Where to fork a session, to ask again or to ask something else: numbers of facts for ``Sessions.fork``.

To try a run again, fork before it and prompt the fork with the same; to edit a message, fork before it and
prompt the fork with another.

Read with: ``runs.py``, ``sessions.py`` (``fork``).
"""

from collections.abc import Iterable
from typing import Any

from unspool.kernel.errors import LogError
from unspool.kernel.events import AgentStart, Fact, MessageEnd, QueueChanged

_NAMED = 20  # of what there is in an error


def before_run(facts: Iterable[Fact], run_id: str) -> int:
    """The number of the last fact before a run; 0 where the session begins with it.

    Raises:
        LogError: (``no_fact``) there is no such run.
    """
    known: list[str] = []
    for fact in facts:
        if isinstance(fact, AgentStart):
            if fact.run_id == run_id:
                return fact.seq - 1
            known.append(fact.run_id)
    raise _nothing("log: there is no such run", run=run_id, runs=known[-_NAMED:])


def before_message(facts: Iterable[Fact], message_id: str) -> int:
    """The number of the last fact before somebody sent a message: before the run that it was a prompt of, or,
    where it was queued in another way, before it was.

    ``message_id`` is that of the message in the conversation, or, for one that never came into it, that
    under which it was queued.

    Raises:
        LogError: (``no_fact``) there is no such message, or nobody sent it: it is an answer, a result, an
            imported message, or one that a hook made.
    """
    starts: dict[str, int] = {}
    points: dict[str, int] = {}  # by queue id
    sent: list[str] = []
    for fact in facts:
        match fact:
            case AgentStart():
                starts[fact.run_id] = fact.seq
            case QueueChanged(action="queued"):
                start = starts.get(fact.run_id) if fact.lane == "prompt" else None
                points[fact.ids[0]] = (fact.seq if start is None else start) - 1
            case MessageEnd() if fact.queue_id in points:
                if fact.id == message_id:
                    return points[fact.queue_id]
                sent.append(fact.id)
    if message_id in points:
        return points[message_id]
    what = "log: there is no such message that somebody sent"
    raise _nothing(what, id=message_id, messages=sent[-_NAMED:])


def _nothing(what: str, **details: Any) -> LogError:
    return LogError(what, kind="no_fact", **details)
