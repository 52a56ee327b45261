"""Which tools a run has, and what stands before them: what was said on the command line, else what the session had.

Read with: ``beginning.py`` (sessions), ``run.py`` (runs), ``unspool.tools.coding``.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from unspool import llm
from unspool.kernel.errors import BadRequestError
from unspool.kernel.events import Fact
from unspool.kernel.hooks import Gate
from unspool.kernel.ports import Tool
from unspool.kernel.state import AgentState
from unspool.subagent import AgentDefinition, Subagents, definitions, read_definitions
from unspool.tools import Root, file_tools
from unspool.tools.coding import Coding, coding
from unspool.tools.permissions import GrantStore, Permissions, Rules, parse_mode
from unspool.tools.tasks import Deliver
from unspool.trajectory import Sessions

TOOLS: Final = ("files", "coding")
NO_STORE: Final = "--agents: each has sessions of its own; keep them in a --store, without --log"
_TOOLS: Final = "unspool.tools"  # in a session's metadata, as the next ones
_MODE: Final = "unspool.permissions"
_RULES: Final = "unspool.rules"
_SANDBOX: Final = "unspool.sandbox"
_AGENTS: Final = "unspool.agents"
_DEFAULT_MODE: Final = "default"
_SUBAGENT: Final = "subagent"
_STORE: Final = ".unspool"  # where sessions are if nothing else is said
_BESIDE: Final = ("-wal", "-shm", "-journal")  # what SQLite puts beside its file


class ToolWish(NamedTuple):
    """What was said about tools; what is empty is the session's, or the default.

    ``rules`` are texts such as ``allow Bash(git *)``. ``kept`` is where sessions are, which no tool may change.
    ``agents`` is a folder of definitions of agents to call.
    """

    root: str
    tools: str = ""
    mode: str = ""
    rules: tuple[str, ...] = ()
    sandbox: bool = False
    kept: tuple[str, ...] = ()
    agents: str = ""


class Toolset:
    """The tools of a run and their gate; ``coding`` is what there is to end, where there is something.

    ``agents`` are those that can be called; their tool is there once it is known where their sessions are kept.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        gate: Gate | None = None,
        coding: Coding | None = None,
        agents: Sequence[AgentDefinition] = (),
    ) -> None:
        self.tools = list(tools)
        self.gate = gate
        self.coding = coding
        self.agents = tuple(agents)

    @property
    def names(self) -> set[str]:
        """The names of all tools, that for calling agents included."""
        return {tool.spec.name for tool in self.tools} | ({_SUBAGENT} if self.agents else set())

    def keep_in(self, sessions: Sessions | None) -> None:
        """Keep the sessions of agents that are called here.

        Raises:
            AgentError: there are agents, and no place for their sessions.
        """
        if not self.agents or _SUBAGENT in {tool.spec.name for tool in self.tools}:
            return
        if sessions is None:
            raise BadRequestError(NO_STORE)
        self._add(sessions)

    def keep_in_memory(self) -> None:
        """Keep the sessions of agents as long as this lives: for a replay, which takes their answers from the log."""
        if self.agents:
            self._add(None)

    def _add(self, sessions: Sessions | None) -> None:
        tasks = self.coding.tasks if self.coding is not None else None
        made = Subagents(self.agents, sessions=sessions, tasks=tasks, models=llm.model)
        self.tools.append(made.tool)

    def restore(self, facts: Iterable[Fact], session: str) -> None:
        """Take up what the session left."""
        if self.coding is not None:
            known = list(facts)
            self.coding.restore(known)
            if isinstance(self.gate, Permissions):
                self.gate.restore(known, session)

    def notify(self, deliver: Deliver) -> None:
        """Tell of background tasks that have ended."""
        if self.coding is not None:
            self.coding.tasks.notify(deliver)

    async def aclose(self) -> list[str]:
        """End what runs; the names of the background tasks that did."""
        if self.coding is None:
            return []
        running = [task.id for task in self.coding.tasks.list() if not task.ended]
        await self.coding.aclose()
        return running


