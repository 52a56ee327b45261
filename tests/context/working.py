"""A ``Work`` for one strategy, without an engine: the view, its levels, and a scope that answers from a
script.

Read with: ``scoping.py`` (the scope), ``histories.py`` (random views).
"""

from collections.abc import Callable, Sequence
from typing import Any

from unspool.context.marks import kind_of
from unspool.context.rules import newest_user, tail_of
from unspool.context.work import Budget, Rewrite, Strategy, Work
from unspool.kernel import AgentMessage, Image, Text, ToolCall
from unspool.kernel.edits import edited
from unspool.kernel.messages import assistant_message, tool_message

from .scoping import Answer, Scope

Tokens = Callable[[AgentMessage], int]


def count(message: AgentMessage) -> int:
    """Four tokens, one for every four characters begun, ten for a call and a thousand for an image."""
    lowered = message.to_message()
    return 0 if lowered is None else 4 + sum([_block(block) for block in lowered.content])


def _block(block: Any) -> int:
    match block:
        case Text(text):
            return -(-len(text) // 4)
        case ToolCall():
            return 10 + -(-len(block.arguments_text) // 4)
        case Image():
            return 1000
        case _:
            return 10


def work_of(
    view: Sequence[AgentMessage],
    *,
    tokens: Tokens = count,
    trigger: int = 0,
    target: int = 0,
    overhead: int = 0,
    reason: str = "threshold",
    replies: Sequence[Answer] = (),
    scope: Scope | None = None,
) -> Work:
    """Work on ``view``. Without levels everything is too much: the target is 0."""
    trigger = trigger or target
    total = overhead + sum([tokens(message) for message in view])
    return Work(
        view,
        Budget(
            tokens=total,
            window=2 * trigger,
            reserve=trigger,
            trigger=trigger,
            relief=target + int(0.8 * (trigger - target)),
            target=target,
            overhead=overhead,
        ),
        reason,
        scope or Scope(*replies),
        tail=tail_of(view),
        newest_user=newest_user(view),
        tokens=tokens,
        origins={},
        announce=lambda: None,
    )


async def done(strategy: Strategy, work: Work) -> list[AgentMessage] | None:
    """The view that a strategy makes; None where it does nothing."""
    rewrite: Rewrite | None = await strategy.rewrite(work)
    return None if rewrite is None else edited(work.view, rewrite.edits)


def turn(
    number: int | str, name: str, text: str, *, is_error: bool = False, **args: Any
) -> list[AgentMessage]:
    """A call and its result; the call's id is ``c`` and the number."""
    call = ToolCall(id=f"c{number}", name=name, args=args)
    return [assistant_message("", call), tool_message(call, text, is_error=is_error)]


def kinds(view: Sequence[AgentMessage]) -> dict[int, str]:
    """By index, what strategies have made of the messages of a view."""
    return {at: kind for at, message in enumerate(view) if (kind := kind_of(message))}
