"""``unspool show --tree``: a session and those below it, one a line, and what is odd about them.

Read with: ``tree_checks.py`` (verify, replay and delete of a tree), ``unspool.subagent.session_tree``.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.console import Console

from unspool.kernel.errors import ContinueError, LogError
from unspool.kernel.messages import NO_USAGE, Usage
from unspool.subagent.session_lineage import lineage_in
from unspool.subagent.session_log import Wait
from unspool.subagent.session_tree import SessionNode, check_accounting, read_tree, usage_of_trees, walk

from .beginning import Begun
from .ls import short
from .output import console, write_json
from .places import Place, StoredSession
from .view import cut_line, printable

_NAME: Final = 40  # cells of an agent's name
_DEEPEST: Final = 24  # levels that are indented
_STYLES: Final = {"running": "green", "paused": "yellow", "lost": "yellow", "ended": "", "new": "dim"}
UNREADABLE: Final = frozenset({"missing", "damaged", "repeated"})


def show_tree(place: Place, *, as_json: bool) -> int:
    """Print a session and all below it; 1 where one cannot be read.

    Raises:
        LogError: it is a file of its own.
    """
    stored = in_store(place)
    tree = read_tree(stored.sessions, stored.name)
    nodes = list(walk(tree))
    if as_json:
        for depth, node in nodes:
            write_json(_object(depth, node))
    else:
        _print(console(), tree, nodes)
    return 1 if any(node.state in UNREADABLE for _, node in nodes) else 0


def in_store(place: Place) -> StoredSession:
    """A session that is among others.

    Raises:
        LogError: it is a file of its own.
    """
    if isinstance(place, StoredSession):
        return place
    raise LogError("tree: this is a file, and those below it are in no store", path=place.name)


def refuse_nested(begun: Begun) -> None:
    """Leave a nested session to the one that it belongs to.

    Raises:
        ContinueError: it is one.
    """
    lineage = lineage_in((record.fact for record in begun.log.records()), begun.log.session)
    if lineage is not None:
        root = lineage.root or lineage.parent
        raise ContinueError(
            f"resume: this session is nested in {root}, which goes on with it by itself: resume that one; "
            f"--nested goes on with this one alone"
        )


def one_line(text: str, cells: int) -> str:
    """A name from wherever on one line of so many cells, without what would command a terminal."""
    line = " ".join(printable(text[:1000]).split())
    return line if cell_len(line) <= cells else f"{set_cell_size(line, cells - 1).rstrip()}…"


def _object(depth: int, node: SessionNode) -> dict[str, Any]:
    """A node for programs: those below it follow, one level deeper."""
    return {"depth": depth, **msgspec.to_builtins(replace(node, children=()))}


def _print(out: Console, tree: SessionNode, nodes: list[tuple[int, SessionNode]]) -> None:
    for depth, node in nodes:
        indent = "  " * min(depth, _DEEPEST) + (f"({depth}) " if depth > _DEEPEST else "")
        style = _STYLES.get(node.state, "red")
        _line(out, f"{indent}{_headline(node)}", f"bold {style}" if not depth else style)
        for mark, text, its_style in _notes(node):
            _line(out, f"{indent}  {mark} {text}", its_style)
    _summary(out, tree, nodes)


def _line(out: Console, text: str, style: str = "") -> None:
    out.print(" ".join(printable(text).splitlines()), style=style, soft_wrap=True)


def _headline(node: SessionNode) -> str:
    """``worker · s.c1 · parallel · ended stop · 2 turns, 1 call · 30 tokens, $0.0100 (in all 90, $0.0300) · 1.2 s``"""
    how = " ".join([part for part in (node.mode, one_line(node.call_id, _NAME)) if part])
    state = node.state if node.end_reason in ("", node.state) else f"{node.state} {node.end_reason}"
    parts = [one_line(node.agent, _NAME), short(node.session), how, state]
    if node.runs:
        parts += [
            f"{_count(node.turns, 'turn')}, {_count(node.tool_calls, 'call')}",
            _usage(node),
            _duration(node),
        ]
    return " · ".join([part for part in parts if part])


def _usage(node: SessionNode) -> str:
    own = amount(node.usage)
    return own if node.usage == node.total_usage else f"{own} (in all {amount(node.total_usage)})"


def amount(usage: Usage) -> str:
    """``1,234 tokens, $0.0123``"""
    tokens = _count(usage.total_tokens, "token")
    return f"{tokens}, ${usage.cost.total:.4f}" if usage.cost else tokens


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _duration(node: SessionNode) -> str:
    """From its beginning to the end of its newest run, or to its last fact; waiting included."""
    until = node.updated if node.ended is None else node.ended
    seconds = round(max(0.0, until - node.started), 1)
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes} min {left} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _notes(node: SessionNode) -> Iterator[tuple[str, str, str]]:
    """What there is to say of a session besides its numbers: mark, text, style."""
    if node.problem:
        yield "!", cut_line(one_line(node.problem, 400)), "red"
    if node.by_lineage:
        yield "!", "the log above does not know it: it says itself that it belongs there", "yellow"
    for handoff in node.handoffs:
        yield (
            "·",
            f"{one_line(handoff.source, _NAME)} handed over to {one_line(handoff.target, _NAME)}",
            "dim",
        )
    for wait in node.waits:
        yield "?", _wait(wait, node.session), "yellow"


def _wait(wait: Wait, waiter: str) -> str:
    agent = f" ({one_line(' > '.join(wait.agent), _NAME)})" if any(wait.agent) else ""
    if wait.kind == "child":
        return f"waits for {short(wait.session)}{agent}"
    where = f" of {short(wait.session)}{agent}" if wait.session and wait.session != waiter else ""
    reason = f": {one_line(wait.reason, 160)}" if wait.reason else ""
    return f"waits for a person: {one_line(wait.id, 160)} {one_line(wait.tool, _NAME)}{where}{reason}"


def _summary(out: Console, tree: SessionNode, nodes: list[tuple[int, SessionNode]]) -> None:
    if len(nodes) > 1:
        turns = sum([node.turns for _, node in nodes])
        calls = sum([node.tool_calls for _, node in nodes])
        counts = f"{_count(len(nodes), 'session')} · {_count(turns, 'turn')}, {_count(calls, 'call')}"
        _line(out, f"{counts} · {amount(tree.total_usage)}", "bold")
    by_agent = {agent: used for agent, used in usage_of_trees(tree).items() if used != NO_USAGE}
    if len(by_agent) > 1:
        used = [f"{one_line(agent, _NAME) or '-'} {amount(usage)}" for agent, usage in by_agent.items()]
        _line(out, f"by agent: {' · '.join(used)}", "dim")
    for problem in check_accounting(tree):
        if problem.kind not in UNREADABLE and problem.usage != NO_USAGE:
            yet = f", {amount(problem.usage)} are not accounted yet" if problem.kind == "open" else ""
            style = "yellow" if problem.kind == "open" else "red"
            _line(out, f"! {short(problem.session)}: {problem.message}{yet}", style)
