"""A tree of sessions, read from its logs: made by real nested runs, whole, paused, aborted and killed anywhere."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from session_trees import Tree, copy_prefix, down, pay, paying, said, three_deep, used_in_all

from unspool import AgentStart, Usage, Verdict
from unspool.kernel import ChildEnded, ChildEvent, ChildStarted, Handoff, ModelResponse, TurnStart
from unspool.kernel.events import Lineage
from unspool.kernel.messages import Cost
from unspool.llm.scripted import Wait as Pause
from unspool.llm.scripted import call
from unspool.subagent.session_lineage import lineage_in, nested_sessions
from unspool.subagent.session_tree import (
    SessionNode,
    check_accounting,
    read_tree,
    read_trees,
    usage_of_trees,
    waits,
    walk,
)
from unspool.trajectory import JsonlSessions, Sessions, SqliteSessions

NAMES = ["root", "root.c1", "root.c1.d1"]


@pytest.fixture(params=["sqlite", "jsonl"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    opened: list[Sessions] = []

    def make(name: str = "kept") -> Sessions:
        opened.append(
            SqliteSessions(tmp_path / f"{name}.db")
            if request.param == "sqlite"
            else JsonlSessions(tmp_path / name)
        )
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.fixture
def store(make_store: Any) -> Sessions:
    made: Sessions = make_store()
    return made


def nodes(tree: SessionNode) -> list[SessionNode]:
    return [node for _, node in walk(tree)]


def facts(store: Sessions, session: str, *facts: Any) -> None:
    """A log with these facts."""
    with store.create(session) as log:
        for number, fact in enumerate(facts, log.seq + 1):
            log.append(msgspec.structs.replace(fact, seq=number, time=float(number)))


def test_a_whole_tree(store: Sessions) -> None:
    with Tree(store, *three_deep()) as made:
        assert made.run() == "stop"
    tree = read_tree(store, "root")
    found = nodes(tree)
    assert [node.session for node in found] == NAMES
    assert [node.parent for node in found] == ["", *NAMES[:2]]
    assert [(node.agent, node.call_id) for node in found] == [("a0", ""), ("a1", "c1"), ("a2", "d1")]
    assert [(node.state, node.end_reason) for node in found] == [("ended", "stop")] * 3
    assert [(node.runs, node.turns, node.tool_calls) for node in found] == [(1, 2, 1), (1, 2, 1), (1, 1, 0)]
    assert [node.usage.output_tokens for node in found] == [3, 7, 5]
    assert [node.total_usage.output_tokens for node in found] == [15, 12, 5]
    assert [node.accounted and node.accounted.output_tokens for node in found] == [None, 12, 5]
    assert [node.agrees for node in found] == [None, True, True]
    assert tree.total_usage.total_tokens == used_in_all(store).total_tokens == 165
    assert (check_accounting(tree), waits(tree)) == ([], [])
    assert {agent: used.output_tokens for agent, used in usage_of_trees(tree).items()} == {"a0": 3, "a1": 7, "a2": 5}  # fmt: skip
    assert [depth for depth, _ in walk(tree)] == [0, 1, 2]


def test_children_come_in_the_order_in_which_they_were_begun(store: Sessions) -> None:
    scripts = [[said("", 1, down("c2"), down("c1")), said("done")], [said("one"), said("other")]]
    with Tree(store, *scripts) as made:
        made.mode = "parallel"
        made.run()
    tree = read_tree(store, "root")
    assert [(node.session, node.mode) for node in tree.children] == [
        ("root.c2", "parallel"),
        ("root.c1", "parallel"),
    ]


def test_a_tree_that_waits_for_a_person_far_below(store: Sessions) -> None:
    with Tree(store, *paying(), tools=[pay]) as made:
        assert made.run() == "paused"
        tree = read_tree(store, "root")
        assert [node.state for node in nodes(tree)] == ["paused"] * 3
        assert [(name, wait.kind, wait.id, wait.tool, wait.session) for name, wait in waits(tree)] == [
            ("root", "approval", "c1/d1/p1", "pay", "root.c1"),
            ("root.c1", "approval", "d1/p1", "pay", "root.c1.d1"),
            ("root.c1.d1", "approval", "p1", "pay", "root.c1.d1"),
        ]
        assert tree.children[0].children[0].waits[0].agent == ("a0", "a1", "a2")
        assert check_accounting(tree) == []
        assert made.decide(Verdict.allow()) == "stop"
    after = read_tree(store, "root")
    assert not waits(after) and not check_accounting(after)
    assert after.total_usage.output_tokens == 21
    assert [node.runs for node in nodes(after)] == [2, 2, 2]


def test_one_of_two_is_decided(store: Sessions) -> None:
    from_below = [said("", 5, call("p1", "pay", amount=1), call("p2", "pay", amount=2)), said("paid")]
    with Tree(store, *paying()[:2], from_below, tools=[pay]) as made:
        made.run()
        made.agent.decide({"c1/d1/p1": Verdict.allow()})
        tree = read_tree(store, "root")
    assert [wait.id for wait in tree.waits] == ["c1/d1/p2"]


def test_an_aborted_tree(store: Sessions) -> None:
    scripts: list[Any] = [[said("", 1, down())], [said("", 3, down("d1"))], [["half a sen", Pause(60)]]]
    with Tree(store, *scripts) as made:
        assert made.run_until(1) == "aborted"
    tree = read_tree(store, "root")
    assert [(node.state, node.end_reason) for node in nodes(tree)] == [("ended", "aborted")] * 3
    assert not waits(tree) and not check_accounting(tree)


def test_a_tree_that_runs(store: Sessions) -> None:
    with Tree(store, *three_deep()) as made:
        found: list[SessionNode] = []

        def look(event: Any) -> None:
            inner = event.event.event if isinstance(getattr(event, "event", None), ChildEvent) else None
            if isinstance(inner, AgentStart):
                found.append(read_tree(store, "root"))

        made.agent.subscribe(look)
        made.run()
    running = found[0]
    assert [node.state for node in nodes(running)] == ["running"] * 3
    assert [(name, wait.kind, wait.session) for name, wait in waits(running)] == [
        ("root", "child", "root.c1"),
        ("root.c1", "child", "root.c1.d1"),
    ]
    assert {problem.kind for problem in check_accounting(running)} == {"open"}


@pytest.mark.parametrize("scripts", [three_deep, paying])
def test_a_tree_killed_anywhere(make_store: Any, scripts: Any) -> None:
    """Whatever prefix of its logs a kill leaves, what is read of it adds up."""
    whole = make_store("whole")
    with Tree(whole, *scripts(), tools=[pay]) as made:
        made.run()
    assert len(made.order) == sum(info.facts for info in whole.list())
    for cut in range(1, len(made.order) + 1, 3):
        killed = make_store(f"killed{cut}")
        copy_prefix(made.order, whole, killed, cut)
        tree = read_tree(killed, "root")
        there = {info.session for info in killed.list()}
        found = nodes(tree)
        assert {node.session for node in found if node.state != "missing"} == there, cut
        assert tree.total_usage.total_tokens == used_in_all(killed).total_tokens
        assert {node.state for node in found} <= {"lost", "paused", "ended", "missing"}
        problems = check_accounting(tree)
        assert {problem.kind for problem in problems} <= {"open", "missing"}, (cut, problems)
        booked = tree.usage + sum([node.accounted or Usage() for node in tree.children], Usage())
        beyond = sum([problem.usage.total_tokens for problem in problems])
        assert booked.total_tokens + beyond == tree.total_usage.total_tokens, cut
        killed.close()


def test_a_child_whose_parent_lost_its_tail_is_found_by_its_lineage(make_store: Any) -> None:
    whole, cut = make_store("whole"), make_store("cut")
    with Tree(whole, *three_deep()) as made:
        made.run()
    begun = next(fact.seq for fact in whole.facts("root") if isinstance(fact, ChildStarted))
    kept = [(session, seq) for session, seq in made.order if session != "root" or seq < begun]
    copy_prefix(kept, whole, cut, len(kept))
    tree = read_tree(cut, "root")
    (child,) = tree.children
    assert (child.session, child.call_id, child.by_lineage, child.accounted) == ("root.c1", "c1", True, None)
    assert tree.total_usage.output_tokens == 1 + 12
    (problem,) = check_accounting(tree)
    assert (problem.kind, problem.usage.output_tokens) == ("open", 12)
    assert nested_sessions(cut).keys() == {"root", "root.c1"}


def test_a_fork_of_a_nested_session_is_nobodys_child(store: Sessions) -> None:
    with Tree(store, *three_deep()) as made:
        made.run()
    store.fork("root.c1", to="mine")
    assert lineage_in(store.facts("mine"), "mine") is None
    assert [node.session for node in nodes(read_tree(store, "root"))] == NAMES
    mine = read_tree(store, "mine")
    assert (mine.usage, mine.children, mine.state, mine.agent) == (Usage(), (), "ended", "a1")


def test_a_log_that_is_missing_or_damaged(tmp_path: Path) -> None:
    with JsonlSessions(tmp_path) as store:
        with Tree(store, *three_deep()) as made:
            made.run()
        path = Path(store.info("root.c1").path)
        path.write_bytes(path.read_bytes().replace(b'"child":"root.c1.d1"', b'"child":"root.c1.d2"'))
        (tmp_path / "root.c1.d1.jsonl").unlink()
        tree = read_tree(store, "root")
        assert [(node.session, node.state) for node in nodes(tree)] == [
            ("root", "ended"),
            ("root.c1", "damaged"),
        ]
        assert "checksum" in tree.children[0].problem
        assert [problem.kind for problem in check_accounting(tree)] == ["damaged"]
        path.unlink()
        tree = read_tree(store, "root")
        assert [(node.session, node.state, node.agent) for node in nodes(tree)][1:] == [
            ("root.c1", "missing", "a1")
        ]
        assert read_tree(store, "nothing").state == "missing"


def test_what_is_never_endless(store: Sessions) -> None:
    """Sessions that say that they are below themselves, or below two others."""
    facts(
        store,
        "a",
        AgentStart(session="a", agent="x"),
        ChildStarted("b"),
        ChildStarted("c"),
        ChildStarted("a"),
    )
    facts(store, "b", AgentStart(session="b"), ChildStarted("a"), ChildStarted("c"))
    facts(
        store,
        "c",
        AgentStart(session="c", lineage=Lineage(parent="c")),
        ModelResponse(usage=Usage(output_tokens=3)),
    )
    tree = read_tree(store, "a")
    found = [(depth, node.session, node.state) for depth, node in walk(tree)]
    assert found == [
        (0, "a", "lost"),
        (1, "b", "lost"),
        (2, "a", "repeated"),
        (2, "c", "lost"),
        (3, "c", "repeated"),
        (1, "c", "repeated"),
        (1, "a", "repeated"),
    ]
    assert tree.total_usage.output_tokens == 3
    assert [problem.kind for problem in check_accounting(tree)].count("repeated") == 4


def test_thousands_of_levels(store: Sessions) -> None:
    depth = 1500
    for level in range(depth):
        facts(store, f"s{level}", AgentStart(session=f"s{level}"), ChildStarted(f"s{level + 1}"))
    tree = read_tree(store, "s0")
    assert max(depth for depth, _ in walk(tree)) == depth
    assert [node.state for node in nodes(tree)][-1] == "missing"


ACCOUNTS: dict[str, tuple[list[Any], str, int]] = {
    "all of it": ([ChildStarted("b"), ChildEnded("b", usage=Usage(output_tokens=5))], "", 0),
    "in two parts": (
        [ChildStarted("b"), ChildEnded("b", usage=Usage(output_tokens=2)), ChildStarted("b", used=Usage(output_tokens=2)), ChildEnded("b", usage=Usage(output_tokens=3))],
        "",
        0,
    ),
    "too little": ([ChildStarted("b"), ChildEnded("b", usage=Usage(output_tokens=4))], "unaccounted", 1),
    "twice": ([ChildStarted("b"), *[ChildEnded("b", usage=Usage(output_tokens=5))] * 2], "overaccounted", -5),
    "not ended": ([ChildStarted("b")], "open", 5),
    "ended once": (
        [ChildStarted("b"), ChildEnded("b", usage=Usage(output_tokens=2)), ChildStarted("b", used=Usage(output_tokens=2))],
        "open",
        3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCOUNTS)
def test_what_is_accounted(store: Sessions, name: str) -> None:
    above, kind, beyond = ACCOUNTS[name]
    facts(store, "a", AgentStart(session="a"), *above)
    facts(store, "b", AgentStart(session="b"), ModelResponse(usage=Usage(output_tokens=5)))
    found = [
        (problem.kind, problem.usage.output_tokens) for problem in check_accounting(read_tree(store, "a"))
    ]
    assert found == ([(kind, beyond)] if kind else [])


def test_money_may_differ_in_the_last_digit(store: Sessions) -> None:
    costs = [Usage(output_tokens=1, cost=Cost(output=each)) for each in (0.1, 0.2, 0.3)]
    backwards = sum(reversed(costs), Usage())
    assert sum(costs, Usage()) != backwards
    facts(store, "a", AgentStart(session="a"), ChildStarted("b"), ChildEnded("b", usage=backwards))
    facts(store, "b", AgentStart(session="b"), *[ModelResponse(usage=used) for used in costs])
    assert check_accounting(read_tree(store, "a")) == []


def test_handoffs_divide_the_usage_of_a_session(store: Sessions) -> None:
    used = [ModelResponse(usage=Usage(output_tokens=count)) for count in (1, 2, 4)]
    facts(
        store, "a",
        AgentStart(session="a", agent="triage"), TurnStart(1), used[0], Handoff("billing", "triage", "h1"),
        TurnStart(2), used[1], ChildStarted("b"), ChildEnded("b", usage=Usage(output_tokens=4)),
    )  # fmt: skip
    facts(store, "b", AgentStart(session="b", agent="triage"), TurnStart(1), used[2])
    tree = read_tree(store, "a")
    assert (tree.agent, [(each.source, each.target) for each in tree.handoffs]) == (
        "billing",
        [("triage", "billing")],
    )
    assert {agent: each.output_tokens for agent, each in usage_of_trees(tree).items()} == {
        "billing": 2,
        "triage": 5,
    }


def test_several_roots_share_what_they_share(store: Sessions) -> None:
    for root in ("root", "other"):
        with Tree(store, *three_deep(), root=root) as made:
            made.run()
    trees = read_trees(store, ["root", "other", "root.c1"])
    assert [tree.state for tree in trees] == ["ended", "ended", "repeated"]
    assert sum([used.output_tokens for used in usage_of_trees(*trees).values()]) == 30
    assert len(list(walk(*trees))) == 7
    assert [tree.session for tree in read_trees(store, ["other", "root"])] == ["other", "root"]


def test_each_log_is_read_once(store: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of other trees only to where they say whose they are."""
    with Tree(store, *three_deep()) as made:
        made.run()
    for root in ("other", "third"):
        with Tree(store, *three_deep(), root=root) as made:
            made.run()
    read = dict[str, int]()
    real = store.facts

    def counted(session: str) -> Iterator[Any]:
        for fact in real(session):
            read[session] = read.get(session, 0) + 1
            yield fact

    monkeypatch.setattr(store, "facts", counted)
    read_tree(store, "root")
    sizes = {info.session: info.facts for info in store.list()}
    assert {name: count for name, count in read.items() if name not in NAMES} == {
        name: 1 for name in sizes if name not in NAMES
    }
    assert {name: read[name] for name in NAMES} == {name: sizes[name] + 1 for name in NAMES}


def test_nodes_are_plain_data(store: Sessions) -> None:
    with Tree(store, *paying(), tools=[pay]) as made:
        made.run()
    tree = read_tree(store, "root")
    assert msgspec.json.decode(msgspec.json.encode(tree), type=SessionNode) == tree
    assert all(one.started <= other.started for one, other in pairwise(nodes(tree)))
