"""Where each call of a reply stands: an immutable table in which one entry changes at little cost.

A reply may hold thousands of calls and each passes through four facts; a change copies a tuple, which
for a thousand calls takes a microsecond. How far results are committed is kept, so that nobody
searches for it.

Read with: ``state.py`` (who changes it), ``tool_batch.py`` (who asks).
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .events import ApprovalDecided, NestedCall
from .messages import Content, ToolCall


class CallState(Struct, frozen=True, gc=False):
    """Where one call of the open turn stands.

    ``stage``: requested, waiting (for approval), started, dispatched, answered, ended, committed. ``announced``
    says that its start is recorded. ``args`` are those that were approved or dispatched, where they
    differ from the call's. ``reason`` and ``details`` are why a gate asked, then what a person said, ``by`` who
    that was; ``preview`` what the person was shown, as long as the arguments are those. ``key`` is the idempotency
    key of the dispatch. ``nested`` are the calls below it that it waits for, ``answers`` the decisions on them;
    when all are decided it is ``answered``, and goes on.
    """

    call: ToolCall
    stage: str = "requested"
    announced: bool = False
    approved: bool = False
    declined: bool = False
    reason: str = ""
    by: str = ""
    details: dict[str, Any] = {}
    preview: dict[str, Any] | None = None
    args: dict[str, Any] | None = None
    key: str = ""
    outcome: str = ""
    content: tuple[Content, ...] = ()
    nested: tuple[NestedCall, ...] = ()
    answers: tuple[ApprovalDecided, ...] = ()

    @property
    def waiting(self) -> "tuple[CallState, ...]":
        """The calls that a person has to decide on: this one, or those below it."""
        if self.stage != "waiting":
            return ()
        undecided = self.undecided
        return tuple(
            [
                CallState(
                    replace(nested.call, id=nested.id),
                    "waiting",
                    reason=nested.reason,
                    details=nested.details,
                    preview=nested.preview,
                )
                for nested in self.nested
                if nested.id in undecided
            ]
            if self.nested
            else [self]
        )

    @property
    def undecided(self) -> set[str]:
        """The calls below it that nobody has decided on yet, by their ids."""
        return {nested.id for nested in self.nested} - {answer.call_id for answer in self.answers}


class CallStates(Struct, frozen=True, gc=False):
    """The calls of a reply in their order; ``call_states`` makes one.

    ``committed`` is how many calls, from the first one on, have their result in the transcript.
    """

    positions: dict[str, int] = {}
    states: tuple[CallState, ...] = ()
    committed: int = 0

    def change(self, call_id: str, **changes: Any) -> "CallStates":
        """The table with one call changed; the table itself where it has no such call."""
        position = self.positions.get(call_id)
        if position is None:
            return self
        held = list(self.states)
        held[position] = state = replace(held[position], **changes)
        states = tuple(held)
        committed = self.committed
        if position == committed and state.stage == "committed":
            committed = _committed(states, position + 1)
        return CallStates(self.positions, states, committed)

    @property
    def uncommitted(self) -> tuple[CallState, ...]:
        """The calls after those of ``committed``, in order."""
        return self.states[self.committed :]

    @property
    def next(self) -> CallState | None:
        """The first call whose result is not committed."""
        return self.states[self.committed] if self.committed < len(self.states) else None

    def get(self, call_id: str) -> CallState | None:
        """Where a call stands; None where it is none of these."""
        position = self.positions.get(call_id)
        return None if position is None else self.states[position]

    def __len__(self) -> int:
        return len(self.states)


def call_states(states: Iterable[CallState] = ()) -> CallStates:
    """The table of ``states``, whose calls have different ids."""
    held = tuple(states)
    positions = {state.call.id: position for position, state in enumerate(held)}
    return CallStates(positions, held, _committed(held, 0))


def _committed(states: tuple[CallState, ...], position: int) -> int:
    while position < len(states) and states[position].stage == "committed":
        position += 1
    return position


NO_CALLS = CallStates()
