"""Which tools a run has, and what stands before them: what was said on the command line, else what the session had.

Read with: ``beginning.py`` (sessions), ``run.py`` (runs), ``unspool.tools.coding``.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from unspool.kernel.errors import BadRequestError
from unspool.kernel.events import Fact
from unspool.kernel.hooks import Gate
from unspool.kernel.ports import Tool
from unspool.kernel.state import AgentState
from unspool.tools import Root, file_tools
from unspool.tools.coding import Coding, coding
from unspool.tools.permissions import GrantStore, Permissions, Rules, parse_mode
from unspool.tools.tasks import Deliver

TOOLS: Final = ("files", "coding")
_TOOLS: Final = "unspool.tools"  # in a session's metadata, as the next ones
_MODE: Final = "unspool.permissions"
_RULES: Final = "unspool.rules"
_SANDBOX: Final = "unspool.sandbox"
_DEFAULT_MODE: Final = "default"
_STORE: Final = ".unspool"  # where sessions are if nothing else is said
_BESIDE: Final = ("-wal", "-shm", "-journal")  # what SQLite puts beside its file


class ToolWish(NamedTuple):
    """What was said about tools; what is empty is the session's, or the default.

    ``rules`` are texts such as ``allow Bash(git *)``. ``kept`` is where sessions are, which no tool may change.
    """

    root: str
    tools: str = ""
    mode: str = ""
    rules: tuple[str, ...] = ()
    sandbox: bool = False
    kept: tuple[str, ...] = ()


class Toolset:
    """The tools of a run and their gate; ``coding`` is what there is to end, where there is something."""

    def __init__(self, tools: Sequence[Tool], gate: Gate | None = None, coding: Coding | None = None) -> None:
        self.tools = list(tools)
        self.gate = gate
        self.coding = coding

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


def make_tools(wish: ToolWish, state: AgentState) -> Toolset:
    """The tools that were asked for, or those of a session.

    Raises:
        AgentError: they can't be made here.
    """
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
    said = {_TOOLS: wish.tools, _MODE: wish.mode, _RULES: rules, _SANDBOX: wish.sandbox}
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
