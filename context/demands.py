"""What a conversation shows to have been needed: paths asked for again, ids quoted.

A *demand* is a read, a search or a change of a file that was before the model earlier, or an id in a reply which
first came up in an earlier tool result. What is asked for the first time is no demand: nothing could have shown it.

Read with: ``items.py``, ``metrics.py`` (recall).
"""

from unspool.kernel.messages import AgentMessage, ContextDemand, Message, ProvidesDemands

from .items import ContextReader
from .marks import kind_of


class Demands:
    """Follows a conversation as it was written, message by message; each costs what is in it."""

    def __init__(self, reader: ContextReader) -> None:
        self._reader = reader
        self._files: set[str] = set()
        self._first: dict[str, str] = {}  # id → role of the message in which it came up

    def see(self, message: AgentMessage) -> tuple[ContextDemand, ...]:
        """Take in the next message: what it shows to have been needed of those before, each once."""
        if kind_of(message):
            return ()  # made by a strategy, not written
        found: list[ContextDemand] = []
        if type(message) is not Message and isinstance(message, ProvidesDemands):
            found += message.context_demands()
        elif message.role == "assistant":
            found += [each for each in self._reader.wanted_files(message) if each.identity in self._files]
            found += [
                ContextDemand(kind="id", identity=id, signal="quoted")
                for id in self._reader.ids(message)
                if self._first.get(id) == "tool"
            ]
        self._remember(message)
        return tuple(dict.fromkeys(found)) if len(found) > 1 else tuple(found)

    def _remember(self, message: AgentMessage) -> None:
        for item in self._reader.items(message):
            if item.kind == "file":
                self._files.add(item.identity)
        for id in self._reader.ids(message):
            self._first.setdefault(id, message.role)
