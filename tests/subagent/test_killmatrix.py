"""The kill matrix of a tree: a part of it, or all, and that its checks find what they are there to find."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from msgspec.structs import replace

from unspool import Fact, Usage
from unspool.kernel import ChildEnded, ChildStarted, fold
from unspool.kernel.events import AgentEnd, AgentStart, Lineage, ModelResponse
from unspool.subagent.killmatrix_checks import (
    Kept,
    SessionEnding,
    check_children,
    check_left,
    check_tree,
    kept_of,
)
from unspool.subagent.killmatrix_plan import ROOT
from unspool.subagent.killmatrix_stores import stored_facts
from unspool.trajectory import JsonlSessions
from unspool.trajectory.killmatrix_checks import Ending
from unspool.trajectory.killmatrix_points import KINDS, Place, Points
from unspool.trajectory.killmatrix_processes import Case

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

LONG = bool(os.environ.get("UNSPOOL_LONG"))


def matrix(*arguments: str) -> tuple[int, list[str]]:
    """Exit status and lines of the command; in a process of its own, which has no thread but one."""
    command = [sys.executable, "-P", "-m", "unspool.subagent.killmatrix", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def test_the_matrix() -> None:
    status, lines = matrix(*([] if LONG else ["--sample", "24"]))
    assert status == 0, "\n".join(lines)
    passed, total = lines[-1].split("/")
    assert passed == total and int(total) >= (2500 if LONG else 23)
    assert [line[:32].strip() for line in lines[:-1]] == [*KINDS.values(), "killed again while going on"]


def test_what_fails_is_named_so_that_it_can_be_run_again() -> None:
    status, lines = matrix("--only", "jsonl:root/torn:9000", "--only", "sqlite:root/torn:7+root/acked:3")
    assert (status, lines[-1]) == (1, "1/2")
    named = lines.index("--only jsonl:root/torn:9000")
    assert lines[named + 1] == "  the process was not killed at root/torn:9000: it ended with 0"


def test_a_place_has_the_name_of_its_session() -> None:
    for name in ("jsonl:root/torn:137", "sqlite:sync:4+deep-0a/effect:2"):
        assert str(Case.of(name)) == name
    with pytest.raises(ValueError, match="this is none"):
        Case.of("jsonl:torn/root:1")


def test_places_of_a_session_are_counted_for_themselves() -> None:
    points = Points(Place("torn", 2, "a"))
    a, b = points.within("a"), points.within("b")
    assert [each.is_end("torn") for each in (a, b, b, points, points, a)] == [*[False] * 5, True]
    places = ["a/torn:1", "b/torn:1", "b/torn:2", "torn:1", "torn:2", "a/torn:2"]
    assert [str(place) for place in points.trail] == places == [str(place) for place in a.trail]


FAULTS = {
    "a child that was begun is begun again": (
        """
        from unspool.subagent.tally import Tally
        read = Tally.read
        def forgetful(self, facts):
            read(self, facts)
            self.begun = self.closed = False
        Tally.read = forgetful
        """,
        "sqlite:root/acked:56",
        "users is ['do part 1', 'do part 1'], not ['do part 1']",
    ),
    "usage from before a crash is not accounted": (
        """
        from unspool.subagent import child
        perform = child._Run.perform
        async def late(self):
            self._used = self._log.state.total_usage
            return await perform(self)
        child._Run.perform = late
        """,
        "sqlite:left-616c32bfdbf58112/acked:25",
        "is unaccounted: it has used",
    ),
    "an effect comes twice": (
        """
        from unspool.trajectory.killmatrix_host import Effects
        add = Effects.add
        Effects.add = lambda self, *effect: (add(self, *effect), add(self, *effect))
        """,
        "sqlite:left-616c32bfdbf58112/acked:25",
        "pay ran 2 times as left-",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    patch, case, problem = FAULTS[fault]
    program = f"{dedent(patch)}\nfrom unspool.subagent.killmatrix import main\nraise SystemExit(main())"
    command = [sys.executable, "-P", "-c", program, "--only", case, "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert problem in done.stdout


# --- checks ------------------------------------------------------------------------------------

USED = Usage(input_tokens=10, output_tokens=1)
ABOVE = Lineage(parent=ROOT, call_id="r1", path=(ROOT,), root=ROOT)
STARTED = ChildStarted("a-1", "a", "r1", "single")
ENDED = ChildEnded("a-1", "a", "r1", "stop", USED)
CHILD: tuple[Fact, ...] = (
    AgentStart(agent="a", run_id="r", lineage=ABOVE),
    ModelResponse(usage=USED, run_id="r"),
    AgentEnd("stop", run_id="r"),
)


def root(*facts: Fact) -> tuple[Fact, ...]:
    return (AgentStart(agent=ROOT, run_id="r"), *facts, AgentEnd("stop", run_id="r"))


class Tree:
    """Sessions with these facts, as a process has left them."""

    def __init__(self, folder: Path, **logs: tuple[Fact, ...]) -> None:
        self.sessions = JsonlSessions(folder / "sessions")
        for name, facts in logs.items():
            with self.sessions.create(name.replace("_", "-")) as log:
                for seq, fact in enumerate(facts, 1):
                    log.append(replace(fact, seq=seq))
        self.kept = kept_of(stored_facts("jsonl", str(folder)))

    def left(self, aside: bool = False, **written: int) -> list[str]:
        names = {name.replace("_", "-"): count for name, count in written.items()}
        return list(check_left(self.sessions, names, {}, aside=aside))

    def ended(self, *effects: tuple[str, str], kills: int = 1) -> list[str]:
        good = {"root": SessionEnding(NOTHING, 1), "a-1": SessionEnding(NOTHING, 1)}
        return list(check_tree(self.sessions, self.kept, {}, effects, good, kills))


NOTHING = Ending(reason="stop", active=False, text="", users=[], rows=[], unknown=[])


def test_a_tree_that_is_whole(tmp_path: Path) -> None:
    tree = Tree(tmp_path, root=root(STARTED, ENDED), a_1=CHILD)
    assert tree.left(root=4, a_1=3) == tree.ended() == []


def test_facts_that_were_written_are_missed_after_a_crash(tmp_path: Path) -> None:
    tree = Tree(tmp_path, root=root(STARTED)[:2], a_1=CHILD[:1])
    assert tree.left(root=2, a_1=1) == []  # nothing but an open end
    assert tree.left(root=1, a_1=0) == [
        "root: 2 facts are stored, 1 were written",
        "a-1: 1 facts are stored, 0 were written",
    ]
    assert tree.left(root=1, a_1=0, aside=True) == []
    assert tree.left(root=2, a_1=1, b_2=3) == ["b-2: 0 facts are stored, 3 were written"]


def test_a_child_that_is_accounted_wrongly_is_found(tmp_path: Path) -> None:
    tree = Tree(tmp_path, root=root(STARTED, replace(ENDED, usage=Usage(input_tokens=9))), a_1=CHILD)
    found = ["a-1 is unaccounted: it has used 11 tokens, the log above accounts for 9 tokens"]
    assert tree.left(root=4, a_1=3) == found
    assert tree.ended()[:1] == found and tree.ended()[1].startswith("the root accounts for Usage(")


def test_children_that_do_not_end_once_are_found(tmp_path: Path) -> None:
    tree = Tree(tmp_path, root=root(STARTED, ENDED, STARTED), a_1=CHILD)
    assert tree.ended()[0] == "root: ['a-1'] are left open"
    assert list(check_children(Kept([ENDED], [], fold([])))) == ["a-1 has ended without having begun"]


def test_other_sessions_runs_and_effects_are_found(tmp_path: Path) -> None:
    assert Tree(tmp_path / "1", root=root()).ended() == ["there are other sessions: ['a-1']"]
    tree = Tree(tmp_path / "2", root=root(STARTED, ENDED), a_1=CHILD)
    assert tree.ended(("pay", "b-2:c1")) == ["there are effects of no session: ['b-2:c1']"]
    assert tree.ended(("pay", "a-1:c1")) == ["a-1: pay ran as a-1:c1, of which the log knows nothing"]
    again = (*CHILD, replace(CHILD[0], run_id="r2"), replace(CHILD[2], run_id="r2"))
    tree = Tree(tmp_path / "3", root=root(STARTED, ENDED), a_1=again)
    assert tree.ended(kills=1) == []
    assert tree.ended(kills=0) == ["a-1: there were 2 runs, not 1"]
