"""One go at making a view smaller: the strategies in order, each checked, until it fits.

Read with: ``engine.py`` (the caller), ``rules.py``, ``work.py``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from unspool.kernel.edits import edited
from unspool.kernel.errors import LogError, describe, error_kind
from unspool.kernel.events import CompactionStep
from unspool.kernel.lowering import same_prefix
from unspool.kernel.messages import AgentMessage
from unspool.kernel.ports import ContextScope

from .breaker import Breaker
from .followed import Followed
from .rules import broken_rule, newest_user, tail_of
from .work import Budget, Rewrite, Strategy, Work, checked_rewrite

_LEAST_GAIN: Final = 0.01  # of the trigger level: saving less is not worth a changed prefix


class Attempt:
    """The view so far, its tokens, and the steps that led to it."""

    def __init__(
        self,
        followed: Followed,
        budget: Budget,
        reason: str,
        scope: ContextScope,
        overhead: int,
        corrected: Callable[[int], int],
        breakers: Mapping[str, Breaker],
    ) -> None:
        self.view: tuple[AgentMessage, ...] = tuple(followed.shown)
        self.tokens = budget.tokens
        self.steps: list[CompactionStep] = []
        self.commits = False
        self.bound = followed.bound
        self.failed = False
        self._followed = followed
        self._budget = budget
        self._reason = reason
        self._scope = scope
        self._overhead = overhead
        self._corrected = corrected
        self._breakers = breakers
        self._plan = ""
        self._announced = False
        self._origins: dict[int, AgentMessage] = {}
        self._held: list[AgentMessage] = []  # what ``_origins`` knows by identity must live as long

    async def make(self, strategies: Sequence[Strategy]) -> None:
        """Ask the strategies in order until the level of each is reached.

        A person who asks for a compaction wants one, and a limit on turns is one, whatever the level: they are asked
        until one has done something; for a person first those that do that (``forced``).
        """
        one = self._reason in ("manual", "turns")
        if self._reason == "manual":
            strategies = sorted(strategies, key=lambda each: not getattr(each, "forced", False))
        for strategy in strategies:
            if one and self.steps:
                break
            last = getattr(strategy, "last_resort", False)
            if last and self._reason == "cost":
                continue
            level = self._budget.relief if last else self._budget.target
            if not (self.tokens > level or one):
                continue
            asked_for = self._reason in ("overflow", "manual")  # then nothing is left out that may help
            if not (asked_for or self._breakers[strategy.name].lets_pass()):
                self.failed = True
                continue
            self._plan = strategy.name
            await self._ask(strategy)

    def rewritten(self) -> int:
        """Tokens after the first message that is another than before: what the provider has not cached."""
        kept = same_prefix(self._followed.shown, self.view)
        return self._corrected(self._followed.tokens.total(self.view[kept:]))

    def largest(self) -> str:
        """What takes most of the tokens, in words: a message by its role and id, or system prompt and tools."""
        message = max(self.view, key=self._tokens, default=None)
        tokens = self._tokens(message) if message is not None else 0
        if message is None or tokens < self._budget.overhead:
            return f"{self._budget.overhead} tokens of system prompt and tools"
        return f"{tokens} tokens in the {message.role} message {getattr(message, 'id', '')}".rstrip()

    def announce(self) -> None:
        """Say, once, that a rewrite begins; an overflow and a person's wish have been announced."""
        if not self._announced and self._reason in ("threshold", "turns", "cost"):
            self._scope.announce(self._reason, self._plan)
        self._announced = True

    async def _ask(self, strategy: Strategy) -> None:
        breaker = self._breakers[strategy.name]
        try:
            rewrite = await strategy.rewrite(self._work())
            if rewrite is not None:
                self._take(strategy, checked_rewrite(rewrite))
        except LogError:
            raise
        except Exception as error:  # noqa: BLE001 (a strategy that fails is recorded, and the next one is asked)
            self.failed = True
            out = breaker.failed()
            self._scope.warn(
                f"context: strategy {strategy.name} failed{', and is left out for a while' if out else ''}: "
                f"{describe(error)}",
                strategy=strategy.name,
                error_kind=error_kind(error),
            )
        else:
            breaker.succeeded()

    def _work(self) -> Work:
        return Work(
            self.view,
            self._budget.at(self.tokens),
            self._reason,
            self._scope,
            tail=tail_of(self.view),
            newest_user=newest_user(self.view),
            tokens=self._tokens,
            origins=self._origins,
            announce=self.announce,
        )

    def _tokens(self, message: AgentMessage) -> int:
        return self._corrected(self._followed.tokens.message(message))

    def _take(self, strategy: Strategy, rewrite: Rewrite) -> None:
        """Make a rewrite the view, if it keeps the rules and makes the view smaller.

        Raises:
            ValueError: it breaks one.
        """
        if not rewrite.edits:
            return
        view, counted = tuple(edited(self.view, rewrite.edits)), self._followed.tokens
        tail, newest = tail_of(self.view), newest_user(self.view)
        if broken := broken_rule(self.view, view, tail=tail, newest=newest):
            raise ValueError(f"its rewrite is not applied: {broken}")
        tokens = self._corrected(self._overhead + counted.total(view))
        least = (
            1
            if self._reason not in ("threshold", "cost")
            else max(1, int(_LEAST_GAIN * self._budget.trigger))
        )
        if tokens > self.tokens - least:
            return
        self._remember_origins(rewrite)
        touched = sum([edit.stop - edit.start for edit in rewrite.edits])
        self.steps.append(
            CompactionStep(
                strategy=strategy.name,
                messages=touched,
                tokens_before=self.tokens,
                tokens_after=tokens,
                note=rewrite.note,
            )
        )
        self.view, self.tokens = view, tokens
        self.commits = self.commits or strategy.commits
        self.bound = self.bound or getattr(strategy, "one_model", False)

    def _remember_origins(self, rewrite: Rewrite) -> None:
        for edit in rewrite.edits:
            if len(edit.messages) == edit.stop - edit.start:
                for old, new in zip(self.view[edit.start : edit.stop], edit.messages, strict=True):
                    self._origins[id(new)] = self._origins.get(id(old), old)
                    self._held += (old, new)
