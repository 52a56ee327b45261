"""What the engine found about the parts of a request, and what that comes to."""

from typing import Final

from msgspec import Struct

from .modes import Answer, Mode
from .requests import Request
from .scopes import Access, Scope

_STRICTNESS: Final[tuple[Answer, ...]] = ("allow", "ask", "deny")

_MAX_REASONS = 5  # of one question
_MAX_REASON = 500  # characters of each
_MAX_SCOPES = 20  # of one grant, that are shown in words; the keys are all recorded


class Finding(Struct, frozen=True, kw_only=True):
    """The answer on one access, and what gave it.

    ``by`` begins with what decided: path, protected, roots, rule, hook, internal, grant, git, mode. ``source`` is
    who wrote the rule. ``once`` says that a person's yes holds for this call only, ``outside`` that the path is
    outside the roots.
    """

    answer: Answer
    access: Access
    by: str
    reason: str = ""
    source: str = ""
    scope: Scope | None = None
    once: bool = False
    outside: bool = False

    @property
    def decided(self) -> str:
        """What decided, as one word."""
        return self.by.partition(" ")[0]

    @property
    def rule(self) -> str:
        """The rule that decided, if one did."""
        return self.by.removeprefix("rule ") if self.decided == "rule" else ""


class Decision(Struct, frozen=True, kw_only=True):
    """The engine's answer on a request: the strictest of its ``findings``.

    ``scopes`` is what a person's yes to a question would cover beyond the call, nothing where it holds once only.
    """

    request: Request
    mode: Mode
    findings: tuple[Finding, ...]
    store_error: str = ""

    @property
    def finding(self) -> Finding:
        """The one that decides: the first of the strictest."""
        return max(self.findings, key=lambda finding: _STRICTNESS.index(finding.answer))

    @property
    def answer(self) -> Answer:
        return self.finding.answer

    @property
    def by(self) -> str:
        """What decided, in words: ``rule Bash(git *)``, ``mode default``, ``grant session write_file a.py``."""
        return self.finding.by

    @property
    def reason(self) -> str:
        """Why, for the model or the person; of a question every part of it."""
        if self.answer != "ask":
            return self.finding.reason[:_MAX_REASON]
        asked = dict.fromkeys(
            finding.reason[:_MAX_REASON] for finding in self.findings if finding.answer == "ask"
        )
        return _joined(list(asked), "; ", _MAX_REASONS)

    @property
    def once(self) -> bool:
        """Whether a person's yes can't be for more than this call."""
        return any(finding.once for finding in self.findings if finding.answer == "ask")

    @property
    def scopes(self) -> tuple[Scope, ...]:
        if self.answer != "ask" or self.once:
            return ()
        asked = {finding.scope for finding in self.findings if finding.answer == "ask" and finding.scope}
        return tuple(sorted(asked))

    @property
    def offers(self) -> dict[str, str]:
        """What a person may answer to a question besides no, and what that would cover."""
        if self.answer != "ask":
            return {}
        if not self.scopes:
            return {"once": "this call"}
        covered = _joined([scope.text for scope in self.scopes], ", ", _MAX_SCOPES)
        return {"once": "this call", "session": covered, "always": covered}

    def explain(self) -> str:
        """Each part of the request with its answer and what gave it, a line each."""
        lines = [f"{self.answer}: {self.request.tool} ({self.by})"]
        for finding in self.findings:
            lines.append(f"  {finding.answer}: {_named(finding.access)}: {finding.reason or finding.by}")
        return "\n".join(lines)


def _named(access: Access) -> str:
    what = access.place.given if access.place is not None else access.url or access.agent
    return f"{access.capability} {what}".rstrip()


def _joined(texts: list[str], mark: str, limit: int) -> str:
    more = [f"and {len(texts) - limit} more"] if len(texts) > limit else []
    return mark.join(texts[:limit] + more)
