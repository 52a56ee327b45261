"""A model sums a conversation up: in one request where that fits its window, else in pieces, each with what came before.

Nothing is made up: where no answer can be used, that is the error. Read with: ``summary.py`` (the caller), ``serializing.py``,
``summary_text.py``.
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final, NamedTuple

from unspool.kernel.errors import AgentError, ContextOverflowError
from unspool.kernel.messages import AgentMessage, Content, Image, Message, Text
from unspool.kernel.ports import CallOptions, ChatModel, ModelRequest, SystemBlock, window_of

from .checkpoint import middle_out
from .estimate import Estimate
from .serializing import Detail, entries, images_of
from .summary_text import SYSTEM, instruction, parsed, question
from .work import Work

_DETAILS: Final = (  # harder and harder; what people said is shortened last, and never left out
    Detail(),
    Detail(result_chars=500, arg_chars=200),
    Detail(result_chars=200, arg_chars=100, text_chars=8_000),
    Detail(result_chars=120, arg_chars=60, text_chars=1_000),
    Detail(result_chars=60, arg_chars=40, text_chars=300),
)
_WHOLE: Final = 2  # with so many of them a conversation is tried to be summed up at once
_MOST_PIECES: Final = 8
_OUTPUT_PART: Final = 6  # at most a sixth of a window is for the answer
_USED: Final = 0.9  # of a window: counts are not exact
_EARLIER_PART: Final = 3  # at most a third of what is left is for an earlier summary
_LEAST_ROOM: Final = 200  # tokens of conversation in a request
_OVERFLOWS: Final = 3  # after each it is tried with less
_LESS: Final = 0.6
_TRIES: Final = 2  # for an answer that can be used
_WORDS: Final = 0.4  # in a token, with some left for the analysis


class SummaryError(AgentError):
    """There is no summary: the model did not give one that can be used, or the conversation is too long for it."""

    error_kind = "summary"


class Order(NamedTuple):
    """What is to be summed up, and how. ``current`` is the request that stays, where the cut goes through its turn."""

    messages: Sequence[AgentMessage]
    earlier: str
    current: AgentMessage | None
    max_tokens: int
    focus: tuple[str, ...]
    images: bool = False

    @property
    def words(self) -> int:
        """How long a summary may be, as a model understands it."""
        return max(50, int(_WORDS * self.max_tokens))


class Summarizer:
    """Asks one model, through the work that it is for."""

    def __init__(self, work: Work, model: ChatModel | None) -> None:
        budget = work.budget
        self.work = work
        self.model = model
        # of the run's own model an overflow may have shown that it takes less than it says
        own = min(budget.window, budget.trigger + budget.reserve)
        self.window = (window_of(model) or budget.window) if model else own

    async def summary(self, order: Order) -> str:
        """The text of the summary.

        Raises:
            SummaryError: there is none.
            ModelError: what the model raises; an overflow after it was tried with less three times.
        """
        order = order._replace(max_tokens=min(order.max_tokens, max(1, self.window // _OUTPUT_PART)))
        count = _counter(self.work, order.messages)
        fixed = count(SYSTEM) + count(
            instruction(words=1, earlier=True, split=True, part=(9, 9), focus=order.focus)
        )
        room = int(_USED * self.window) - order.max_tokens - fixed
        overflow: ContextOverflowError | None = None
        for _ in range(1 + _OVERFLOWS):
            try:
                pieces = self._pieces(order, room, count)
            except SummaryError:
                if overflow is None:
                    raise
                break  # it cannot be made smaller: what the model said is the reason
            try:
                return await self._running_summary(order, pieces, room, count)
            except ContextOverflowError as error:
                overflow = error
            room = int(_LESS * min(room, max(map(count, pieces)) + count(order.earlier)))
            order = order._replace(max_tokens=min(order.max_tokens, max(_LEAST_ROOM, room // 2)))
        assert overflow is not None
        raise overflow

    def _pieces(self, order: Order, room: int, count: Callable[[str], int]) -> list[str]:
        """The conversation as text, in as many parts as it takes.

        Raises:
            SummaryError: it takes too many.
        """
        earlier, most = count(order.earlier), room // _EARLIER_PART
        whole = room - min(earlier, most)
        part = room - min(max(earlier, order.max_tokens), most)  # with the record of the parts before
        for number, detail in enumerate(_DETAILS):
            texts = entries(order.messages, detail, current=order.current)
            sizes = [count(text) + 2 for text in texts]
            if number < _WHOLE and sum(sizes) <= whole:
                return ["\n\n".join(texts)]
            packed = _packed(texts, sizes, part) if number else None
            if packed is not None and len(packed) <= _MOST_PIECES and part >= _LEAST_ROOM:
                return packed
        raise SummaryError(
            "summary: the conversation is too long for the model's window, even in pieces and shortened",
            messages=len(order.messages),
            window=self.window,
            pieces=_MOST_PIECES,
        )

    async def _running_summary(
        self, order: Order, pieces: Sequence[str], room: int, count: Callable[[str], int]
    ) -> str:
        running = order.earlier
        most = room // _EARLIER_PART
        for number, piece in enumerate(pieces, 1):
            if count(running) > most:
                running = middle_out(running, len(running) * most // count(running))
            asked = instruction(
                words=order.words,
                earlier=bool(running),
                split=order.current is not None,
                part=(number, len(pieces)),
                focus=order.focus,
            )
            left = room - count(piece) - count(running)
            images = self._images(order, left) if len(pieces) == 1 else []
            running = await self._ask(piece, asked, running, order.max_tokens, images)
        return running

    def _images(self, order: Order, room: int) -> list[Image]:
        """The images, where they are wanted and there is room for all of them."""
        images = images_of(order.messages) if order.images else []
        fit = images and self.work.tokens(Message(role="user", content=tuple(images))) <= room
        return images if fit else []

    async def _ask(
        self, piece: str, asked: str, earlier: str, max_tokens: int, images: Sequence[Content]
    ) -> str:
        problem = ""
        for _ in range(_TRIES):
            text = question(piece, asked, earlier=earlier, problem=problem)
            request = ModelRequest(
                messages=(Message(role="user", content=(Text(text), *images)),),
                system=(SystemBlock(text=SYSTEM),),
                options=CallOptions(thinking="off", max_tokens=max_tokens),
            )
            reply = await self.work.call_model(request, model=self.model)
            problem = fault_of(reply)
            summary = parsed(reply.text, cut_off=reply.stop_reason == "length")
            if summary and not problem:
                return summary
            problem = problem or "its output limit was met before the summary began"
        raise SummaryError(
            f"summary: the model's answer cannot be used: {problem}",
            model=(self.model or self.work.model).name,
            tries=_TRIES,
        )


def fault_of(reply: Message) -> str:
    """Why a reply cannot be a summary; empty where it can."""
    if reply.failed:
        return f"it ended with {reply.stop_reason!r}"
    if reply.has_tool_calls:
        return "it calls tools"
    if not reply.text.strip():
        return "it is reasoning without text" if reply.thinking else "it is empty"
    if not parsed(reply.text) and reply.stop_reason != "length":
        return "its summary is empty"
    return ""


def _counter(work: Work, messages: Sequence[AgentMessage]) -> Callable[[str], int]:
    """Counts the tokens of a text: an estimate, and more where the messages turn out to be more by the engine's count."""
    estimate = Estimate().count
    plain = [message for message in messages if message.text and not message.has_tool_calls][:200]
    counted = sum(map(work.tokens, plain))
    estimated = sum([estimate(message.text) for message in plain])
    scale = max(1.0, counted / estimated) if estimated else 1.0
    return lambda text: ceil(scale * estimate(text))


def _packed(texts: Sequence[str], sizes: Sequence[int], room: int) -> list[str] | None:
    """The texts in as few parts as hold ``room`` tokens each; None where one alone is more."""
    parts: list[list[str]] = []
    left = 0
    for text, size in zip(texts, sizes, strict=True):
        if size > room:
            return None
        if size > left:
            parts.append([])
            left = room
        parts[-1].append(text)
        left -= size
    return ["\n\n".join(part) for part in parts]
