"""Rules from several sources, and which of them a part of a request meets.

Deny beats ask beats allow, whatever the order and the source. A rule that restricts is looked for with suspicion
(any name of a path, any command of a line); one that allows must fit what really happens.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from . import commands
from .directories import Directories
from .hosts import HostPattern, canonical_host
from .path_patterns import path_pattern
from .requests import Request
from .rule_syntax import Rule, RuleError, name_matches, parse_rule
from .scopes import Access
from .shell_plan import ShellPlan

Match: TypeAlias = Literal["yes", "maybe", "no"]


class Rules(Struct, frozen=True, kw_only=True):
    """What is always allowed, asked and denied. Rules of several sources are added up; none are false."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    @classmethod
    def parse(
        cls, *, allow: Iterable[str] = (), ask: Iterable[str] = (), deny: Iterable[str] = (), source: str = ""
    ) -> "Rules":
        """Rules as people write them, see ``rule_syntax.py``.

        Raises:
            RuleError: one can't be read; the message names it.
        """
        return cls(allow=_parsed(allow, source), ask=_parsed(ask, source), deny=_parsed(deny, source))

    @classmethod
    def of(cls, given: "Rules | Mapping[str, Iterable[str]]", source: str = "") -> "Rules":
        """The same from a configuration: ``{"allow": [...], "ask": [...], "deny": [...]}``.

        Raises:
            RuleError: a rule can't be read, or there is another key.
        """
        if isinstance(given, Rules):
            return given
        if unknown := sorted(set(given) - {"allow", "ask", "deny"}):
            raise RuleError("permissions: rules are for allow, ask and deny", unknown=unknown, source=source)
        return cls.parse(source=source, **given)

    def __add__(self, other: "Rules") -> "Rules":
        return Rules(allow=self.allow + other.allow, ask=self.ask + other.ask, deny=self.deny + other.deny)

    def __bool__(self) -> bool:
        return bool(self.allow or self.ask or self.deny)


def _parsed(texts: Iterable[str], source: str) -> tuple[Rule, ...]:
    if isinstance(texts, str):
        raise RuleError("permissions: rules are a list of texts", rule=texts, source=source)
    return tuple([parse_rule(text, source) for text in texts])


def restricting(
    rules: Sequence[Rule], request: Request, access: Access, roots: Directories
) -> Iterator[tuple[Rule, Match]]:
    """The rules that hold for an access, or may hold, as far as anybody can tell."""
    for rule in rules:
        match = _restricts(rule, request, access, roots)
        if match != "no":
            yield rule, match


def allowing(rules: Sequence[Rule], request: Request, access: Access, roots: Directories) -> Rule | None:
    """The rule that allows an access, or the first of several that do together; None where none does."""
    for rule in rules:
        if _allows(rule, request, access, roots):
            return rule
    if access.plan is None:
        return None
    bash = {rule.pattern: rule for rule in rules if rule.kind == "bash" and rule.pattern}
    return bash.get(commands.allowed_by(access.plan, list(bash)))


def _restricts(rule: Rule, request: Request, access: Access, roots: Directories) -> Match:
    match rule.kind:
        case "tool":
            return _sure(not access.mention and name_matches(rule.pattern, request.tool))
        case "bash":
            if access.plan is None:
                return "no"
            return commands.denies(access.plan, rule.pattern) if rule.pattern else "yes"
        case "read" | "edit":
            return _restricts_path(rule, access, roots)
        case "webfetch":
            return _restricts_host(rule, access)
        case "subagent":
            names = bool(access.agent) and (not rule.pattern or name_matches(rule.pattern, access.agent))
            return _sure(names)


def _restricts_path(rule: Rule, access: Access, roots: Directories) -> Match:
    if access.place is None and access.plan is None:  # a tool that writes, nobody knows where
        return "maybe" if rule.kind == "edit" and access.capability == "write" else "no"
    if access.place is None:
        return "maybe" if access.plan is not None and not commands.shows_paths(access.plan) else "no"
    wanted = "read" if rule.kind == "read" else "write"
    if access.is_cwd or (access.capability != wanted and not access.loose):
        return "no"
    if rule.pattern and not path_pattern(rule.pattern).restricts(access.place, roots):
        return "no"
    return "maybe" if access.loose and (wanted == "write" or not rule.pattern) else "yes"


def _restricts_host(rule: Rule, access: Access) -> Match:
    if access.plan is not None:
        return _restricts_hosts_of(rule, access.plan)
    if access.capability != "network" or not access.url:
        return _sure(access.capability == "network" and not rule.pattern)
    if not rule.pattern:
        return "yes"
    if access.host is None:
        return "maybe"
    return _sure(HostPattern(rule.pattern).matches(access.host))


def _restricts_hosts_of(rule: Rule, plan: ShellPlan) -> Match:
    if not plan.network:
        return "maybe" if plan.unknown else "no"
    if not rule.pattern:
        return "yes"
    hosts = [canonical_host(host) for host in plan.hosts]
    pattern = HostPattern(rule.pattern)
    if any(host is not None and pattern.matches(host) for host in hosts):
        return "yes"
    return "no" if hosts and None not in hosts and not plan.unknown else "maybe"


def _allows(rule: Rule, request: Request, access: Access, roots: Directories) -> bool:
    match rule.kind:
        case "tool":
            exact = not rule.pattern.endswith("*")
            return name_matches(rule.pattern, request.tool) and (exact or not request.destructive)
        case "bash":
            return access.plan is not None and not rule.pattern
        case "read" | "edit":
            if access.place is None or access.capability != ("read" if rule.kind == "read" else "write"):
                return False
            return not rule.pattern or path_pattern(rule.pattern).allows(access.place, roots)
        case "webfetch":
            if access.capability != "network" or not access.url:
                return False
            if not rule.pattern:
                return True
            return bool(access.host) and HostPattern(rule.pattern).matches(access.host or "")
        case "subagent":
            return bool(access.agent) and (not rule.pattern or name_matches(rule.pattern, access.agent))


def _sure(matches: bool) -> Match:
    return "yes" if matches else "no"
