"""``--tree`` of ``unspool verify``, ``replay`` and ``delete``: what they do to one session, for all of a tree.

Read with: ``tree.py``, ``verify.py``, ``replay.py``, ``delete.py``.
"""

from collections.abc import Callable
from typing import Final

from unspool.kernel.errors import LogError
from unspool.subagent.session_tree import Problem, SessionNode, check_accounting, read_tree, read_trees, walk
from unspool.trajectory import Sessions
from unspool.trajectory.sessions import has_forks

from .asking import ask, can_ask
from .output import complain, console, write_json
from .places import Place, StoredSession
from .replay import replay
from .tree import in_store
from .verify import verify
from .view import printable

_WRONG: Final = frozenset({"unaccounted", "overaccounted", "missing", "repeated"})


def verify_tree(place: Place, *, repair: bool, as_json: bool) -> int:
    """Verify each session of a tree, and whether they fit together; 1 where something is wrong.

    Raises:
        LogError: it is a file of its own.
    """
    return _each(place, lambda one: verify(one, None, repair=repair, as_json=as_json), as_json=as_json)


def replay_tree(place: Place, *, as_json: bool) -> int:
    """Replay each session of a tree by itself, from what is recorded; 1 where one comes out otherwise.

    Raises:
        LogError: it is a file of its own.
    """
    return _each(place, lambda one: replay(one, tools=None, model=None, as_json=as_json), as_json=as_json)


def _each(place: Place, act: Callable[[StoredSession], int], *, as_json: bool) -> int:
    """Do it to each session that is there, the top first, and sum it up."""
    stored = in_store(place)
    tree = read_tree(stored.sessions, stored.name)
    names = [node.session for _, node in walk(tree) if node.state not in ("missing", "repeated")]
    failed = [name for name in names if _fails(act, StoredSession(stored.sessions, name))]
    wrong = [problem for problem in check_accounting(tree) if problem.kind in _WRONG]
    _tell(tree, len(names), failed, wrong, as_json=as_json)
    return 1 if failed or wrong else 0


def _fails(act: Callable[[StoredSession], int], one: StoredSession) -> bool:
    """Whether it comes to anything but 0; what cannot be done at all does not keep the others from it."""
    try:
        return act(one) != 0
    except LogError as error:
        complain(f"{one.name}: {error}")
        return True


def _tell(tree: SessionNode, count: int, failed: list[str], wrong: list[Problem], *, as_json: bool) -> None:
    if as_json:
        verdict = {"tree": tree.session, "sessions": count, "ok": not (failed or wrong)}
        write_json({**verdict, "failed": failed, "problems": wrong})
        return
    out = console()
    for problem in wrong:
        text = f"{problem.session}: {problem.kind}: {problem.message}"
        out.print(" ".join(printable(text).splitlines()), style="red", soft_wrap=True)
    parts = [f"{count} session{'' if count == 1 else 's'}"]
    parts += [f"{len(failed)} not whole"] if failed else []
    parts += [f"{len(wrong)} that do not fit"] if wrong else []
    text = f"tree of {tree.session}: {'not ok' if failed or wrong else 'ok'}, {', '.join(parts)}"
    out.print(printable(text), style="red" if failed or wrong else "green", soft_wrap=True)


def nested_below(place: StoredSession) -> int:
    """How many sessions are below this one, and there."""
    tree = read_tree(place.sessions, place.name)
    return sum([node.state not in ("missing", "repeated") for depth, node in walk(tree) if depth])


def delete_tree(place: StoredSession, *, forks: bool, sure: bool, as_json: bool) -> int:
    """Delete a session and all below it, after a question unless ``sure``, and print the ids of what is gone.

    Those below go first: what is interrupted still names what is left. 1: the answer was no. 2: nobody is there to
    be asked.

    Raises:
        LogError: one of them has a writer, or forks that share its facts and ``forks`` is not set. Nothing is gone
            then.
    """
    family = _family(place.sessions, place.name, forks=forks)
    if not sure:
        if not can_ask():
            complain("delete: there is no terminal to ask on, give --yes")
            return 2
        what = " and everything that was forked from them" if forks else ""
        below = len(family) - 1
        if not ask(f"delete session {place.name} and {below} below it{what}?"):
            return 1
    gone: set[str] = set()
    for name in reversed(family):
        if name in gone:
            continue
        for session in place.sessions.delete(name, forks=forks):
            gone.add(session)
            if as_json:
                write_json({"session": session})
            else:
                console().print(session, soft_wrap=True)
    return 0


def _family(sessions: Sessions, root: str, *, forks: bool) -> list[str]:
    """The sessions of a tree, with ``forks`` also what was forked from them and is below that; each before those
    below it."""
    roots = [root]
    while True:
        nodes = [node for _, node in walk(*read_trees(sessions, roots))]
        names = [node.session for node in nodes if node.state not in ("missing", "repeated")]
        for node in nodes:
            if node.state == "running":
                raise LogError("log: another writer has it open", kind="busy", session=node.session)
        members = set(names)
        found = [
            info
            for info in sessions.list()
            if info.parent and info.parent.session in members and info.session not in members
        ]
        if not found:
            return names
        if not forks:
            source = found[0].parent
            assert source is not None
            raise has_forks(source.session, [info.session for info in found if info.parent == source])
        roots += [info.session for info in found]
