"""The engine: a context manager made of strategies, which it asks in order until the view fits.

1. Nothing is done while the request fits (``Budget.trigger``); each projection then costs what is new.
2. When it does not, strategies are asked in order until the target is reached, far below: the prefix that
   providers cache changes rarely, and by a lot. Before that, the cheap ones are asked where that pays (``economy.py``).
3. A rewrite that breaks a rule (``rules.py``) or does not shrink is not applied. A strategy that fails is
   recorded, left out for a while when it fails again and again, and the next one is asked.
4. What was done is committed to the transcript or remembered: views never alternate.
5. When nothing helps, the best view is sent, and nothing is tried again until there is a reason to.

Read with: ``work.py`` (strategies), ``window.py`` (the levels), ``followed.py``, ``presets.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from unspool.kernel.errors import AgentBusyError
from unspool.kernel.messages import AgentMessage, Message
from unspool.kernel.ports import Compaction, ContextScope, ContextSnapshot, ContextUsage, Projection

from .attempt import Attempt
from .breaker import Breaker
from .correction import Correction
from .counters import counter_for
from .economy import Prices, Rent, prices_of
from .followed import Followed
from .pause import Pause
from .rules import edits_between
from .snapshot import snapshot_of, usage_of
from .tokens import MessageTokens, TextCounter
from .window import DEFAULT_WINDOW, budget_for, reserve_for
from .work import Budget, Strategy, check_strategy, described

_PRICES: Final = Prices()
_STEP: Final = 0.1  # of the window: a rewrite for the price alone saves at least that much


class _Asked(NamedTuple):
    """A request: how much of the transcript it showed, its tokens as counted, and as corrected."""

    length: int
    estimate: int
    tokens: int


class Engine:
    """A context manager for one conversation.

    ``window`` is what the model takes, input and output together; 0 asks the model, and is 128,000 where that does not
    say. ``reserve`` is kept free for the answer; 0 chooses (``reserve_for``). ``target`` is the level that a rewrite is to
    reach, as a fraction of what the trigger level leaves beside system prompt and tools. ``counter`` counts tokens: an encoding's name,
    a ``TextCounter``, or ``auto``: the model's encoding where its file is on disk, else an estimate. Counts are
    corrected by what the provider reports. ``max_tokens`` of messages and ``max_turns`` (replies) are limits besides the
    window, where they are not 0. ``prices`` weigh what a rewrite saves against the cache that it misses, until the
    provider's own are known from priced replies. ``max_failures`` in a row switch a strategy off for a while. ``name``
    and ``settings`` are for the record.

    Raises:
        ValueError: a number that makes no sense, or two strategies of one name.
        TypeError: one of ``strategies`` is none.
    """

    def __init__(
        self,
        strategies: Sequence[Strategy],
        *,
        window: int = 0,
        reserve: int = 0,
        target: float = 0.25,
        counter: TextCounter | str = "auto",
        max_tokens: int = 0,
        max_turns: int = 0,
        max_failures: int = 3,
        prices: Prices = _PRICES,
        name: str = "engine",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not 0 < target <= 1:
            raise ValueError(
                f"context: target is a fraction of what the trigger leaves, above 0 and up to 1: {target}"
            )
        if min(window, reserve) < 0 or (window and reserve >= window):
            raise ValueError(
                f"context: window and reserve are tokens, and the reserve is a part of it (window={window}, "
                f"reserve={reserve})"
            )
        if min(max_tokens, max_turns) < 0 or max_failures < 1:
            raise ValueError(
                f"context: max_tokens and max_turns are 0 or more, max_failures 1 or more (max_tokens={max_tokens}, "
                f"max_turns={max_turns}, max_failures={max_failures})"
            )
        for strategy in strategies:
            check_strategy(strategy)
        names = [strategy.name for strategy in strategies]
        if len(set(names)) < len(names):
            raise ValueError(f"context: two strategies of one name: {', '.join(names)}")
        self.name = name
        self._strategies = tuple(strategies)
        self._window = window
        self._reserve = reserve
        self._target = target
        self._given_counter = counter
        self._given_prices = prices
        self._max_tokens = max_tokens
        self._max_turns = max_turns
        self._max_failures = max_failures
        self._settings = dict(settings or {})
        self._tokens: MessageTokens | None = None
        self._model = ""
        self._overhead = 0  # tokens of system prompt and tools
        self._budget: Budget | None = None
        self._correction = Correction()
        self._forget()

    def _forget(self) -> None:
        """Begin a conversation."""
        self._breakers = {strategy.name: Breaker(self._max_failures) for strategy in self._strategies}
        self._followed: Followed | None = None
        self._pending: list[AgentMessage] | None = None  # shown where a commit was asked for and not made
        self._asked: _Asked | None = None  # the last request
        self._pause = Pause()
        self._rent = Rent()
        self._prices = self._given_prices
        self._ceiling = 0  # tokens, as they are counted, that were too many for this model
        self._turns_at = 0  # turns at which the limit on them is looked at again
        self._last: Compaction | None = None

    # --- what the kernel asks for

    async def project(self, view: Sequence[AgentMessage], scope: ContextScope, /) -> Projection:
        """What the model is to see, and the rewrite that was made for it."""
        followed = await self._follow(view, scope)
        budget = self._budget_of(followed, scope)
        if reason := self._due(followed, budget):
            rewrite = await self._rewrite(followed, budget, reason, scope)
            if rewrite is not None:
                budget = self._budget_of(followed, scope)
                shown = followed.shown if self._pending is None else self._pending
                return Projection(messages=shown, tokens=budget.tokens, compaction=rewrite)
        self._asked = _Asked(len(followed.transcript), self._overhead + followed.projected, budget.tokens)
        return Projection(messages=followed.shown, tokens=budget.tokens)

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope, /) -> Compaction:
        """A smaller view, after an overflow (what was sent is too much, whatever was counted) or for a person."""
        followed = await self._follow(view, scope)
        if reason == "overflow":
            tokens = followed.tokens.overhead(scope.system, scope.tools) + followed.projected
            self._ceiling = min(self._ceiling or tokens, tokens)
        rewrite = await self._rewrite(followed, self._budget_of(followed, scope), reason, scope)
        return rewrite or Compaction(changed=False)

    def sync(self, view: Sequence[AgentMessage], /) -> None:
        """The transcript was replaced: nothing that was remembered of it holds."""
        self._forget()

    def usage(self) -> ContextUsage | None:
        """How full the window is with what is shown; None before the first projection."""
        return usage_of(self._budget.tokens, self._budget.window) if self._followed and self._budget else None

    def snapshot(self) -> ContextSnapshot | None:
        """What is shown, of what, and what was last done; None before the first projection."""
        if self._followed is None or self._budget is None:
            return None
        return snapshot_of(
            self._followed,
            self._budget,
            self._corrected(self._overhead + self._followed.baseline),
            self._last,
            self._followed.tokens.counter.name,
        )

    @property
    def counted(self) -> int:
        """Messages counted so far for the model that is asked: the work that was new."""
        return self._tokens.counted if self._tokens is not None else 0

    def describe(self) -> Mapping[str, Any]:
        """The manager and its settings, as JSON."""
        return {
            "manager": self.name,
            "window": self._window,
            "reserve": self._reserve,
            "target": self._target,
            "max_tokens": self._max_tokens,
            "max_turns": self._max_turns,
            "max_failures": self._max_failures,
            "prices": {"cached": self._given_prices.cached, "written": self._given_prices.written},
            "counter": counter if isinstance(counter := self._given_counter, str) else counter.name,
            "strategies": [described(strategy) for strategy in self._strategies],
            **self._settings,
        }

    def renewed(self) -> "Engine":
        """An engine with the same settings and strategies that remembers nothing, for another conversation."""
        return Engine(
            self._strategies,
            window=self._window,
            reserve=self._reserve,
            target=self._target,
            counter=self._given_counter,
            max_tokens=self._max_tokens,
            max_turns=self._max_turns,
            max_failures=self._max_failures,
            prices=self._given_prices,
            name=self.name,
            settings=self._settings,
        )

    # --- what is counted

    async def _follow(self, view: Sequence[AgentMessage], scope: ContextScope) -> Followed:
        """Take in the transcript and what the provider reported of the last request; costs what is new."""
        tokens = await self._tokens_of(scope)
        if self._followed is None:
            self._followed = Followed(tokens)
        followed = self._followed
        if followed.tokens is not tokens:
            followed.recount(tokens)
        known = len(followed.transcript)
        new = followed.follow(view)
        if new is None:
            self._pending = self._asked = None
            return followed
        if self._pending is not None:  # the commit that was asked for was not made: it is remembered
            followed.show([*self._pending, *new])
            self._pending = None
        if new and self._asked is not None and self._asked.length == known:
            # only now that it was answered: projecting twice costs once
            self._rent.pay(self._asked.tokens, self._prices)
            if scope.sent_as_shown:
                self._learn(new[0], self._asked.estimate)
        if any(message.role == "user" for message in new):
            self._pause.lift()
        return followed

    def _due(self, followed: Followed, budget: Budget) -> str:
        """Why something is to be done now; empty where nothing is."""
        if self._max_turns and followed.turns > max(self._max_turns, self._turns_at):
            return "turns"
        if budget.tokens > budget.trigger:
            return "threshold" if self._pause.is_over(budget) else ""
        pays = budget.tokens > budget.target and self._rent.may_cover(budget.overhead, self._prices)
        return "cost" if pays else ""

    def _learn(self, reply: AgentMessage, estimate: int) -> None:
        """What the reply to the last request says of its size."""
        if isinstance(reply, Message) and reply.role == "assistant" and reply.usage is not None:
            self._correction.measured(self._model, estimate, reply.usage)
            self._prices = prices_of(reply.usage, self._prices)

    async def _tokens_of(self, scope: ContextScope) -> MessageTokens:
        """What counts for the model that is asked; another after a switch."""
        name = scope.model.name
        if self._tokens is None or name != self._model:
            counter = await counter_for(self._given_counter, name)
            if self._model and name != self._model:
                self._ceiling, self._asked, self._prices = 0, None, self._given_prices
                self._pause.lift()
                self._breakers = {each.name: Breaker(self._max_failures) for each in self._strategies}
            self._model, self._tokens = name, MessageTokens(counter, name)
        return self._tokens

    def _budget_of(self, followed: Followed, scope: ContextScope) -> Budget:
        """The request as it stands, and how much it may be; corrected by what was reported of this model."""
        self._overhead = followed.tokens.overhead(scope.system, scope.tools)
        window = self._window or scope.window or DEFAULT_WINDOW
        self._budget = budget_for(
            self._corrected(self._overhead + followed.projected),
            window,
            reserve_for(window, scope.options, self._reserve),
            target=self._target,
            ceiling=self._corrected(self._ceiling),
            most=self._max_tokens,
            overhead=self._corrected(self._overhead),
        )
        return self._budget

    def _corrected(self, tokens: int) -> int:
        return self._correction.apply(self._model, tokens)

    # --- what is done

    async def _rewrite(
        self, followed: Followed, budget: Budget, reason: str, scope: ContextScope
    ) -> Compaction | None:
        """Ask the strategies until the view fits; what they did, None where that is nothing.

        Raises:
            AgentBusyError: meanwhile another conversation was projected.
        """
        attempt = Attempt(followed, budget, reason, scope, self._overhead, self._corrected, self._breakers)
        transcript = followed.transcript
        await attempt.make(self._strategies)
        if followed.transcript is not transcript:
            raise AgentBusyError("context: two conversations at once with one manager, give each its own")
        pays = reason != "cost" or (
            attempt.tokens <= budget.tokens - _STEP * budget.window
            and self._rent.covers(attempt.rewritten(), self._prices)
        )
        self._rent.settle(attempt.tokens)
        if reason == "turns":
            self._turns_at = 0 if attempt.steps else followed.turns + max(1, self._max_turns // 4)
        if not pays:
            return None
        self._pause.judge(attempt.tokens, budget, failed=attempt.failed)
        if attempt.tokens > budget.trigger and self._pause.is_news:
            scope.warn(
                f"context: {attempt.tokens} tokens where at most {budget.trigger} fit, and nothing more can be made "
                f"smaller: it is sent as it is, with {attempt.largest()}",
                tokens=attempt.tokens,
                trigger=budget.trigger,
                overhead=budget.overhead,
                window=budget.window,
            )
        if not attempt.steps:
            return None
        attempt.announce()
        rewrite = Compaction(
            changed=True,
            commit=attempt.commits and not attempt.bound,
            edits=tuple(edits_between(followed.transcript, attempt.view)),
            reason=reason,
            steps=tuple(attempt.steps),
            tokens_before=budget.tokens,
            tokens_after=attempt.tokens,
            shown=len(attempt.view),
        )
        self._budget = budget.at(attempt.tokens)
        if rewrite.commit:
            self._pending = list(attempt.view)
        else:
            followed.show(attempt.view, bound=attempt.bound)
        self._last, self._asked = rewrite, None
        return rewrite
