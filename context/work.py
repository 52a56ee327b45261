"""What a strategy is given, and what it gives back.

A strategy of your own is a small class::

    class DropImages:
        name = "drop_images"
        commits = True

        async def rewrite(self, work: Work, /) -> Rewrite | None:
            edits = [
                Edit(start=at, stop=at + 1, messages=(without_images(message),))
                for at, message in enumerate(work.view)
                if at < work.tail and has_images(message)
            ]
            return Rewrite(edits=edits) if edits else None

Read with: ``engine.py`` (the caller), ``rules.py`` (what a rewrite must keep), ``marks.py``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from unspool.kernel.json_edge import clean_text
from unspool.kernel.messages import AgentMessage, Message
from unspool.kernel.ports import (
    CallOptions,
    ChatModel,
    ContextScope,
    Edit,
    ModelRequest,
    SystemBlock,
    ToolSpec,
)


class Budget(Struct, frozen=True, kw_only=True):
    """Tokens of the request as it stands, and how many it may have.

    Above ``trigger`` something is done, until ``target`` is reached; what costs a model call or loses much is
    left alone once ``relief`` is. ``window`` is what the model takes, input and output together, and
    ``reserve`` what is kept free of it for the answer. ``overhead`` are system prompt and tools: of the
    ``tokens``, what no strategy can save. ``ceiling`` is how many tokens were refused as too many, 0 where none were.
    """

    tokens: int
    window: int
    reserve: int
    trigger: int
    relief: int
    target: int
    overhead: int = 0
    ceiling: int = 0

    def at(self, tokens: int) -> "Budget":
        """The same levels for a request of ``tokens``."""
        return replace(self, tokens=tokens)

    @property
    def excess(self) -> int:
        """How many tokens are to be saved to reach the target."""
        return max(0, self.tokens - self.target)


class Rewrite(Struct, frozen=True, kw_only=True):
    """What a strategy wants done: in order, what stands for what of the view; and a note for the record."""

    edits: Sequence[Edit]
    note: str = ""


def checked_rewrite(given: Any) -> Rewrite:
    """What a strategy gave, if that is a rewrite; its note as a log can hold it.

    Raises:
        TypeError: it is something else, or made of something else.
    """
    if not isinstance(given, Rewrite):
        raise TypeError(f"it gave {type(given).__name__}, where a Rewrite or None is due")
    for edit in given.edits:
        if not isinstance(edit, Edit):
            raise TypeError(f"an edit is {type(edit).__name__}, where an Edit is due")
        for message in edit.messages:
            if not isinstance(message, AgentMessage):
                raise TypeError(f"an edit puts {type(message).__name__} where a message is due")
    if not isinstance(given.note, str):
        raise TypeError(f"its note is {type(given.note).__name__}, where text is due")
    return replace(given, note=clean_text(given.note))


def check_strategy(strategy: Any) -> None:
    """See that something is a strategy.

    Raises:
        TypeError: it has no name, does not say whether it commits, has no ``rewrite``, or is a class.
    """
    what = getattr(strategy, "name", None) if not isinstance(strategy, type) else None
    good = isinstance(what, str) and isinstance(getattr(strategy, "commits", None), bool)
    if not (good and callable(getattr(strategy, "rewrite", None))):
        raise TypeError(
            f"context: no strategy: {strategy!r}; one is an object with name (text), commits (True or False) and rewrite"
        )


class Strategy(Protocol):
    """One way to make a view smaller.

    ``commits`` says whether what it does becomes the transcript; where not, the engine remembers it. A ``last``
    resort (``last_resort``, optional, False) costs a model call or loses much: it is left alone once the relief level is
    reached. What a ``one_model`` strategy (optional, False) does is good for the model alone that is asked: it is never
    committed, nor what is done on top of it, and another model is shown everything. ``forced`` (optional, False)
    strategies are those that do what a person asks for who asks for a compaction.
    """

    @property
    def name(self) -> str: ...
    @property
    def commits(self) -> bool: ...

    async def rewrite(self, work: "Work", /) -> Rewrite | None:
        """What to do to ``work.view``; None where there is nothing to do. Nothing given is ever changed.

        Raises:
            Exception: whatever goes wrong; it is recorded, and the next strategy is asked.
        """
        ...


class Work:
    """A view to be made smaller, and what may be used for it.

    ``view`` are the messages as the strategies before have left them. ``tail`` is where the turn under way begins
    (the last reply with calls and all that follows it, or the newest user message and what follows):
    its messages may be shortened, not left out. ``newest_user`` is the index of the newest user message, -1
    without one: it stays as it is. ``reason``: threshold, cost, turns, overflow, manual.
    """

    __slots__ = (
        "_announce",
        "_origins",
        "_scope",
        "_tokens",
        "budget",
        "newest_user",
        "reason",
        "tail",
        "view",
    )

    def __init__(
        self,
        view: Sequence[AgentMessage],
        budget: Budget,
        reason: str,
        scope: ContextScope,
        *,
        tail: int,
        newest_user: int,
        tokens: Callable[[AgentMessage], int],
        origins: Mapping[int, AgentMessage],
        announce: Callable[[], None],
    ) -> None:
        self.view = view
        self.budget = budget
        self.reason = reason
        self.tail = tail
        self.newest_user = newest_user
        self._scope = scope
        self._tokens = tokens
        self._origins = origins
        self._announce = announce

    @property
    def forced(self) -> bool:
        """Whether something has to be done whatever the budget says."""
        return self.reason in ("overflow", "manual")

    @property
    def instructions(self) -> str:
        """What a person who asked for this wants of a summary; empty mostly."""
        return self._scope.instructions

    def tokens(self, message: AgentMessage) -> int:
        """Tokens of a message, counted once."""
        return self._tokens(message)

    def total(self, start: int = 0, stop: int | None = None) -> int:
        """Tokens of a part of the view."""
        return sum([self._tokens(message) for message in self.view[start:stop]])

    def original(self, message: AgentMessage) -> AgentMessage:
        """The message that another strategy has just put this one in the place of; itself mostly."""
        return self._origins.get(id(message), message)

    # --- the request and its model

    @property
    def model(self) -> ChatModel:
        return self._scope.model

    @property
    def system(self) -> tuple[SystemBlock, ...]:
        return self._scope.system

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self._scope.tools

    @property
    def options(self) -> CallOptions:
        return self._scope.options

    async def call_model(
        self, request: ModelRequest, purpose: str = "compaction", *, model: ChatModel | None = None
    ) -> Message:
        """Ask the model of the run, or another: announced, recorded and priced.

        Raises:
            ModelError: what the model raises.
        """
        self._announce()
        return await self._scope.call_model(request, purpose, model=model)

    def warn(self, message: str, **details: Any) -> None:
        """Say what went wrong and how it goes on; an ``error`` fact that is not fatal."""
        self._scope.warn(message, **details)


def described(strategy: Strategy) -> dict[str, Any]:
    """A strategy and those of its settings that have a JSON form, for the record."""
    settings = {name: value for name, value in vars(strategy).items() if not name.startswith("_")}
    return {"strategy": strategy.name, **{key: value for key, value in settings.items() if _is_plain(value)}}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
