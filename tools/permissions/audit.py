"""How a decision is written down: as a ``Verdict`` whose ``by``, ``reason`` and ``details`` are recorded with the call.

The details are a JSON object without keys of model providers and hidden secrets:

- ``tool``, ``capability``, ``mode``, ``decided`` (what decided: roots, rule, mode, grant, …), ``keys``;
- where there is one: ``rule`` with ``source`` (who wrote it), ``paths``, ``hosts``, ``command`` (its beginning), ``agents``, ``outside``,
  ``unclear``, ``store_error``;
- of a question: ``grants``, what each answer would cover; of its answer: ``grant``, what it came to.
"""

from typing import Any

from unspool.kernel.hooks import Verdict
from unspool.kernel.json_edge import clean_json

from .decision import Decision
from .scopes import Access

_MAX_COMMAND = 500  # characters: all of it is in the call's arguments, and its hash in the keys


def verdict_of(decision: Decision, **more: Any) -> Verdict:
    """A decision as the kernel takes and records it."""
    details = {**described(decision), **more}
    by, reason = clean_json([decision.by, decision.reason])[0]
    details = clean_json(details)[0]
    return Verdict(decision=decision.answer, by=by, reason=reason, details=details)


def described(decision: Decision) -> dict[str, Any]:
    """What was decided on and how, as JSON."""
    request, finding = decision.request, decision.finding
    details: dict[str, Any] = {
        "tool": request.tool,
        "capability": request.capability,
        "mode": decision.mode,
        "decided": finding.decided,
        "keys": [scope.key for scope in decision.scopes],
    }
    if finding.rule:
        details |= {"rule": finding.rule, "source": finding.source}
    accesses = [
        found.access for found in decision.findings if not found.access.mention or found.answer != "allow"
    ]
    optional = {
        "paths": [_path(access) for access in accesses if access.place is not None],
        "hosts": [access.host or access.url for access in accesses if access.url],
        "agents": list(request.agents),
        "command": (request.command or request.code or "")[:_MAX_COMMAND],
        "outside": any(found.outside for found in decision.findings),
        "unclear": request.unclear,
        "grants": decision.offers,
        "store_error": decision.store_error,
    }
    return details | {name: value for name, value in optional.items() if value}


def _path(access: Access) -> dict[str, str]:
    assert access.place is not None
    place = access.place
    return {"access": access.capability, "path": place.given, "real": place.real}
