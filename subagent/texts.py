"""What models read of children: results, failures, and how to go on.

Read with: ``results.py``.
"""

from typing import Any

from unspool.kernel.messages import Usage

from .tally import Tally

MAX_SAID = 1000  # characters of what a child last said, in an error
ONE_MODE = "exactly one mode: give agent and task, or tasks, or chain"
ABOUT_TASK = "everything the agent needs to know: it sees nothing else"
ABOUT_THREAD = "go on with this thread of the agent"
NO_OUTPUT = "(no output)"


def display(output: str, terminal: str) -> str:
    """What a child answered: its text, then the result of the tool that ended it."""
    return "\n\n".join(filter(None, (output.strip(), terminal.strip()))) or NO_OUTPUT


def thread_line(session: str) -> str:
    """How to go on with a child."""
    return f"[thread {session}]"


def failure(agent: str, cause: str, tally: Tally, thread: str) -> str:
    """What went wrong with a child, how far it came, and how to go on with it."""
    done = f" (after {_count(tally.turns, 'turn')} and {_count(tally.tools, 'tool call')})"
    parts = [f"agent {agent!r} {cause}{done if tally.turns or tally.tools else ''}"]
    if tally.said:
        said = tally.said if len(tally.said) <= MAX_SAID else f"{tally.said[:MAX_SAID]}…"
        parts.append(f"it last said: {said}")
    if thread:
        parts.append(f"to go on with it, call it with thread {thread!r}")
    return "\n".join(parts)


def cause_of(tally: Tally, stopped_for: str, *, waits: bool = False) -> str:
    """Why a child has no answer; ``stopped_for`` is why, where it was stopped from here."""
    limits = tally.limits
    match tally.end_reason:
        case "paused" if waits:
            return "waits for a person to decide on its calls, and nobody can be asked"
        case "max_turns":
            return f"ran out of its {_count(limits.turns, 'turn')}"
        case "max_tool_calls":
            return f"ran out of its {_count(limits.tool_calls or 0, 'tool call')}"
        case "budget":
            return f"ran out of its {_budget(tally.error_details)}"
        case "paused":
            return "was stopped while it waited for a person to decide"
        case "aborted" | "":
            return stopped_for or "was stopped"
        case reason:
            kind = tally.error_kind or reason
            return f"failed: {tally.error} ({kind})" if tally.error else f"failed ({kind})"


def _budget(details: dict[str, Any]) -> str:
    tokens, cost = details.get("tokens_limit"), details.get("cost_limit")
    if tokens is not None and (cost is None or details.get("tokens", 0) >= tokens):
        return f"{tokens} tokens"
    return f"budget of ${cost:g}" if cost is not None else "budget"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def usage_details(usage: Usage) -> dict[str, Any]:
    """Usage as plain JSON."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cost": usage.cost.total if usage.cost else None,
    }
