"""Permissions as the gate of an agent: pauses, answers at once and from another process, grants, the record."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from unspool import Agent, Hooks, Tool, ToolContext, Verdict, tool
from unspool.kernel.errors import ToolDefinitionError
from unspool.kernel.events import ApprovalRequested, Fact, ToolExecDispatch, ToolExecEnd
from unspool.kernel.hooks import ApprovalInfo, Gate, ToolUse
from unspool.llm.scripted import ScriptedModel, call
from unspool.tools.permissions import GrantStore, Permissions, Rules
from unspool.trajectory import JsonlLog, MemoryLog

Ruled = ApprovalRequested | ToolExecDispatch | ToolExecEnd
pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "w" / "src").mkdir(parents=True)
    (tmp_path / "w" / "a.txt").write_text("old")
    return tmp_path / "w"


def tools_of(work: Path) -> list[Tool]:
    @tool(read_only=True)
    def read_file(path: str) -> str:
        """Read a file."""
        return (work / path).read_text()

    @tool
    def write_file(path: str, content: str) -> str:
        """Write a file."""
        (work / path).write_text(content)
        return "written"

    @tool
    def bash(command: str) -> str:
        """Run a command."""
        return f"ran {command}"

    @tool
    def shout(text: str, ctx: ToolContext) -> str:
        """Shout."""
        return text.upper()

    return [read_file, write_file, bash, shout]


def agent_of(work: Path, script: Sequence[Any], gate: Gate, **options: Any) -> Agent[str]:
    approve = options.pop("approve", None)
    return Agent(
        ScriptedModel(script), tools=tools_of(work), hooks=Hooks(gate=gate, approve=approve), **options
    )


def ends(facts: Sequence[Fact]) -> dict[str, str]:
    return {fact.call_id: fact.outcome for fact in facts if isinstance(fact, ToolExecEnd)}


def ruling(facts: Sequence[Fact], kind: type[Ruled], call_id: str) -> tuple[str, str, dict[str, Any]]:
    """By what, why, and the details that were recorded of the last verdict on a call."""
    for fact in reversed(facts):
        if isinstance(fact, ApprovalRequested | ToolExecDispatch | ToolExecEnd) and isinstance(fact, kind):
            ids = fact.call_ids if isinstance(fact, ApprovalRequested) else (fact.call_id,)
            if call_id in ids:
                assert fact.ruling is not None
                return fact.ruling.by, fact.ruling.reason, fact.ruling.details
    raise AssertionError(f"no such fact: {call_id}")


WRITE = call("w", "write_file", path="a.txt", content="new")


async def test_reads_run_writes_wait_and_what_is_forbidden_does_not_run(work: Path) -> None:
    rules = Rules.parse(deny=["Bash(rm *)"], source="user")
    log = MemoryLog(session="s")
    script = [
        [call("r", "read_file", path="a.txt"), call("x", "bash", command="rm -rf x"), WRITE],
        "done",
    ]
    agent = agent_of(work, script, Permissions(work, rules=rules), log=log)
    result = await agent.run("go")
    assert result.end_reason == "paused"
    assert [waiting.id for waiting in result.pending] == ["w"]
    assert ends(log.facts) == {"r": "ok", "x": "denied"}
    by, reason, details = ruling(log.facts, ToolExecEnd, "x")
    assert (by, reason) == ("rule Bash(rm *)", "the rule Bash(rm *) forbids it")
    assert (details["rule"], details["source"], details["decided"]) == ("Bash(rm *)", "user", "rule")
    assert ruling(log.facts, ToolExecDispatch, "r")[0] == "mode default"
    asked = ruling(log.facts, ApprovalRequested, "w")[2]
    assert asked["grants"]["session"] == "write_file a.txt"
    assert asked["paths"] == [{"access": "write", "path": "a.txt", "real": str(work / "a.txt")}]
    result = await agent.resume({"w": Verdict.allow(by="eve")})
    assert (result.end_reason, (work / "a.txt").read_text()) == ("stop", "new")
    by, _, details = ruling(log.facts, ToolExecDispatch, "w")
    assert (by, details["decided"], details["grant"]) == ("eve", "person", {"lasts": "once", "keys": []})


async def test_a_person_says_no(work: Path) -> None:
    agent = agent_of(work, [[WRITE], "ok"], Permissions(work))
    await agent.run("go")
    result = await agent.resume(Verdict.deny("leave it"))
    assert result.end_reason == "stop"
    assert (work / "a.txt").read_text() == "old"


async def test_a_session_grant_ends_the_questions(work: Path) -> None:
    asked: list[dict[str, Any]] = []

    def approve(info: ApprovalInfo) -> dict[str, Verdict]:
        asked.extend(dict(info.details[waiting.id]) for waiting in info.calls)
        return {waiting.id: Verdict.allow(details={"grant": "session"}) for waiting in info.calls}

    def again(id: str, path: str) -> Any:
        return call(id, "write_file", path=path, content=id)

    script = [
        [again("c1", "a.txt")],
        [again("c2", "a.txt"), again("c3", "./src/../a.txt")],
        [again("c4", "b.txt")],
        ".",
    ]
    log = MemoryLog(session="s")
    permissions = Permissions(work)
    agent = agent_of(work, script, permissions, approve=approve, log=log)
    await agent.run("go")
    assert [details["grants"]["session"] for details in asked] == ["write_file a.txt", "write_file b.txt"]
    assert ruling(log.facts, ToolExecDispatch, "c2")[0] == "grant session write_file a.txt"

    other = agent_of(work, [[again("c5", "a.txt")]], permissions, log=MemoryLog(session="other"))
    assert (await other.run("go")).end_reason == "paused"  # another session is asked

    anew = Permissions(work)  # another process takes the session up
    anew.restore(log.facts, "s")
    resumed = agent_of(work, [[again("c6", "a.txt")], "."], anew, log=MemoryLog(session="s"))
    assert (await resumed.run("go")).end_reason == "stop"


async def test_a_grant_for_always_is_there_for_the_next_engine(work: Path) -> None:
    path = work.parent / "grants.json"
    agent = agent_of(work, [[WRITE], "."], Permissions(work, store=GrantStore(path)))
    await agent.run("go")
    await agent.resume(Verdict.allow(details={"grant": "always"}))
    anew = agent_of(work, [[WRITE], "."], Permissions(work, store=GrantStore(path)))
    assert (await anew.run("go")).end_reason == "stop"


async def test_another_process_decides_by_the_log(work: Path) -> None:
    path = work.parent / "log.jsonl"
    with JsonlLog(path) as log:
        assert (await agent_of(work, [[WRITE]], Permissions(work), log=log).run("go")).end_reason == "paused"
    with JsonlLog(path) as log:
        permissions = Permissions(work)
        agent = agent_of(work, ["written", [WRITE], "again"], permissions, log=log)
        decisions = {
            waiting.call.id: Verdict.allow(details={"grant": "session"})
            for waiting in agent.state.waiting_calls
        }
        assert (await agent.resume(decisions)).text == "written"
        assert (await agent.run("again")).text == "again"  # not asked any more
    assert (work / "a.txt").read_text() == "new"


async def test_plan_mode_holds_for_what_was_granted_and_for_what_waits(work: Path) -> None:  # T234
    permissions = Permissions(work)
    agent = agent_of(work, [[WRITE], "no"], permissions)
    await agent.run("go")
    permissions.mode = "plan"
    await agent.resume(Verdict.allow(details={"grant": "always"}))
    assert (work / "a.txt").read_text() == "old"


async def test_outside_the_workspace_a_yes_is_for_once(work: Path) -> None:  # T232
    log = MemoryLog(session="s")
    outside = call("o", "read_file", path="../b.txt")
    (work.parent / "b.txt").write_text("b")
    agent = agent_of(work, [[outside], [outside], "."], Permissions(work), log=log)
    await agent.run("go")
    result = await agent.resume(Verdict.allow(details={"grant": "session"}))
    assert result.end_reason == "paused"
    details = ruling(log.facts, ToolExecDispatch, "o")[2]
    assert details["outside"]
    assert details["grant"] == {"lasts": "once", "keys": [], "note": "this can be granted for one call only"}


async def test_an_unknown_word_is_for_once_and_told(work: Path) -> None:
    log = MemoryLog(session="s")
    agent = agent_of(work, [[WRITE], [WRITE], "."], Permissions(work), log=log)
    await agent.run("go")
    result = await agent.resume(Verdict.allow(details={"grant": "forever"}))
    assert result.end_reason == "paused"
    assert "no such grant: 'forever'" in ruling(log.facts, ToolExecDispatch, "w")[2]["grant"]["note"]


async def test_a_person_may_change_the_arguments_and_grants_those(work: Path) -> None:
    log = MemoryLog(session="s")
    agent = agent_of(work, [[WRITE], "."], Permissions(work), log=log)
    await agent.run("go")
    await agent.resume(Verdict.allow({"path": "b.txt", "content": "b"}, details={"grant": "session"}))
    assert (work / "b.txt").read_text() == "b"
    assert ruling(log.facts, ToolExecDispatch, "w")[2]["grant"]["keys"] == [f"write:write_file:{work}/b.txt"]


async def test_changed_arguments_are_judged_like_others(work: Path) -> None:
    permissions = Permissions(work, rules=Rules.parse(deny=["Edit(src/**)"]))
    agent = agent_of(work, [[WRITE], "."], permissions)
    await agent.run("go")
    await agent.resume(Verdict.allow({"path": "src/x", "content": "b"}))
    assert not (work / "src" / "x").exists()


async def test_a_path_that_leads_elsewhere_by_now_was_not_what_the_person_saw(work: Path) -> None:
    (work / "b.txt").write_text("b")
    (work / "link").symlink_to("a.txt")
    agent = agent_of(work, [[call("l", "write_file", path="link", content="new")], "."], Permissions(work))
    await agent.run("go")
    (work / "link").unlink()
    (work / "link").symlink_to("b.txt")
    await agent.resume(Verdict.allow())
    assert (work / "b.txt").read_text() == "b"


async def test_a_tool_of_which_nothing_is_known_is_asked(work: Path) -> None:
    agent = agent_of(work, [[call("s", "shout", text="x")], "."], Permissions(work))
    result = await agent.run("go")
    assert result.end_reason == "paused"
    await agent.resume(Verdict.allow())
    assert agent.state.messages[-2].text == "X"


async def test_what_raises_in_the_gate_denies(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(command: str) -> None:
        raise ToolDefinitionError("install 'unspool[permissions]'")

    monkeypatch.setattr("unspool.tools.permissions.commands.analyse", missing)
    log = MemoryLog(session="s")
    agent = agent_of(
        work, [[call("b", "bash", command="ls")], "."], Permissions(work, mode="bypass"), log=log
    )
    await agent.run("go")
    assert ends(log.facts) == {"b": "denied"}
    by, reason, _ = ruling(log.facts, ToolExecEnd, "b")
    assert (by, "unspool[permissions]" in reason) == ("engine", True)


async def test_a_tool_that_writes_nobody_knows_where_is_asked_where_a_place_is_denied(work: Path) -> None:
    @tool(meta={"permission": {"capability": "write"}})
    def scatter() -> str:
        """Write somewhere."""
        return "written"

    gate = Permissions(work, mode="accept-edits", rules={"deny": ["Edit(secrets/**)"]}, sensitive=())
    agent = Agent(ScriptedModel([[call("s", "scatter")], "."]), tools=[scatter], hooks=Hooks(gate=gate))
    assert (await agent.run("go")).end_reason == "paused"


def start(where: str | None, use: ToolUse) -> str | None:
    return where


async def test_commands_are_judged_where_they_start(work: Path) -> None:
    (work / "src" / "link").symlink_to(work.parent)
    cwd = str(work / "src")
    for where, end in ((None, "stop"), (cwd, "paused")):
        permissions = Permissions(work, cwd=partial(start, where))
        agent = agent_of(work, [[call("b", "bash", command="cat link/x")], "."], permissions)
        assert (await agent.run("go")).end_reason == end


async def test_a_store_that_fails_is_told_and_the_grant_holds_for_the_session(work: Path) -> None:
    log = MemoryLog(session="s")
    store = GrantStore(work.parent / "d" / "grants.json")
    (work.parent / "d").write_text("no directory")
    agent = agent_of(
        work,
        [[WRITE], [call("w2", "write_file", path="a.txt", content="2")], "."],
        Permissions(work, store=store),
        log=log,
    )
    await agent.run("go")
    assert (await agent.resume(Verdict.allow(details={"grant": "always"}))).end_reason == "stop"
    grant = ruling(log.facts, ToolExecDispatch, "w")[2]["grant"]
    assert grant["lasts"] == "session"
    assert "could not be stored" in grant["note"]


async def test_arguments_that_a_person_sends_back_as_they_were_change_nothing(work: Path) -> None:
    (work / "b.txt").write_text("b")
    (work / "link").symlink_to("a.txt")
    args = {"path": "link", "content": "new"}
    agent = agent_of(work, [[call("l", "write_file", **args)], "."], Permissions(work))
    await agent.run("go")
    (work / "link").unlink()
    (work / "link").symlink_to("b.txt")
    await agent.resume(Verdict.allow(args))
    assert (work / "b.txt").read_text() == "b"


async def test_files_are_judged_where_their_tools_start(work: Path) -> None:
    rules = Rules.parse(deny=["Read(src/**)"])
    (work / "src" / "a.txt").write_text("hidden")
    for where, end in ((None, "ok"), (str(work / "src"), "denied")):
        log = MemoryLog(session="s")
        permissions = Permissions(work, rules=rules, workspace=partial(start, where))
        agent = agent_of(work, [[call("r", "read_file", path="a.txt")], "."], permissions, log=log)
        await agent.run("go")
        assert ends(log.facts) == {"r": end}
