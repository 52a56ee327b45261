"""The kill matrix of a team: a part of it, or all, and that its checks find what they are there to find."""

import os
import subprocess
import sys
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from unspool import Agent
from unspool.kernel import raw_tool
from unspool.kernel.events import AgentEnd, AgentStart, Fact, MessageEnd, ToolExecEnd
from unspool.kernel.messages import assistant_message, user_message
from unspool.kernel.ports import JSON, ToolContext
from unspool.llm.scripted import ScriptedModel, call
from unspool.team.killmatrix_checks import LETTERS, check_boxes, check_member, check_sessions
from unspool.team.killmatrix_plan import OTHER
from unspool.team.killmatrix_processes import owner_of
from unspool.team.letters import Letter
from unspool.team.mailbox import BoxInfo
from unspool.team.member_loop import _deliver
from unspool.team.texts import letter_text
from unspool.trajectory import MemoryLog
from unspool.trajectory.killmatrix_points import KINDS, Place
from unspool.trajectory.killmatrix_stores import Stored

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

LONG = bool(os.environ.get("UNSPOOL_LONG"))


def matrix(*arguments: str, fault: str = "") -> tuple[int, list[str]]:
    """Exit status and lines of the command, with a fault built in; in a process of its own, which has one thread."""
    program = f"{dedent(fault)}\nfrom unspool.team.killmatrix import main\nraise SystemExit(main())"
    command = [sys.executable, "-P", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.skipif(not LONG, reason="some seconds, and some places fail by chance: see the test below")
def test_the_matrix() -> None:
    status, lines = matrix("--jobs", "4")
    assert status == 0, "\n".join(lines)
    passed, total = lines[-1].split("/")
    assert passed == total and int(total) >= 1000
    kinds = [label for kind, label in KINDS.items() if kind not in ("tool", "effect")]
    assert {line[:32].strip() for line in lines[:-1]} <= {*kinds, "killed again while going on"}


def test_a_letter_that_waits_does_not_skip_open_calls_of_a_member_that_is_gone_on_with() -> None:
    """The places that fail are such: ``jsonl:team.lead.1/torn:13``, where ``report on task 1`` is there already."""
    script: list[Any] = [[call("c1", "send"), call("c2", "send")], "done"]
    sends = [raw_tool("send", "Send.", {"type": "object"}, _sent, idempotent=True)]
    whole = MemoryLog(session="s")
    anyio.run(Agent(ScriptedModel(script), tools=sends, log=whole).run, "begin")
    cut = next(n for n, fact in enumerate(whole.facts) if getattr(fact, "call_id", "") == "c2")
    log = MemoryLog(whole.facts[:cut], session="s")
    agent = Agent(ScriptedModel(script[1:]), tools=sends, log=log)
    member = SimpleNamespace(
        agent=agent, team=SimpleNamespace(deliver="follow_up", format_letter=letter_text)
    )
    _deliver(member, Letter(id="a", sender="ann", to="lead", text="hi"))  # type: ignore[arg-type]  # all it uses
    anyio.run(agent.continue_)
    assert [fact.outcome for fact in log.facts if isinstance(fact, ToolExecEnd)] == ["ok", "ok"]


async def _sent(args: JSON, ctx: ToolContext) -> str:
    return "sent"


READ_TWICE = """
    from unspool.team import member, membership
    member.letters_in = lambda state: frozenset()
    membership.letters_in_log = lambda facts: frozenset()
    """
LOST = """
    from unspool.team import member_loop
    take_in = member_loop._take_in
    async def early(member, found):
        await member.team.mailbox.acknowledge(member.name, [each.letter.id for each in found])
        await take_in(member, found)
    member_loop._take_in = early
    """


FAULTS = {
    "a letter is shown again": (READ_TWICE, "jsonl:box.ann/before", "team.ann.1: it has read ['task 1', "),
    "a letter is lost": (LOST, "jsonl:team.lead.1/before", "team.lead.1: it has read [], not ['begin'"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    fault, kind, problem = FAULTS[name]
    near = [argument for number in (1, 2, 3) for argument in ("--only", f"{kind}:{number}")]
    status, lines = matrix(*near, "--jobs", "3", fault=fault)
    assert status == 1
    assert problem in "\n".join(lines)


# --- checks ------------------------------------------------------------------------------------


def facts_of(*read: str, last: str = "reported") -> list[Stored]:
    """A session that has read these letters."""
    said = [user_message(text) for text in read] + [assistant_message(last)]
    facts: list[Fact] = [AgentStart(run_id="r", seq=1)]
    facts += [
        MessageEnd(f"m{seq}", message, run_id="r", seq=seq, cause="host")
        for seq, message in enumerate(said, 2)
    ]
    facts.append(AgentEnd("stop", run_id="r", seq=len(facts) + 1))
    return [Stored(fact, str(fact.seq)) for fact in facts]


def test_letters_that_are_lost_doubled_or_out_of_order_are_found() -> None:
    one, two, three = LETTERS[OTHER]
    assert list(check_member(OTHER, facts_of(one, two, three), [])) == []
    shown = f'<message from="lead" id="a">\n{two}\n</message>'
    assert list(check_member(OTHER, facts_of(one, shown, three), [])) == []
    for read in ([one, three], [one, two, two, three], [two, one, three]):
        found = list(check_member(OTHER, facts_of(*read), []))
        assert found == [f"it has read {read}, not {[one, two, three]}"]
    found = list(check_member(OTHER, facts_of(one, two, three, last="hm"), []))
    assert found == ["it ends with 'hm' (end_reason='stop', active=False)"]


def test_what_is_left_over_is_found() -> None:
    boxes = [BoxInfo(name="a", state="resting"), BoxInfo(name="b", state="busy", waiting=1, out=2)]
    assert list(check_boxes(boxes[:1], 0)) == []
    assert list(check_boxes(boxes, 1)) == ["in the box of b 1 letters wait, 2 are out", "1 letters are dead"]
    whole = facts_of(*LETTERS[OTHER])
    assert list(check_sessions({OTHER: {"x": whole}}, {})) == []
    assert list(check_sessions({OTHER: {"x": whole, "y": whole}}, {})) == ["ann has the sessions ['x', 'y']"]


def test_a_place_belongs_to_the_process_that_comes_to_it() -> None:
    assert owner_of(Place("acked", 1, "team.ann.1")) == owner_of(Place("before", 2, "box.ann")) == OTHER
