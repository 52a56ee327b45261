"""The manager that a log was recorded with, made again: its requests must be those of the log.

A log does not say where one process ended and another went on with the session, with a manager that had forgotten what
it remembered. So from the second run on both are followed, until their requests tell which it was.

Read with: ``context_projecting.py``, ``unspool.context.naming`` (``manager_of``).
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from unspool.context.naming import manager_of
from unspool.context.window import DEFAULT_WINDOW
from unspool.kernel.events import AgentStart, ConfigChanged, Fact
from unspool.kernel.messages import Usage
from unspool.kernel.ports import ContextManager
from unspool.kernel.projection import PassThrough

from .context_projecting import Asked, Follower, Ledger, Made
from .context_recording import Point, Recording, is_managers
from .context_scope import ReplayScope


class MemoryBlobs:
    """Where a manager that offloads results may put them while it is tried."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}

    def put(self, data: bytes, /) -> str:
        digest = sha256(data).hexdigest()
        self._data[digest] = data
        return digest

    def get(self, digest: str, /) -> bytes:
        return self._data[digest]


def descriptions_in(facts: Sequence[Fact]) -> list[Mapping[str, Any]]:
    """What the managers of a log said of themselves, each once, in order."""
    found: list[Mapping[str, Any]] = []
    for fact in facts:
        if (
            isinstance(fact, AgentStart | ConfigChanged)
            and fact.context is not None
            and fact.context not in found
        ):
            found.append(fact.context)
    return found


def check_known(recording: Recording) -> None:
    """See that each manager of a log can be made again.

    Raises:
        ValueError: one cannot.
    """
    for description in descriptions_in(recording.facts):
        _made(description, recording)
        if not description and any(map(is_managers, recording.facts)):
            raise ValueError("context: the manager did not say what it is")


def _made(description: Mapping[str, Any], recording: Recording) -> ContextManager:
    if not description:
        return PassThrough()
    named = str(description.get("counter", "auto"))
    known = named in ("auto", recording.counter.name)
    return manager_of(description, counter=recording.counter if known else named, blobs=MemoryBlobs())


class RecordedManager:
    """Follows the log as the manager that it was recorded with; ``reproduced`` of its requests came out the same.

    ``window`` is the model's, 0 where the log does not name it: other managers may be tried with another.
    """

    def __init__(self, recording: Recording, window: int) -> None:
        self.ledger = Ledger("recorded", recording, window or DEFAULT_WINDOW)
        self.reproduced = 0
        self._recording = recording
        self._window = window
        self._description: Mapping[str, Any] = {}
        self._likely: list[Follower] = []
        self._due = False  # a rewrite is in the log, and the request that it was made for is not (yet)

    @property
    def followers(self) -> Sequence[Follower]:
        """Those that may be the one, the likeliest first."""
        return self._likely

    @property
    def asked(self) -> Asked:
        """What the likeliest asked for."""
        return self._likely[0].asked if self._likely else Asked(0, 0, Usage(), ())

    def begin(self, description: Mapping[str, Any], *, died: bool) -> None:
        """A run begins; ``died``: the one before has no end."""
        if not self._likely or description != self._description:
            self._describe(description)
        elif died:
            self._likely = [self._fresh()]
        else:
            self._likely = [self._likely[0], self._fresh()]

    def change(self, description: Mapping[str, Any]) -> None:
        """The run goes on with another manager."""
        self._describe(description)

    def _describe(self, description: Mapping[str, Any]) -> None:
        self._description = description
        self._likely = [self._fresh()]

    def _fresh(self) -> Follower:
        old = self._likely[0] if self._likely else None
        scope = ReplayScope(self._recording, self._window)
        follower = Follower(_made(self._description, self._recording), scope, exact=True)
        if old is not None:
            scope.add(old.scope)
            follower.failures = list(old.failures)
            follower.restart(old.transcript)
        return follower

    def rewritten(self) -> None:
        """The log says that the manager rewrote the view before a request."""
        self._due = True

    async def settle(self) -> None:
        """Something else comes: the request that a rewrite was made for was not sent."""
        if self._due:
            self._due = False
            for each in self._likely:
                await each.choose()

    async def project(self, point: Point) -> None:
        """Make the request of a call, and see which of the followers made the recorded one."""
        self._due = False
        made = [(each, await each.project(point)) for each in self._likely]
        likeness = [_likeness(one, point) for _, one in made]
        best = max(likeness)
        likely = [pair for pair, like in zip(made, likeness, strict=True) if like == best]
        self._likely = [each for each, _ in likely]
        self.reproduced += best[0]
        self.ledger.take(point, likely[0][1], overflowed=point.overflowed)


def _likeness(made: Made, point: Point) -> tuple[bool, bool, bool]:
    """How a request is like the recorded one: the same, of as many tokens, after the same was asked of models."""
    fact = point.fact
    return made.fingerprint == fact.fingerprint, made.tokens == fact.tokens, tuple(made.asked) == point.asked