def check_wish(wish: ToolWish) -> None:
    """Refuse what can't be meant, before anything begins.

    Raises:
        AgentError: no such tools, mode or rule.
    """
    if wish.tools and wish.tools not in TOOLS:
        raise BadRequestError(f"--tools: there is no such set: {wish.tools}; there are {', '.join(TOOLS)}")
    if wish.mode:
        parse_mode(wish.mode)
    _rules(wish.rules)
    Root(wish.root)
    if wish.agents:
        _agents(wish.agents, None)


def make_tools(wish: ToolWish, state: AgentState) -> Toolset:
    """The tools that were asked for, or those of a session.

    Raises:
        AgentError: they can't be made here.
    """
    made = _without_agents(wish, state)
    folder = _choice(wish.agents, state, _AGENTS, "")
    if folder:
        made.agents = _agents(folder, made.tools)
    return made


def _agents(folder: str, tools: Sequence[Tool] | None) -> tuple[AgentDefinition, ...]:
    """The agents defined in a folder; ``tools`` are those that they may name.

    Raises:
        AgentError: one cannot be read or used, or there are none.
    """
    try:
        found = definitions(read_definitions(folder, tools=tools))
    except OSError as error:
        raise BadRequestError(f"--agents: {folder} cannot be read: {error.strerror}") from error
    if not found:
        raise BadRequestError(f"--agents: there are no definitions (*.md) in {folder}")
    return found


def _without_agents(wish: ToolWish, state: AgentState) -> Toolset:
    name = _choice(wish.tools, state, _TOOLS, TOOLS[0])
    if name == "files":
        if wish.mode or wish.rules or wish.sandbox:
            raise BadRequestError(
                "--permissions, --rule and --sandbox are for --tools coding: the file tools only read"
            )
        return Toolset(file_tools(Root(wish.root)))
    if name != "coding":
        raise BadRequestError(f"the session has tools that this version has not: {name}")
    made = coding(wish.root, sandbox=wish.sandbox or bool(state.metadata.get(_SANDBOX)))
    gate = made.permissions(
        _choice(wish.mode, state, _MODE, _DEFAULT_MODE),
        rules=_rules((*state.metadata.get(_RULES, ()), *wish.rules)),
        store=GrantStore(_grants_of(wish.root)),
    )
    for path in (_STORE, *filter(None, wish.kept)):
        for file in (path, *(f"{path}{ending}" for ending in _BESIDE)):
            gate.roots.protect(file)
    return Toolset(made, gate, made)


def notes_of(wish: ToolWish, state: AgentState) -> dict[str, Any]:
    """What is noted in a session's metadata, so that it is gone on with under the same."""
    rules = list(dict.fromkeys((*state.metadata.get(_RULES, ()), *wish.rules)))
    agents = os.path.abspath(wish.agents) if wish.agents else ""
    said = {_TOOLS: wish.tools, _MODE: wish.mode, _RULES: rules, _SANDBOX: wish.sandbox, _AGENTS: agents}
    return {key: value for key, value in said.items() if value}


def _choice(said: str, state: AgentState, key: str, default: str) -> str:
    return said or str(state.metadata.get(key, "")) or default


def _rules(texts: Iterable[str]) -> Rules:
    """Rules from the command line.

    Raises:
        AgentError: one does not begin with what it does, or can't be read.
    """
    rules: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
    for text in texts:
        verb, _, rule = text.strip().partition(" ")
        if verb not in rules or not rule.strip():
            raise BadRequestError(
                f"--rule: it says allow, ask or deny and what, such as 'allow Bash(git *)': {text!r}"
            )
        rules[verb].append(rule.strip())
    return Rules.of(rules, source="command line")


def _grants_of(root: str) -> Path:
    """Where what was granted for good is kept: with the user, for each folder, not in the folder: its files may
    come from anybody."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    name = hashlib.sha256(os.path.realpath(root).encode()).hexdigest()[:16]
    return Path(base, "unspool", "grants", f"{name}.json")
