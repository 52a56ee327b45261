"""A model's summary in the place of the older part of a conversation.

It costs a model call and loses detail, so it is asked for last. The newest messages stay, the newest user message
always; an earlier summary goes into the new one. Where the model fails nothing is put in the place of what it was to
sum up: the error says why, and the next strategy is asked.

Read with: ``cuts.py``, ``summarizing.py`` (how the model is asked), ``checkpoint.py`` (what comes of it),
``extract.py`` (without a model).
"""

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Final, TypeAlias

from msgspec.structs import replace

from unspool.kernel.errors import ContextOverflowError
from unspool.kernel.messages import AgentMessage, user_message
from unspool.kernel.ports import ChatModel, ModelRequest
from unspool.kernel.sequence import repair_message_sequence, to_messages

from .checkpoint import SummaryInfo, checkpoint, earlier_text, info_of, tokens_of
from .cuts import Span, edits_for, room_for_messages, span_of
from .summarizing import Order, Summarizer, SummaryError, fault_of
from .summary_text import instruction_in_place, parsed
from .work import Rewrite, Work

_OUTPUT: Final = 0.8  # of the reserve
_LEAST_OUTPUT: Final = 256
_LEAST_WORTH: Final = 0.02  # of the trigger level: saving less is not worth a model call
_LEAST_SAVED: Final = 0.1  # of what is replaced: a summary has to be shorter than that

AfterSummary: TypeAlias = Callable[
    [SummaryInfo, int], Sequence[AgentMessage] | Awaitable[Sequence[AgentMessage]]
]
"""Given what a summary did and the tokens that there is room for: messages that go directly after it."""


class SummaryCheckpoint:
    """Replaces the older part of the view by a summary that a model writes.

    ``keep`` is how many tokens of the newest messages stay, ``max_tokens`` how long the answer may be; 0 chooses.
    ``model`` is another model to ask. ``share_prefix`` asks at the end of the conversation itself, which a provider
    may have cached (only without another model); an answer without tags is then asked for again as text. ``images``
    shows the model the images too. ``focus`` says what matters. ``after`` are functions that give messages to put after
    the summary; where one raises, there is no summary.
    """

    name = "summary"
    last_resort = True
    forced = True

    def __init__(
        self,
        *,
        keep: int = 0,
        max_tokens: int = 0,
        model: ChatModel | None = None,
        share_prefix: bool = False,
        images: bool = False,
        focus: str = "",
        after: Sequence[AfterSummary] = (),
        commits: bool = True,
    ) -> None:
        if min(keep, max_tokens) < 0:
            raise ValueError(
                f"context: keep and max_tokens are tokens (keep={keep}, max_tokens={max_tokens})"
            )
        self.keep = keep
        self.max_tokens = max_tokens
        self.share_prefix = share_prefix
        self.images = images
        self.focus = focus
        self.commits = commits
        self.summary_model = model.name if model else ""
        self._model = model
        self._after = tuple(after)

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        """The summary and what comes after it; None where there is nothing new to sum up, or too little.

        Raises:
            SummaryError: no answer can be used, or the summary is no shorter than what it is of.
            ModelError: what the model raises.
        """
        span = span_of(work, self.keep)
        if span is None:
            return None
        gone = tokens_of(work, span)
        least = 0 if work.forced else int(_LEAST_WORTH * work.budget.trigger)
        bounded = work.tokens(checkpoint(work, span, "", by="model"))  # what stays of it in any case
        if gone - bounded < max(least, _LEAST_SAVED * gone):
            return None
        text = await self._summary(work, span)
        message = checkpoint(work, span, text, by="model")
        if gone - work.tokens(message) < _LEAST_SAVED * gone:
            raise SummaryError(
                "summary: it is hardly shorter than what it would replace",
                tokens=work.tokens(message),
                replaced=gone,
            )
        info = info_of(work, span, message)
        injected = await self._injected(work, info)
        note = f"{info.compacted} messages{', within a turn' if info.split_turn else ''}"
        return Rewrite(edits=edits_for(span, [message, *injected]), note=note)

    async def _summary(self, work: Work, span: Span) -> str:
        current = work.view[work.newest_user] if 0 <= work.newest_user < span.cut.stop else None
        gone = {id(message) for message in span.fresh}
        order = Order(
            messages=[
                work.original(each)
                for each in work.view[: span.cut.stop]
                if id(each) in gone or each is current
            ],
            earlier=earlier_text(span.earlier),
            current=current,
            max_tokens=self._output(work),
            focus=(self.focus, work.instructions),
            images=self.images,
        )
        if self.share_prefix and self._model is None:
            summary = await self._in_place(work, order)
            if summary:
                return summary
        return await Summarizer(work, self._model).summary(order)

    def _output(self, work: Work) -> int:
        """Tokens that the answer may have: much shorter than what is to be reached, and never none."""
        if self.max_tokens:
            return self.max_tokens
        most = min(int(_OUTPUT * work.budget.reserve), room_for_messages(work) // 3)
        return max(_LEAST_OUTPUT, most)

    async def _in_place(self, work: Work, order: Order) -> str:
        """The answer to a question at the end of the conversation; empty where it does not fit or cannot be used."""
        budget, options = work.budget, work.options
        asked = instruction_in_place(words=order.words, split=order.current is not None, focus=order.focus)
        question = user_message(asked)
        output = order.max_tokens + (options.thinking_budget or 0)
        sent = [work.original(message) for message in work.view]  # as the last request had them
        tokens = budget.overhead + sum(map(work.tokens, [*sent, question]))
        if tokens + output > budget.window or (budget.ceiling and tokens >= budget.ceiling):
            return ""
        request = ModelRequest(
            messages=(*repair_message_sequence(to_messages(sent)), question),
            system=work.system,
            tools=work.tools,
            options=replace(
                options, max_tokens=output, context_management=None
            ),  # it is not to compact by itself
        )
        try:
            reply = await work.call_model(request)
        except ContextOverflowError:
            return ""
        cut_off = reply.stop_reason == "length"
        return "" if fault_of(reply) else parsed(reply.text, tags_needed=True, cut_off=cut_off)

    async def _injected(self, work: Work, info: SummaryInfo) -> list[AgentMessage]:
        room = max(0, work.budget.relief - info.tokens_after)
        injected: list[AgentMessage] = []
        for ask in self._after:
            given = ask(info, room)
            messages = list(await given if isawaitable(given) else given)
            injected += messages
            room = max(0, room - sum(map(work.tokens, messages)))
        return injected
