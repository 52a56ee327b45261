"""Rules as people write them: ``Bash(git *)``, ``Edit(src/**)``, ``WebFetch(*.github.com)``, ``mcp__ctx__*``.

===================  ==================================================================================
text                 what it is about
===================  ==================================================================================
``Bash(pattern)``    shell commands; how patterns match commands: ``shell_rules.py``
``Read(glob)``       paths that are read or searched
``Edit(glob)``       paths that are written; ``Write(glob)`` is the same
``WebFetch(host)``   a host, ``*.suffix`` (the suffix too) or ``*``
``Subagent(name)``   agents that are started, ``name*`` for all that begin so
``name``, ``name*``  tools by name, whatever their arguments
===================  ==================================================================================

A kind without parentheses, or with ``(*)``, is about all of its kind. Case does not count in kinds and names.
"""

import re
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from unspool.kernel.errors import AgentError, ToolError

from .hosts import HostPattern
from .path_patterns import path_pattern

Kind: TypeAlias = Literal["bash", "read", "edit", "webfetch", "subagent", "tool"]
"""What a rule looks at."""

_KINDS: Final[dict[str, Kind]] = {
    "bash": "bash",
    "read": "read",
    "edit": "edit",
    "write": "edit",
    "webfetch": "webfetch",
    "subagent": "subagent",
}
_CALL = re.compile(r"\s*([^\s()]+)\((.*)\)\s*", re.DOTALL)
_NAME = re.compile(r"(?:[A-Za-z0-9_.:/-]+\*?|\*)")


class RuleError(AgentError):
    """A rule that can't be read; ``details`` hold it."""


class Rule(Struct, frozen=True, kw_only=True):
    """One rule: its ``text`` as written, what that says, and who wrote it (user, project, session, …).

    An empty ``pattern`` is about all of its kind.
    """

    text: str
    kind: Kind
    pattern: str = ""
    source: str = ""


def parse_rule(text: str, source: str = "") -> Rule:
    """The rule that ``text`` is.

    Raises:
        RuleError: it is none; the message names it and says why.
    """
    if not isinstance(text, str) or not text.strip():
        raise RuleError("permissions: a rule can't be read: it is empty", rule=text, source=source)
    try:
        kind, pattern = _parse(text)
    except (ValueError, ToolError) as error:
        raise RuleError(f"permissions: a rule can't be read: {error}", rule=text, source=source) from error
    return Rule(text=text.strip(), kind=kind, pattern=pattern, source=source)


def _parse(text: str) -> tuple[Kind, str]:
    found = _CALL.fullmatch(text)
    if found is None:
        name = text.strip()
        if "(" in name or ")" in name:
            raise ValueError("its parentheses are not closed, or something is around them")
        if not _NAME.fullmatch(name):
            raise ValueError("it is neither Kind(pattern) nor a tool's name, which may end in *")
        return (_KINDS[name.casefold()], "") if name.casefold() in _KINDS else ("tool", name)
    kind, pattern = _KINDS.get(found[1].casefold()), found[2].strip()
    if kind is None:
        raise ValueError(f"no kind {found[1]!r}, there are Bash, Read, Edit, Write, WebFetch and Subagent")
    if not pattern:
        raise ValueError("its pattern is empty")
    if pattern == "*":
        return kind, ""
    if kind == "bash" and pattern.endswith(":*"):
        raise ValueError(f"what follows a command is written with a blank: {pattern[:-2]} *")
    if kind in ("read", "edit"):
        path_pattern(pattern)
    elif kind == "webfetch":
        HostPattern(pattern)
    elif kind == "subagent" and not _NAME.fullmatch(pattern):
        raise ValueError("an agent is named in letters, digits, '_' and '-', and may end in *")
    return kind, pattern


def name_matches(pattern: str, name: str) -> bool:
    """Whether a name, or ``prefix*``, is ``name``; case does not count."""
    pattern, name = pattern.casefold(), name.casefold()
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
