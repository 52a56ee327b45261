"""The permission engine: one gate that lets calls run, asks a person, or refuses them.

It is given to an agent as ``Hooks(gate=permissions)``. A call becomes a ``Request``, that a list of accesses; each is
judged by itself and the strictest answer counts. What was decided, by what and on what is in the verdict, which the
kernel records with the call: that is the audit trail.

It judges what a call says, not what a program makes of the files around it: who allows ``Bash(pytest *)`` or
``Bash(make *)`` allows whatever ``conftest.py`` and the ``Makefile`` say, and ``accept-edits`` lets a model write those.
Taken for granted are the user's own settings (of git in ``.git`` and at home, the shell's ``PATH``), and a shell that
starts without aliases and functions. Against the rest there are sandboxes.

Read with: ``judge.py`` (the order of the questions), ``modes.py`` (the table), ``rule_syntax.py``, ``grants.py``.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Lock
from typing import Final

from anyio import to_thread
from msgspec.structs import replace

from unspool.kernel.errors import AgentError, describe
from unspool.kernel.events import Fact, ToolExecDispatch
from unspool.kernel.hooks import ToolUse, Verdict

from .accesses import UnusablePathError, accesses_of
from .audit import verdict_of
from .decision import Decision, Finding
from .directories import Directories
from .grants import Grants, recorded
from .judge import Judge
from .modes import Mode, parse_mode
from .paths import StrPath, resolve
from .requests import Request, request_of
from .rules import Rules
from .scopes import Access
from .sensitive import BUILT_IN, SENSITIVE
from .settings import Settings
from .store import GrantStore, StoreError

PLAN_TOOLS: Final = frozenset({"todo", "ask_user", "task_list", "task_output", "task_wait"})
"""Internal tools that are of use while a plan is made."""
_MAX_ASKED = 1024  # questions that are remembered until they are answered


class Permissions:
    """A gate for calls of tools, see ``Hooks.gate``. One may serve many agents and sessions.

    ``roots`` is the workspace, or ``Directories`` with more directories. ``rules`` are added up where there are several.
    ``sensitive`` are texts of rules for which a person is asked even where edits are accepted. Without a ``store`` a
    grant for always lasts for the session.

    In plan mode, internal tools run that are in ``plan_tools``, and whatever ``plan_allows`` lets pass, given the
    request; it is called in a worker thread. ``trusted_servers`` are MCP servers whose hints are believed.
    ``deny_unknown`` refuses tools of which nothing is known instead of asking. ``cwd`` gives the directory that an
    agent's next command starts in, None for the workspace: it is needed where a shell keeps its directory between
    calls, for what is looked at is what paths mean there. ``workspace`` gives the directory that relative paths of
    file tools, and commands of which ``cwd`` says nothing, start in for a call, None for that of ``roots``: it is
    needed where agents have worktrees of their own. ``path`` gives the ``PATH`` of an agent's next command: it is
    needed where a shell keeps that between calls, for a command only reads where its program is one of the system.

    ``mode`` and ``rules`` may be replaced while agents run: they hold from the next decision on.

    Raises:
        AgentError: no such mode.
        RuleError: a rule can't be read.
    """

    def __init__(
        self,
        roots: StrPath | Directories,
        *,
        mode: str = "default",
        rules: Rules | Mapping[str, Iterable[str]] | None = None,
        sensitive: Iterable[str] = SENSITIVE,
        store: GrantStore | None = None,
        plan_tools: Collection[str] = PLAN_TOOLS,
        plan_allows: Callable[[Request], bool] | None = None,
        trusted_servers: Collection[str] = (),
        deny_unknown: bool = False,
        cwd: Callable[[ToolUse], str | None] | None = None,
        workspace: Callable[[ToolUse], str | None] | None = None,
        path: Callable[[ToolUse], str] | None = None,
    ) -> None:
        self.roots = roots if isinstance(roots, Directories) else Directories(roots)
        self.rules = Rules.of(rules or {})
        self._mode: Mode = parse_mode(mode)
        self._sensitive = Rules.parse(ask=sensitive, source=BUILT_IN)
        self._grants = Grants(store)
        for file in store.files if store is not None else ():
            self.roots.protect(file)
        self._plan_tools = plan_tools
        self._plan_allows = plan_allows
        self._trusted_servers = trusted_servers
        self._deny_unknown = deny_unknown
        self._cwd = cwd
        self._workspace = workspace
        self._path = path
        self._lock = Lock()
        self._asked: OrderedDict[tuple[str, str], tuple[Request, frozenset[str]]] = OrderedDict()

    @property
    def mode(self) -> Mode:
        """How much may happen without a person; may be set at any time, from any thread."""
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        self._mode = parse_mode(mode)

    async def __call__(self, use: ToolUse) -> Verdict:
        """The verdict on a call; looks at the file system, in a worker thread. What can't be judged is denied."""
        try:
            return await to_thread.run_sync(self.judge, use)
        except AgentError as error:
            return Verdict.deny(
                describe(error), by="engine", details={"tool": use.spec.name, "decided": "engine"}
            )

    def judge(self, use: ToolUse) -> Verdict:
        """The verdict on a call. A person's yes turns a question into an allowance, and may grant more.

        Raises:
            ToolDefinitionError: it is a shell command, and the extra ``permissions`` is not installed.
            ToolDefinitionError: the tool's ``meta["permission"]`` can't be used.
        """
        request = request_of(use.spec.name, use.args, use.spec, self._trusted_servers)
        workspace = self._workspace(use) if self._workspace is not None else None
        request = replace(request, workspace=workspace or "")
        cwd = self._cwd(use) if self._cwd is not None and request.command is not None else None
        path = self._path(use) if self._path is not None and request.command is not None else ""
        decision = self.decide(request, session=use.ctx.session, cwd=cwd, path=path)
        if decision.answer != "ask":
            return verdict_of(decision)
        if not use.approved:
            self._remember(use, decision)
            return verdict_of(decision)
        return self._approved(use, decision)

    def decide(
        self, request: Request, *, session: str = "", cwd: str | None = None, path: str = ""
    ) -> Decision:
        """The decision on a request, which changes nothing. ``cwd`` is where its command starts, ``path`` its ``PATH``."""
        mode, errors = self._mode, list[str]()

        def granted(key: str) -> str:
            try:
                return self._grants.covers(session, key)
            except StoreError as error:
                errors.append(str(error))
                return ""

        settings = Settings(
            roots=self.roots.now(),
            mode=mode,
            rules=self.rules,
            sensitive=self._sensitive,
            plan_tools=self._plan_tools,
            plan_allows=self._plan_allows,
            deny_unknown=self._deny_unknown,
            granted=granted,
        )
        base = request.workspace or self.roots.workspace
        findings = self._findings(settings, request, base, cwd, path)
        return Decision(
            request=request, mode=mode, findings=tuple(findings), store_error=errors[0] if errors else ""
        )

    def explain(self, request: Request, *, session: str = "", cwd: str | None = None) -> str:
        """Each part of a request with the answer on it and what gave that, a line each."""
        return self.decide(request, session=session, cwd=cwd).explain()

    def restore(self, facts: Iterable[Fact], session: str) -> None:
        """Take up again what was granted for a session, from the facts of its log."""
        for fact in facts:
            if isinstance(fact, ToolExecDispatch) and fact.ruling is not None:
                self._grants.remember(session, recorded(fact.ruling.details))

    def forget(self, session: str) -> None:
        """Take back what was granted for a session."""
        self._grants.forget(session)

    def _findings(
        self, settings: Settings, request: Request, base: str, cwd: str | None, path: str
    ) -> list[Finding]:
        start = base if request.command is None else cwd or base
        try:
            accesses = accesses_of(request, start)
            where = resolve(request.cwd if request.cwd.startswith("/") else f"{start}/{request.cwd}")
        except (UnusablePathError, ValueError) as error:
            access = Access(capability=request.capability)
            return [Finding(answer="deny", access=access, by="path", reason=str(error))]
        judge = Judge(settings, request, where, path)
        return [judge.find(access) for access in accesses]

    def _remember(self, use: ToolUse, decision: Decision) -> None:
        with self._lock:
            self._asked[use.ctx.session, use.call.id] = decision.request, _places(decision)
            while len(self._asked) > _MAX_ASKED:
                self._asked.popitem(last=False)

    def _approved(self, use: ToolUse, decision: Decision) -> Verdict:
        """Let a call pass that a person said yes to, unless its paths lead elsewhere by now."""
        answer = use.decision
        with self._lock:
            asked = self._asked.pop((use.ctx.session, use.call.id), None)
        if asked is not None and asked[0] == decision.request and asked[1] != _places(decision):
            reason = "its paths lead elsewhere than when a person was asked: make the call again"
            return Verdict.deny(reason, by="path", details=verdict_of(decision).details)
        said = answer.details.get("grant") if answer is not None else None
        kept = self._grants.keep(use.ctx.session, decision.scopes, said)
        by = answer.by if answer is not None else ""
        verdict = verdict_of(decision, grant=kept.details, decided="person")
        details = {name: value for name, value in verdict.details.items() if name != "grants"}
        return Verdict.allow(by=by or "person", reason=verdict.reason, details=details)


def _places(decision: Decision) -> frozenset[str]:
    """Where the paths lead that a person is asked about."""
    return frozenset(
        finding.access.place.real
        for finding in decision.findings
        if finding.access.place is not None and not finding.access.mention
    )
