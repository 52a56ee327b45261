"""What changes a conversation while no run is active: queues cleared, messages replaced.

All of it is facts, so that the log and the state say the same.

Read with: ``agent.py`` (the caller), ``state.py`` (how these facts fold).
"""

from collections.abc import Sequence

from msgspec.structs import replace

from .abort import Abort
from .events import ContextCompacted, MessageEnd, QueueChanged, Replaced, Stored
from .messages import AgentMessage
from .recorder import Recorder
from .stream import EventStream


def clear(recorder: Recorder, *, steering: bool, follow_ups: bool, prompts: bool = False) -> None:
    """Drop queued messages; with ``prompts`` also those that were taken and not committed."""
    recorder.soon(lambda: _clear(recorder, steering, follow_ups, prompts))


def _clear(recorder: Recorder, steering: bool, follow_ups: bool, prompts: bool) -> None:
    state = recorder.state
    queues = {
        "prompt": state.prompts if prompts else (),
        "steering": state.steering if steering else (),
        "follow_up": state.follow_ups if follow_ups else (),
    }
    for lane, queue in queues.items():
        taken = [queued for queued in state.taken if prompts and queued.lane == lane]
        if queue or taken:
            ids = tuple([queued.id for queued in (*queue, *taken)])
            recorder.record(QueueChanged(lane, "cleared", ids))


def replace_messages(recorder: Recorder, messages: Sequence[AgentMessage], reason: str) -> None:
    """Put ``messages`` in the place of the whole conversation."""
    stored = tuple([recorder.store(message) for message in messages])
    with recorder.lock:
        ids = recorder.state.ids
        if len(ids):
            recorder.record(
                ContextCompacted(
                    committed=True,
                    reason=reason,
                    messages_before=len(ids),
                    messages_after=len(stored),
                    messages=stored,
                    replaced=Replaced(first=ids[0], last=ids[-1]),
                )
            )
        else:
            for each in stored:
                _import(recorder, each)


def _import(recorder: Recorder, stored: Stored) -> None:
    id = f"m{recorder.state.message_count + 1}"
    message = replace(stored.message, id=id) if stored.message is not None else None
    recorder.record(MessageEnd(id, message, stored.app, cause="import"))


async def close_open_turn(run: EventStream, abort: Abort) -> None:
    """Let a run that is aborted before it begins close what an earlier one has left open."""
    abort.fire(marker=False)
    async with run:
        await run.result()
