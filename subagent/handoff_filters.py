"""What an agent that takes over sees of the conversation before it: functions from messages to messages.

1. A filter is given the messages before the reply that hands over, and gives those to show instead. It only
   removes or rewrites what the model sees; the transcript stays as it is.
2. The handing over itself (its call with reason and message, and the result) always follows, without the other
   calls of that reply, and then everything since.
3. What the filter gives must be a list of messages in which calls and results pair up, with the user's newest
   message among them; anything else ends the run, rather than show what was to be hidden.
4. A filter is asked once for each handoff, and again only when what is before it has changed, so that requests
   keep their prefix. In another process it is asked anew: it has to give the same for the same messages.

Read with: ``handoffs.py`` (who applies them), ``handoff_tool.py``.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TypeAlias

from msgspec.structs import replace

from unspool.kernel.messages import Message, Text, ToolCall, user_message
from unspool.kernel.sequence import assert_message_sequence, without_blanks

from .handoff_tool import TRANSFER

InputFilter: TypeAlias = Callable[[Sequence[Message]], Sequence[Message]]
"""From the messages before a handoff to those that the agent which takes over is shown of them."""


def keep_all(messages: Sequence[Message]) -> Sequence[Message]:
    """Everything: as without a filter."""
    return messages


def without_tools(messages: Sequence[Message]) -> Sequence[Message]:
    """Everything but calls of tools and their results."""
    return [kept for message in messages if (kept := _without_calls(message)) is not None]


def only_user_and_answers(messages: Sequence[Message]) -> Sequence[Message]:
    """What was said: messages of the user, and the text of answers that called no tool."""
    return [
        kept
        for message in messages
        if message.role != "tool"
        and not message.has_tool_calls
        and (kept := _only_text(message) if message.role == "assistant" else message) is not None
    ]


def last(count: int) -> InputFilter:
    """The last ``count`` messages. Results whose call is not among them are left out, and the user's newest
    message is shown in any case.

    Raises:
        ValueError: ``count`` is negative.
    """
    if count < 0:
        raise ValueError(f"last: must not be negative (count={count})")

    def last_messages(messages: Sequence[Message]) -> Sequence[Message]:
        start = max(len(messages) - count, 0)
        while start < len(messages) and messages[start].role == "tool":
            start += 1
        newest = _newest_of_user(messages)
        first = [messages[newest]] if newest is not None and newest < start else []
        return [*first, *messages[start:]]

    return last_messages


def as_history(messages: Sequence[Message]) -> Sequence[Message]:
    """One message that tells what was said before, and the user's newest message as it is.

    The telling is mechanical: who said what, without reasoning; of calls only the tools' names.
    """
    newest = _newest_of_user(messages)
    told = [line for place, each in enumerate(messages) if place != newest and (line := _told(each))]
    history = [user_message("\n".join([_HISTORY, *told, _HISTORY_END]))] if told else []
    return [*history, *([messages[newest]] if newest is not None else [])]


_HISTORY = "The conversation so far, before you took it over:\n<history>"
_HISTORY_END = "</history>"


class HandoffView:
    """Applies the filter of an agent to what its model is sent; see the rules above."""

    def __init__(self, agent: str, input_filter: InputFilter) -> None:
        self._agent = agent
        self._filter = input_filter
        self._before: Sequence[Message] = ()
        self._shown: Sequence[Message] | None = None  # what the filter gave for those

    def __call__(self, view: Sequence[Message]) -> Sequence[Message]:
        """The messages to send; ``view`` itself where the handoff is no longer in it.

        Raises:
            TypeError, ValueError: the filter gave what cannot be sent. Or what it raises.
        """
        found = _handing_over(view, self._agent)
        if found is None:
            return view
        place, call_id = found
        before = view[:place]
        if self._shown is None or not _same(before, self._before):
            self._shown = self._checked(before)
            self._before = before
        reply = view[place]
        results = list(takewhile(lambda message: message.role == "tool", view[place + 1 :]))
        since = view[place + 1 + len(results) :]
        return [*self._shown, *_transfer_of(reply, results, call_id), *since]

    def _checked(self, before: Sequence[Message]) -> Sequence[Message]:
        shown = list(self._filter(before))
        for message in shown:
            if not isinstance(message, Message):
                raise TypeError(f"input_filter: expected messages, got a {type(message).__name__}")
        assert_message_sequence(shown)
        newest = _newest_of_user(before)
        if newest is not None and not any(_stands_for(each, before[newest]) for each in shown):
            raise ValueError("input_filter: the user's newest message is missing")
        return shown


def _handing_over(view: Sequence[Message], agent: str) -> tuple[int, str] | None:
    """Which reply handed over to ``agent``, and with which call.

    It is the newest one whose call succeeded. A call may have handed over and have been skipped after a crash: so
    one that failed counts where the newest that succeeded was for another agent.
    """
    failed: tuple[int, str] | None = None
    results: dict[str, Message] = {}
    for place in range(len(view) - 1, -1, -1):
        message = view[place]
        if message.role == "tool":
            results[message.tool_call_id] = message
            continue
        for call in message.tool_calls:
            result = results.get(call.id)
            if call.name != TRANSFER or result is None:
                continue
            is_ours = call.args.get("agent") == agent
            if not result.is_error:
                return (place, call.id) if is_ours else failed
            if is_ours and failed is None:
                failed = place, call.id
    return failed


def _transfer_of(reply: Message, results: Sequence[Message], call_id: str) -> Sequence[Message]:
    """The reply with the call that handed over as its only one, and the result of that."""
    kept = [each for each in results if each.tool_call_id == call_id]
    if len(reply.tool_calls) == 1:
        return [reply, *kept]
    content = tuple([block for block in reply.content if type(block) is not ToolCall or block.id == call_id])
    return [replace(reply, content=content), *kept]


def _stands_for(shown: Message, message: Message) -> bool:
    return shown is message or shown == message or bool(message.id and shown.id == message.id)


def _same(ours: Sequence[Message], theirs: Sequence[Message]) -> bool:
    return len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs, strict=True))


def _newest_of_user(messages: Sequence[Message]) -> int | None:
    return next((at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "user"), None)


def _without_calls(message: Message) -> Message | None:
    """The message without calls; None where nothing is left, and for results."""
    if message.role == "tool":
        return None
    if not message.has_tool_calls:
        return message
    content = tuple([block for block in message.content if type(block) is not ToolCall])
    kept = replace(message, content=content, stop_reason="stop")
    return kept if kept.text.strip() else None  # reasoning alone is no answer


def _only_text(message: Message) -> Message | None:
    content = tuple([block for block in message.content if type(block) is Text])
    if not any(block.text.strip() for block in content if type(block) is Text):
        return None
    return without_blanks(message if content == message.content else replace(message, content=content))


def _told(message: Message) -> str:
    """A message as a line of the history; empty for what is not told."""
    if message.role == "tool":
        return ""
    names = ", ".join([call.name for call in message.tool_calls])
    parts = [message.text.strip(), f"[called {names}]" if names else ""]
    said = " ".join([part for part in parts if part])
    return f"{message.role}: {said}" if said else ""
