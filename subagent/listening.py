"""Who follows the run of a child: the call that waits for it, and the ``on_message`` of its definition.

Read with: ``child.py`` (the caller), ``background.py`` (who follows one in the background).
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from unspool.kernel.agent import Agent
from unspool.kernel.events import Event, MessageEnd
from unspool.kernel.messages import AgentMessage
from unspool.kernel.state import AgentState

from .call import Call
from .definition import OnMessage
from .progress import Progress


class Audience(Protocol):
    """Who follows the run of a child."""

    detached: bool

    def started(self) -> None:
        """``child_started`` is recorded, or the child waits for another call of its session."""
        ...

    async def see(self, session: str, agent: Agent[Any], event: Event) -> None: ...
    def last_look(self) -> Sequence[str | AgentMessage]:
        """Messages for the child that came before it ends; where there are none, none comes any more."""
        ...


class Waiting:
    """The call that waits for a child: its events are shown in the session above, and as progress."""

    detached = False

    def __init__(
        self, call: Call, agent: str, place: str, started: Callable[[], None] = lambda: None
    ) -> None:
        self._call = call
        self.started = started
        self._progress: Progress | None = None
        self._who = agent, place

    async def see(self, session: str, agent: Agent[Any], event: Event) -> None:
        """See ``Audience``."""
        if self._progress is None:
            self._progress = Progress(self._call.ctx, self._who[0], session, self._who[1])
        self._progress.see(event)
        await self._call.nest.tell(session, event)

    def last_look(self) -> Sequence[str | AgentMessage]:
        """See ``Audience``; a host steers it, nobody else."""
        return ()


def committed(state: AgentState, fact: MessageEnd) -> AgentMessage | None:
    """The message that a fact committed, whole."""
    for index in range(len(state.ids) - 1, -1, -1):
        if state.ids[index] == fact.id:
            return state.messages[index]
    return None


def telling_messages(tell: OnMessage, name: str, task: str, agent: Agent[Any]) -> Callable[[Event], None]:
    """A listener that tells each message of a run."""

    def listen(event: Event) -> None:
        if isinstance(event, MessageEnd):
            message = committed(agent.state, event)
            if message is not None:
                tell(name, task, message)

    return listen
