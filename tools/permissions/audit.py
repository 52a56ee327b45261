"""How a decision is written down: as a ``Verdict`` whose ``by``, ``reason`` and ``details`` are recorded with the call.

The details are a JSON object without keys of model providers and hidden secrets:

- ``tool``, ``capability``, ``mode``, ``decided`` (what decided: roots, rule, mode, grant, …), ``keys``;
- where there is one: ``rule`` with ``source`` (who wrote it), ``paths``, ``hosts``, ``command`` (its beginning), ``agents``, ``outside``,
  ``unclear``, ``store_error``;
- of a question: ``grants``, what each answer would cover; of its answer: ``grant``, what it came to.

Lists and texts have a limit, and ``left_out`` counts what is beyond it: all of it is in the call's arguments. The keys of a
``grant`` are complete.
"""

from typing import Any

from unspool.kernel.hooks import Verdict
from unspool.kernel.json_edge import clean_json

from .decision import Decision
from .scopes import Access

_MAX_TEXT = 500  # characters
_MAX_ITEMS = 50  # of each list


def verdict_of(decision: Decision, **more: Any) -> Verdict:
    """A decision as the kernel takes and records it."""
    details = {**described(decision), **more}
    by, reason = clean_json([decision.by, decision.reason])[0]
    details = _shortened(clean_json(details)[0])  # only now: half a secret would not be known for one
    return Verdict(decision=decision.answer, by=by, reason=reason, details=details)


def described(decision: Decision) -> dict[str, Any]:
    """What was decided on and how, as JSON."""
    request, finding = decision.request, decision.finding
    details: dict[str, Any] = {
        "tool": request.tool,
        "capability": request.capability,
        "mode": decision.mode,
        "decided": finding.decided,
    }
    if finding.rule:
        details |= {"rule": finding.rule, "source": finding.source}
    accesses = [
        found.access for found in decision.findings if not found.access.mention or found.answer != "allow"
    ]
    lists: dict[str, list[Any]] = {
        "keys": [scope.key for scope in decision.scopes],
        "paths": [_path(access) for access in accesses if access.place is not None],
        "hosts": [access.host or access.url for access in accesses if access.url],
        "agents": list(request.agents),
    }
    optional = {name: items[:_MAX_ITEMS] for name, items in lists.items()} | {
        "left_out": sum(len(items[_MAX_ITEMS:]) for items in lists.values()),
        "command": request.command or request.code,
        "outside": any(found.outside for found in decision.findings),
        "unclear": request.unclear,
        "grants": decision.offers,
        "store_error": decision.store_error,
    }
    return details | {name: value for name, value in optional.items() if value or name == "keys"}


def _path(access: Access) -> dict[str, str]:
    assert access.place is not None
    place = access.place
    return {"access": access.capability, "path": place.given, "real": place.real}


def _shortened(value: Any) -> Any:
    """JSON with short texts; keys have to stay what they are."""
    if isinstance(value, str):
        return value[:_MAX_TEXT]
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if isinstance(value, dict):
        return {name: item if name == "keys" else _shortened(item) for name, item in value.items()}
    return value
