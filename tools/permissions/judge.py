"""Decides on one access: a list of questions, of which the first that has an answer counts.

 1. is it something protected, or written where the roots allow reading only?     deny
 2. does a deny rule match?                                                       deny
 3. does the plan mode rule it out?                                               deny
 4. may a deny rule match, for all that can be told?                              ask
 5. does the host let it pass in plan mode?                                       allow
 6. is it internal to the host?                                                   allow
 7. does it leave the roots?                                                      ask, each time
 8. has a person granted exactly this?                                            allow
 9. does an ask rule match, or does git use the settings of a strange repository?  ask
10. does an allow rule match?                                                     allow
11. what does the mode say?

The mode ``bypass`` leaves out 7 and 9. Read with: ``engine.py``, ``rules.py``.
"""

import functools
from collections.abc import Iterator

from . import commands
from .decision import Finding
from .modes import Answer, Mode, mode_answer
from .paths import Place
from .reasons import why_asked
from .requests import Request
from .rule_syntax import Rule
from .rules import Match, allowing, restricting
from .scopes import Access, scope_of
from .searching import found_below
from .settings import Settings
from .surroundings import program_inside, strange_repository
from .tool_shapes import Depth


class Judge:
    """Judges the accesses of one request."""

    def __init__(self, settings: Settings, request: Request, cwd: str, path: str = "") -> None:
        self._settings = settings
        self._path = path
        self._request = request
        self._cwd = cwd
        self._mode: Mode = settings.mode
        self._roots = settings.roots

    def find(self, access: Access) -> Finding:
        """The answer on an access."""
        for step in (
            self._forbidden,
            self._denied,
            self._not_planned,
            self._doubted,
            self._planned,
            self._internal,
            self._outside,
            self._granted,
            self._asked,
            self._surrounded,
            self._mentioned,
            self._allowed,
        ):
            finding = step(access)
            if finding is not None:
                return finding
        return self._by_mode(access)

    def _finding(
        self,
        answer: Answer,
        access: Access,
        by: str,
        reason: str = "",
        *,
        source: str = "",
        once: bool = False,
        outside: bool = False,
    ) -> Finding:
        scope = scope_of(self._request, access, self._roots, self._cwd)
        return Finding(
            answer=answer,
            access=access,
            by=by,
            reason=reason,
            source=source,
            scope=scope,
            once=once,
            outside=outside,
        )

    def _by_rule(
        self, answer: Answer, access: Access, rule: Rule, reason: str = "", *, once: bool = False
    ) -> Finding:
        return self._finding(answer, access, f"rule {rule.text}", reason, source=rule.source, once=once)

    def _forbidden(self, access: Access) -> Finding | None:
        place = access.place
        if place is None or access.is_cwd:
            return None
        may_write = access.capability == "write" or (access.loose and not self._reads_only)
        if may_write and self._roots.is_protected(place):
            return self._finding(
                "deny", access, "protected", f"{place.given} is kept by the host: nothing may write it"
            )
        if access.capability == "write" and self._roots.for_writing(place) == "read-only":
            return self._finding(
                "deny", access, "roots", f"{place.given} is in a place that may only be read"
            )
        return None

    def _denied(self, access: Access) -> Finding | None:
        for rule, match in self._restricting(self._settings.rules.deny, access):
            if match == "yes":
                return self._by_rule("deny", access, rule, f"the rule {rule.text} forbids it")
        return None

    def _doubted(self, access: Access) -> Finding | None:
        """A deny rule that may be meant is not for an allow rule, a grant or a mode to overrule."""
        deny = self._settings.rules.deny
        for rule, _ in self._restricting(deny, access):
            return self._by_rule("ask", access, rule, f"the rule {rule.text} may forbid it", once=True)
        if self._request.unclear and access.capability == "unknown":
            for rule in deny:
                if rule.kind != "tool":
                    reason = f"{self._request.unclear} can't be read, and the rule {rule.text} may forbid it"
                    return self._by_rule("ask", access, rule, reason, once=True)
        return self._searched(deny, access, once=True)

    def _not_planned(self, access: Access) -> Finding | None:
        if self._mode != "plan" or access.mention or self._hook_allows or self._is_planned(access):
            return None
        if access.capability == "internal" and self._request.tool in self._settings.plan_tools:
            return None
        if mode_answer("plan", access.capability) != "deny":
            return None
        return self._finding(
            "deny", access, "mode plan", "nothing but reading is allowed while a plan is made"
        )

    def _planned(self, access: Access) -> Finding | None:
        if self._mode != "plan" or access.capability == "read":
            return None
        if self._hook_allows:
            return self._surrounded(access) or self._finding("allow", access, "hook plan_allows")
        internal = access.capability == "internal" and self._request.tool in self._settings.plan_tools
        if internal or self._is_planned(access):
            return self._finding("allow", access, "mode plan")
        return None

    def _is_planned(self, access: Access) -> bool:
        """Whether a write is to the host's own place, or a search goes where its tool decides."""
        if access.capability == "write" and access.place is not None:
            return self._roots.for_writing(access.place) == "internal"
        return access.capability == "network" and not access.url and self._request.read_only

    def _internal(self, access: Access) -> Finding | None:
        if access.place is None or self._standing(access) != "internal":
            return None
        if any(True for _ in self._restricting(self._settings.rules.ask, access)):
            return None
        return self._finding("allow", access, "internal")

    def _outside(self, access: Access) -> Finding | None:
        if access.place is None or self._mode == "bypass" or self._standing(access) in ("inside", "internal"):
            return None
        reason = f"{access.place.given} is outside the workspace"
        return self._finding("ask", access, "roots", reason, once=True, outside=True)

    def _granted(self, access: Access) -> Finding | None:
        scope = scope_of(self._request, access, self._roots, self._cwd)
        by = "" if self._request.unclear else self._settings.granted(scope.key)
        return self._finding("allow", access, f"grant {by} {scope.text}") if by else None

    def _asked(self, access: Access) -> Finding | None:
        if self._mode == "bypass":
            return None
        for rule, _ in self._restricting(self._settings.rules.ask, access):
            return self._by_rule("ask", access, rule, f"the rule {rule.text} asks for it")
        for rule, match in self._restricting(self._settings.sensitive.ask, access):
            if match == "yes" or access.place is not None:
                shown = access.place.given if access.place is not None else self._request.tool
                return self._by_rule("ask", access, rule, f"{shown} is a file to be careful with")
        return self._searched((*self._settings.rules.ask, *self._settings.sensitive.ask), access)

    def _surrounded(self, access: Access) -> Finding | None:
        """Settings of git name programs: those of a repository that is not ``.git`` anybody may have written."""
        if access.plan is None or self._mode == "bypass":
            return None
        found = strange_repository(access.plan, self._cwd)
        reason = f"git uses the settings in {self._roots.shown(Place(found, found, found))}, which may run programs"
        return self._finding("ask", access, "git", reason) if found else None

    def _searched(self, rules: tuple[Rule, ...], access: Access, *, once: bool = False) -> Finding | None:
        """A search of a directory that holds what a rule keeps from being read."""
        depth = self._request.recursive or self._searched_by_command
        if not depth or access.place is None or access.capability != "read":
            return None
        for rule, path in found_below(rules, access.place, self._roots, depth):
            reason = f"it would also read {path}, for which there is the rule {rule.text}"
            return self._by_rule("ask", access, rule, reason, once=once)
        return None

    def _mentioned(self, access: Access) -> Finding | None:
        """Nothing speaks against a path in a command; the command itself is what is allowed, or not."""
        return self._finding("allow", access, "mention") if access.mention else None

    def _allowed(self, access: Access) -> Finding | None:
        if self._request.unclear:
            return None
        rule = allowing(self._settings.rules.allow, self._request, access, self._roots)
        return self._by_rule("allow", access, rule) if rule is not None else None

    def _by_mode(self, access: Access) -> Finding:
        by, capability = f"mode {self._mode}", access.capability
        if capability == "exec" and self._reads_only:
            return self._finding("allow", access, by, "the command only reads")
        answer = mode_answer(self._mode, capability)
        if answer == "ask" and capability == "unknown" and self._settings.deny_unknown:
            return self._finding("deny", access, by, "what it does is not known")
        reason = "" if answer == "allow" else why_asked(self._request, access)
        return self._finding(answer, access, by, reason, once=bool(self._request.unclear))

    def _standing(self, access: Access) -> str:
        assert access.place is not None
        if access.capability == "write":
            return self._roots.for_writing(access.place)
        return self._roots.for_reading(access.place)

    def _restricting(self, rules: tuple[Rule, ...], access: Access) -> Iterator[tuple[Rule, Match]]:
        return restricting(rules, self._request, access, self._roots)

    @functools.cached_property
    def _hook_allows(self) -> bool:
        hook = self._settings.plan_allows
        return hook is not None and hook(self._request)

    @functools.cached_property
    def _searched_by_command(self) -> Depth:
        command = self._request.command
        return "" if command is None else commands.searched(commands.analyse(command))

    @functools.cached_property
    def _reads_only(self) -> bool:
        """Whether the command surely only reads, it is known what, and its programs are those of the system."""
        if self._request.command is None:
            return False
        plan = commands.analyse(self._request.command)
        if not commands.is_read_only(plan) or not commands.mentions(plan, self._cwd).complete:
            return False
        return not program_inside(commands.programs(plan), self._roots, self._cwd, self._path)
