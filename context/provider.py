"""What a provider has compacted itself need not be sent to it again.

Ask for it with ``CallOptions(context_management={"compact_at": 150_000})``. Above that many tokens the provider sums up
what came before and puts a compaction block into its reply, which goes back with it. What stands before the newest one is
nothing to it any more: Anthropic skips it, OpenAI says that it may be left out. The summary of the one is plain text,
of the other encrypted; either is read by its provider alone.

Read with: ``work.py``, ``engine.py``, ``unspool.kernel.ports`` (``CallOptions``).
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from unspool.kernel.messages import AgentMessage, Opaque
from unspool.kernel.ports import ChatModel, Edit

from .work import Rewrite, Work


@runtime_checkable
class _SpeaksFormat(Protocol):
    """A model that says which wire format it speaks, as ``Opaque.provider`` names it."""

    @property
    def format(self) -> str: ...


class DropCompacted:
    """Leave out what came before the newest compaction by the provider of the model that is asked.

    Only where that very model made it: another is not sent the block, or may not be able to read it. Hence it is not
    committed, and holds for this model only (``one_model``): after a switch everything is shown again. System messages
    and the newest user message stay, and a reply that holds such a block stays whole. An encrypted summary counts as its JSON
    does, which is more than it costs the model.
    """

    name = "provider_compaction"
    commits = False
    one_model = True

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        """Edits that take everything before that reply away."""
        newest = _newest_compaction(work.view, work.model)
        kept = [at for at in range(newest) if work.view[at].role == "system" or at == work.newest_user]
        starts, stops = [0, *[at + 1 for at in kept]], [*kept, newest]
        edits = [
            Edit(start=start, stop=stop) for start, stop in zip(starts, stops, strict=True) if start < stop
        ]
        return Rewrite(edits=edits, note=f"compacted by {work.model.name}") if edits else None


def _newest_compaction(view: Sequence[AgentMessage], model: ChatModel) -> int:
    """The index of the newest reply in which ``model`` has compacted what came before; 0 without one."""
    for at in range(len(view) - 1, 0, -1):
        if view[at].role != "assistant":
            continue
        message = view[at].to_message()
        if message is not None and any(
            _is_compaction(each, message.origin, model) for each in message.content if type(each) is Opaque
        ):
            return at
    return 0


def _is_compaction(block: Opaque, origin: str, model: ChatModel) -> bool:
    """Whether ``model`` made the block, and so is sent it, and it holds a summary: one without has failed."""
    data, format = block.data, block.provider
    if not isinstance(data, dict) or data.get("type") != "compaction":
        return False
    speaks = model.format if isinstance(model, _SpeaksFormat) else format
    summed_up = bool(data.get("content") or data.get("encrypted_content"))
    return summed_up and speaks == format and origin == f"{format}:{model.name}"
