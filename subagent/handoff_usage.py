"""What each agent of a conversation has used, read from the facts.

Read with: ``handoffs.py``.
"""

from collections.abc import Iterable

from unspool.kernel.events import AgentStart, ChildEnded, Fact, Handoff, ModelResponse, TurnStart
from unspool.kernel.messages import Usage


def usage_by_agent(facts: Iterable[Fact]) -> dict[str, Usage]:
    """Tokens and cost by the agent whose turn it was, sorted by name; together they are the session's total usage.

    What nested sessions have used is counted for the agent that ran them.
    """
    used: dict[str, Usage] = {}
    holder = acting = ""
    for fact in facts:
        match fact:
            case AgentStart():
                holder = fact.agent
                acting = acting or holder
            case Handoff():
                holder = fact.target
            case TurnStart():
                acting = holder
            case ModelResponse() | ChildEnded():
                used[acting] = used.get(acting, Usage()) + fact.usage
            case _:
                continue
    return dict(sorted(used.items()))
