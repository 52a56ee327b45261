"""What Anthropic's server does to the context of a request itself, and the beta headers that it wants for that.

It clears results of tools and compacts: a ``compaction`` block in the reply holds the summary, and the server skips
everything before the newest one. One whose content is null is a summary that failed, which is skipped itself.

Read with: ``context_management.py`` (what is asked for), ``anthropic_request.py`` (the caller),
https://platform.claude.com/docs/en/build-with-claude/compaction-threshold and ``…/context-editing``.
"""

from typing import Final

from unspool.kernel.ports import CallOptions

from .anthropic_wire import Fields, fields_of, text_of
from .context_management import ClearResults, context_management
from .encoding import Part

_CLEAR: Final = "clear_tool_uses_20250919"
_COMPACT: Final = "compact_20260112"
_BETAS: Final = {"clear_": "context-management-2025-06-27", "compact_": "compact-2026-01-12"}


def context_fields(options: CallOptions) -> Fields:
    """The field of the body; empty where nothing is asked for.

    Raises:
        BadRequestError: as ``context_management`` raises it.
    """
    asked = context_management(options)
    edits: list[Part] = []
    if asked.clear_results is not None:
        edits.append(_clear(asked.clear_results))
    if asked.compact_at is not None:  # last: of what is left
        edits.append({"type": _COMPACT, "trigger": _tokens(asked.compact_at)})
    return {"context_management": {"edits": edits}} if edits else {}


def context_betas(options: CallOptions) -> list[str]:
    """The betas that a request's edits are part of, whether they come from the option or from ``extra``."""
    sent = {**context_fields(options), **options.extra}
    edits = fields_of(sent.get("context_management")).get("edits")
    kinds = [text_of(fields_of(edit).get("type")) for edit in edits] if isinstance(edits, list) else []
    return [beta for prefix, beta in _BETAS.items() if any(kind.startswith(prefix) for kind in kinds)]


def _clear(asked: ClearResults) -> Part:
    edit: Part = {"type": _CLEAR}
    if asked.at is not None:
        edit["trigger"] = _tokens(asked.at)
    if asked.keep is not None:
        edit["keep"] = {"type": "tool_uses", "value": asked.keep}
    if asked.at_least is not None:
        edit["clear_at_least"] = _tokens(asked.at_least)
    if asked.exclude:
        edit["exclude_tools"] = list(asked.exclude)
    return edit


def _tokens(count: int) -> Part:
    return {"type": "input_tokens", "value": count}
