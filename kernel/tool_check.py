"""Whether a call may run at all: decided by looking, without effects.

Read with: ``tool_batch.py`` (the caller), ``tool_prepare.py`` (what asks the host and the tool).
"""

from typing import Any, NamedTuple

import msgspec

from .call_states import CallState
from .errors import describe
from .events import Ruling
from .json_edge import clean_text, plain_json
from .messages import ToolCall
from .ports import JSON
from .run import Run
from .texts import Texts
from .toolbox import ResolvedTool

MAX_LISTED = 64  # names of tools, and characters of a name, that a message repeats


class Refusal(NamedTuple):
    """A call that will not run: its outcome, what the model is told, what the host is, and what a gate said."""

    outcome: str
    text: str
    details: dict[str, Any] = {}
    ruling: Ruling | None = None


def refusal(run: Run, state: CallState) -> Refusal | None:
    """Why a call may not run, or None; looks, and changes nothing."""
    call, texts = state.call, run.config.texts
    if state.declined:
        return Refusal("denied", denied(texts, state.reason))
    if not call.completed:
        return Refusal("invalid", texts.cut_off)
    tool = run.toolbox.by_name.get(call.name)
    if tool is None:
        return Refusal("unknown_tool", _unknown(texts, call.name, sorted(run.toolbox.by_name)))
    if call.args_invalid and state.args is None:
        return Refusal("invalid", _unparsed(texts, call))
    limit = run.limits.tool_errors
    failures = run.state.errors_by_tool.get(call.name, 0)
    if limit is not None and failures >= limit:
        return Refusal("disabled", texts.disabled.format(name=call.name, failures=failures))
    return check_arguments(tool, call.args if state.args is None else state.args, texts)


def check_arguments(tool: ResolvedTool, args: JSON, texts: Texts) -> Refusal | None:
    """Why ``args`` do not fit the tool, or None."""
    try:
        issues = tool.check(args)
        lines = [clean_text(issue.text) for issue in issues]
    except Exception as error:  # noqa: BLE001 (a tool's own check is the tool's code: what it raises is an answer)
        return Refusal("invalid", texts.unchecked.format(problem=describe(error)))
    if not lines:
        return None
    text = texts.invalid.format(problems="; ".join(lines))
    return Refusal("invalid", text, {"issues": plain_json(msgspec.to_builtins(issues))})


def denied(texts: Texts, reason: str) -> str:
    """What the model is told of a call that a gate or a person refused."""
    return texts.denied.format(reason=f": {clean_text(reason)}" if reason else "")


def _unknown(texts: Texts, name: str, known: list[str]) -> str:
    listed = ", ".join(known[:MAX_LISTED]) or "none"
    more = f" and {len(known) - MAX_LISTED} more" if len(known) > MAX_LISTED else ""
    shown = name if len(name) <= MAX_LISTED else f"{name[:MAX_LISTED]}…"
    return texts.unknown_tool.format(name=shown, known=f"{listed}{more}")


def _unparsed(texts: Texts, call: ToolCall) -> str:
    text = call.args_text or ""
    shown = text if len(text) <= 500 else f"{text[:500]}…"
    return texts.not_json.format(problem=call.args_parse_error, received=shown)
