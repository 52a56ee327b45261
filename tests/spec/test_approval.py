"""A person decides: calls that wait, at once or after a pause, here or in another process."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from play import Act, EncodedLog, Played, Player, Spans, echo

from unspool.kernel import (
    AgentState,
    ApprovalDecided,
    ApprovalInfo,
    ApprovalRequested,
    ContinueError,
    FatalToolError,
    Hooks,
    Limits,
    ToolContext,
    ToolExecDispatch,
    ToolExecUpdate,
    ToolUse,
    Verdict,
    fold,
)
from unspool.kernel.function_tool import RawTool, raw_tool
from unspool.kernel.trace import line
from unspool.llm.scripted import call

AMOUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
NEW_MESSAGE = "not executed: a new message from the user came first"


class Till:
    """Tools that a person is asked about (``pay``) and one that needs nobody (``peek``)."""

    def __init__(self) -> None:
        self.paid: list[Any] = []
        self.peeked = 0

    @property
    def tools(self) -> list[RawTool]:
        async def pay(args: Any, ctx: ToolContext) -> object:
            self.paid.append(args["n"])
            return f"paid {args['n']}"

        async def peek(args: Any, ctx: ToolContext) -> object:
            self.peeked += 1
            return "peeked"

        return [
            raw_tool("pay", "", AMOUNT, pay, needs_approval=True),
            raw_tool("peek", "", {}, peek, read_only=True),
        ]


PAY_TWICE = [call("h1", "pay", n=1), call("h2", "pay", n=2), call("h3", "peek")]


def asked(run: Played) -> list[tuple[tuple[str, ...], str]]:
    return [(fact.call_ids, fact.reason) for fact in run.all_of(ApprovalRequested)]


def pause(play: Player, till: Till, calls: Any = PAY_TWICE, **settings: Any) -> Played:
    """A run that ends because calls wait."""
    run = play(calls, tools=till.tools, **settings)
    assert run.end.reason == "paused"
    return run


def resume(play: Player, paused: Played, decisions: Any, till: Till, *script: Any, **settings: Any) -> Played:
    """Go on in another process: all that is left of the first one is its log."""
    log = EncodedLog()
    facts = [log.codec.decode(log.codec.encode(fact)) for fact in paused.facts]
    return play(
        *(script or ("done",)),
        prompt=None,
        state=fold(facts),
        decisions=decisions,
        tools=till.tools,
        **settings,
    )


# --- asking ------------------------------------------------------------------------------------


def test_all_calls_are_asked_about_together_before_anything_runs(play: Player) -> None:  # B146
    till = Till()
    run = pause(play, till)
    assert asked(run) == [(("h1", "h2"), "")]
    assert (till.paid, till.peeked) == ([], 0)
    assert "tool_exec_start" not in run.trace
    assert run.state.turn is not None
    assert [waiting.call.id for waiting in run.state.waiting_calls] == ["h1", "h2"]
    assert run.result is not None
    assert (run.result.end_reason, run.result.error) == ("paused", "")
    assert run.result.raise_for_error() is run.result


def test_result_lists_the_calls_that_wait(play: Player) -> None:
    run = pause(play, Till())
    assert run.result is not None
    assert [waiting.id for waiting in run.result.pending] == ["h1", "h2"]


def test_calls_that_need_nobody_run_at_once(play: Player) -> None:
    till = Till()
    run = play([call("h3", "peek")], "done", tools=till.tools)
    assert (till.peeked, asked(run), run.end.reason) == (1, [], "stop")


def test_whether_a_person_is_asked_may_depend_on_the_arguments(play: Player) -> None:
    def much(args: Any) -> bool:
        return bool(args["value"] == "much")

    calls = [call("c1", "echo", value="little"), call("c2", "echo", value="much")]
    run = play(calls, tools=[echo(needs_approval=much)])
    assert asked(run) == [(("c2",), "")]


def test_where_a_trait_fails_a_person_is_asked(play: Player) -> None:
    run = play([call("c1", "echo", value="x")], tools=[echo(needs_approval=lambda args: args["nope"])])
    assert asked(run) == [(("c1",), "")]


@pytest.mark.parametrize("bad", [call("c1", "pay"), call("c1", "pay", n="one")], ids=["missing", "type"])
def test_nobody_is_asked_about_a_call_that_cannot_run(play: Player, bad: Any) -> None:
    till = Till()
    run = play([bad], "sorry", tools=till.tools)
    assert (asked(run), run.outcomes()) == ([], {"c1": "invalid"})


def test_nobody_is_asked_about_a_tool_that_is_switched_off(play: Player) -> None:
    turns = [[call("c1", "pay", n="x")], [call("c2", "pay", n=1)]]
    run = play(*turns, "sorry", tools=Till().tools, limits=Limits(tool_errors=1))
    assert (asked(run), run.outcomes()) == ([], {"c1": "invalid", "c2": "disabled"})


# --- deciding ----------------------------------------------------------------------------------


def test_allowed(play: Player) -> None:  # B146
    till = Till()
    run = resume(play, pause(play, till), Verdict.allow(by="ann"), till)
    assert (till.paid, till.peeked) == ([1, 2], 1)
    assert run.sent()[-3:] == ["tool h1: paid 1", "tool h2: paid 2", "tool h3: peeked"]
    assert [(fact.call_id, fact.approved, fact.by) for fact in run.all_of(ApprovalDecided)] == [
        ("h1", True, "ann"),
        ("h2", True, "ann"),
    ]
    assert run.trace.splitlines()[0] == "agent_start resume"
    assert run.end.reason == "stop"
    assert asked(run) == []  # once for each call


def test_denied(play: Player) -> None:
    till = Till()
    run = resume(play, pause(play, till), Verdict.deny("too much"), till)
    assert (till.paid, till.peeked) == ([], 1)
    assert run.outcomes() == {"h1": "denied", "h2": "denied", "h3": "ok"}
    assert run.results()["h1"] == "not executed: denied: too much"


def test_each_call_has_its_verdict(play: Player) -> None:  # B146: approve h2, deny h1
    till = Till()
    run = resume(play, pause(play, till), {"h2": Verdict.allow(), "h1": Verdict.deny()}, till)
    assert till.paid == [2]
    assert run.outcomes() == {"h1": "denied", "h2": "ok", "h3": "ok"}
    assert [row.split(":")[0] for row in run.sent()[-3:]] == ["tool h1", "tool h2", "tool h3"]


def test_call_without_a_verdict_is_declined(play: Player) -> None:
    till = Till()
    run = resume(play, pause(play, till), {"h2": Verdict.allow()}, till)
    assert (till.paid, run.outcomes()["h1"]) == ([2], "denied")
    assert run.results()["h1"] == "not executed: denied: nobody decided on it"


def test_edited_arguments(play: Player) -> None:
    till = Till()
    run = resume(play, pause(play, till), {"h1": Verdict.allow({"n": 10})}, till)
    assert till.paid == [10]
    assert [(f.call_id, f.args) for f in run.all_of(ApprovalDecided)] == [("h1", {"n": 10}), ("h2", None)]
    dispatched = {fact.call_id: fact.args for fact in run.all_of(ToolExecDispatch)}
    assert dispatched == {"h1": {"n": 10}, "h3": None}
    assert run.requests[0].messages[1].tool_calls[0].args == {"n": 1}  # what the model asked for


def test_edited_arguments_are_checked(play: Player) -> None:
    till = Till()
    run = resume(play, pause(play, till), {"h1": Verdict.allow({"n": "ten"})}, till)
    assert (till.paid, run.outcomes()["h1"]) == ([], "invalid")
    assert "$.n: expected integer, got string" in run.results()["h1"]


REFUSED: list[Any] = [
    {"h9": Verdict.allow()},
    {"h3": Verdict.allow()},  # it needs nobody
    Verdict.ask(),
    {"h1": Verdict.ask("really?")},
    {"h1": True},
    True,
    "allow",
    Verdict(decision="maybe"),  # type: ignore[arg-type]
    Verdict(decision="allow", args=["x"]),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("decisions", REFUSED, ids=repr)
def test_decision_that_fits_no_waiting_call_is_refused(play: Player, decisions: Any) -> None:  # B146
    till = Till()
    paused = pause(play, till)
    with pytest.raises(ValueError, match="resume: "):
        resume(play, paused, decisions, till)
    assert till.paid == []


def test_nothing_waits_for_a_decision(play: Player) -> None:
    till = Till()
    done = play("done", tools=till.tools)
    with pytest.raises(ContinueError):
        resume(play, done, Verdict.allow(), till)
    over = resume(play, pause(play, till), Verdict.allow(), till)
    with pytest.raises(ContinueError):
        play("never", prompt=None, state=over.state, decisions=Verdict.allow(), tools=till.tools)


def test_going_on_without_a_decision_pauses_again(play: Player) -> None:
    till = Till()
    paused = pause(play, till)
    again = play(prompt=None, state=paused.state, tools=till.tools)
    assert (again.end.reason, asked(again), till.paid) == ("paused", [], [])
    run = play("done", prompt=None, state=again.state, decisions=Verdict.allow(), tools=till.tools)
    assert (run.end.reason, till.paid) == ("stop", [1, 2])


# --- a gate that asks --------------------------------------------------------------------------


class Asks:
    """A gate that has a person decide on the calls named, and keeps what it was shown."""

    def __init__(self, *names: str, then: Verdict | None = None) -> None:
        self.names = names
        self.then = then
        self.approved: list[tuple[str, bool]] = []

    def __call__(self, use: ToolUse) -> Verdict:
        self.approved.append((use.call.id, use.approved))
        if use.call.name not in self.names:
            return Verdict.allow()
        if use.approved and self.then is not None:
            return self.then
        return Verdict.ask(f"{use.call.name} is dangerous")


def test_gate_that_asks_holds_back_later_calls(play: Player) -> None:
    spans, gate = Spans(), Asks("danger")
    tools = [spans.tool(name, concurrency_safe=True) for name in ("calm", "danger")]
    calls = [call("c1", "calm", s=5), call("c2", "danger"), call("c3", "calm")]
    run = play(calls, tools=tools, hooks=Hooks(gate=gate))
    assert asked(run) == [(("c2",), "danger is dangerous")]
    assert (run.end.reason, run.outcomes(), run.now) == ("paused", {"c1": "ok"}, 5.0)
    assert run.texts[-1] == "tool: c1"  # what has run is committed
    state = fold(run.facts)
    again = play(
        "done", prompt=None, state=state, decisions=Verdict.allow(), tools=tools, hooks=Hooks(gate=gate)
    )
    assert again.outcomes() == {"c2": "ok", "c3": "ok"}
    assert "tool_exec_start c2" not in again.trace  # it is in the log already
    assert gate.approved == [("c1", False), ("c2", False), ("c2", True), ("c3", False)]


def test_gate_may_deny_what_a_person_has_allowed(play: Player) -> None:
    gate = Asks("pay", then=Verdict.deny("the till is closed"))
    till = Till()
    hooks = Hooks(gate=gate)
    paused = pause(play, till, [call("h1", "pay", n=1)])
    run = resume(play, paused, Verdict.allow(), till, hooks=hooks)
    assert (till.paid, run.results()) == ([], {"h1": "not executed: denied: the till is closed"})


def test_gate_may_rewrite_what_a_person_has_edited(play: Player) -> None:
    gate = Asks("pay", then=Verdict.allow({"n": 3}))
    till = Till()
    paused = pause(play, till, [call("h1", "pay", n=1)])
    run = resume(play, paused, Verdict.allow({"n": 2}), till, hooks=Hooks(gate=gate))
    assert till.paid == [3]
    assert [fact.args for fact in run.all_of(ToolExecDispatch)] == [{"n": 3}]


def test_what_a_person_says_reaches_gate_and_tool(play: Player) -> None:
    heard: list[Any] = []

    def gate(use: ToolUse) -> Verdict:
        heard.append(use.decision and (use.decision.by, use.decision.reason, use.decision.details))
        return Verdict.ask("which?", details={"scopes": ["once", "session"]})

    async def answer(args: Any, ctx: ToolContext) -> str:
        assert ctx.decision is not None
        return f"{ctx.decision.by}: {ctx.decision.reason} {ctx.decision.details}"

    tools, hooks = [raw_tool("choose", "Asks.", {}, answer)], Hooks(gate=gate)
    paused = play([call("c1", "choose")], tools=tools, hooks=hooks)
    state = fold(paused.facts)
    assert [call.details for call in state.waiting_calls] == [{"scopes": ["once", "session"]}]
    said = Verdict.allow(by="ann", reason="blue", details={"scope": "session"})
    run = play("done", prompt=None, state=state, decisions=said, tools=tools, hooks=hooks)
    assert heard == [None, ("ann", "blue", {"scope": "session"})]
    assert run.results() == {"c1": "ann: blue {'scope': 'session'}"}
    assert [fact.details for fact in run.all_of(ApprovalDecided)] == [{"scope": "session"}]


def test_host_that_decides_at_once_is_told_what_the_gate_looked_at(play: Player) -> None:
    seen: list[Any] = []

    def approve(info: ApprovalInfo) -> Verdict:
        seen.append((dict(info.reasons), dict(info.details)))
        return Verdict.allow()

    hooks = Hooks(gate=lambda use: Verdict.ask("sure?", details={"path": "a"}), approve=approve)
    play([call("c1", "echo", value="x")], "done", tools=[echo()], hooks=hooks)
    assert seen == [({"c1": "sure?"}, {"c1": {"path": "a"}})]


def test_nobody_is_asked_twice(play: Player) -> None:
    till, gate = Till(), Asks("pay")
    paused = pause(play, till, [call("h1", "pay", n=1)])
    run = resume(play, paused, Verdict.allow(), till, hooks=Hooks(gate=gate))
    assert (till.paid, asked(run), gate.approved) == ([1], [], [("h1", True)])


# --- crashes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["trait", "gate"])
def test_crash_after_every_fact_of_a_run_with_approval(play: Player, by: str) -> None:
    ran: list[int] = []
    calls = [call("h1", "pay", n=1), call("h2", "pay", n=2)]

    def go_on(state: AgentState, log: EncodedLog | None = None) -> Played:
        """Go on with what a process finds that knows the log only, until nothing waits."""

        async def pay(args: Any, ctx: ToolContext) -> object:
            ran.append(args["n"])
            return "paid"

        script: list[Any] = ["done"] if "h1" in state.seen_calls else [calls, "done"]
        return play(
            *script,
            prompt=None if state.seq else "go",
            state=state,
            decisions=Verdict.allow() if state.waiting_calls else None,
            tools=[raw_tool("pay", "", AMOUNT, pay, needs_approval=by == "trait")],
            hooks=Hooks(gate=Asks("pay") if by == "gate" else None),
            log=log,
        )

    log, state = EncodedLog(), AgentState()
    while state.end_reason != "stop":
        state = go_on(state, log).state
    assert ran == [1, 2]
    for cut in range(2, len(log.facts) - 1):  # behind the prompt that is queued, before the end
        facts = log.facts[:cut]
        state = fold(facts)
        if state.turn is None and state.tail == "assistant":
            continue  # the answer is in
        dispatched = [fact.call_id for fact in facts if isinstance(fact, ToolExecDispatch)]
        ran.clear()
        for _ in range(3):
            state = go_on(state).state
            if state.end_reason == "stop":
                break
        assert state.end_reason == "stop", f"after a crash behind {line(facts[-1])}"
        assert ran == [n for n in (1, 2) if f"h{n}" not in dispatched]
        assert (state.turn, state.tail) == (None, "assistant")


# --- deciding at once --------------------------------------------------------------------------


class Person:
    """Decides at once; keeps what was asked."""

    def __init__(self, *decisions: Any) -> None:
        self.decisions = list(decisions)
        self.asked: list[ApprovalInfo] = []

    def __call__(self, info: ApprovalInfo) -> Any:
        self.asked.append(info)
        decisions = self.decisions.pop(0)
        if isinstance(decisions, BaseException):
            raise decisions
        return decisions


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_host_decides_at_once(play: Player, kind: str) -> None:
    person, till = Person({"h1": Verdict.allow(), "h2": Verdict.deny("no")}), Till()

    async def approve(info: ApprovalInfo) -> Any:
        await anyio.lowlevel.checkpoint()
        return person(info)

    hooks = Hooks(approve=person if kind == "sync" else approve)
    run = play(PAY_TWICE, "done", tools=till.tools, hooks=hooks)
    assert run.outcomes() == {"h1": "ok", "h2": "denied", "h3": "ok"}
    assert ([waiting.id for waiting in person.asked[0].calls], till.paid) == (["h1", "h2"], [1])
    assert run.end.reason == "stop"


def test_request_is_seen_before_the_host_decides(play: Player) -> None:
    log: list[str] = []

    def approve(info: ApprovalInfo) -> Verdict:
        log.append("decides")
        return Verdict.allow()

    play(
        PAY_TWICE,
        "done",
        tools=Till().tools,
        hooks=Hooks(approve=approve),
        on={"approval_requested": lambda o: log.append("sees")},
    )
    assert log == ["sees", "decides"]


def test_reason_of_the_gate_reaches_the_host(play: Player) -> None:
    person = Person(Verdict.allow())
    hooks = Hooks(gate=Asks("echo"), approve=person)
    run = play([call("c1", "echo", value="x")], "done", tools=[echo()], hooks=hooks)
    assert dict(person.asked[0].reasons) == {"c1": "echo is dangerous"}
    assert run.results() == {"c1": "x"}


def test_host_that_does_not_decide_pauses(play: Player) -> None:
    till = Till()
    pause(play, till, hooks=Hooks(approve=Person(None)))
    assert till.paid == []


@pytest.mark.parametrize(
    "given",
    [RuntimeError("the window was closed"), True, {"h9": Verdict.allow()}, Verdict.ask()],
    ids=["raises", "no verdict", "unknown call", "asks"],
)
def test_host_that_decides_nonsense_fails_the_run(play: Player, given: Any) -> None:
    till = Till()
    run = play(PAY_TWICE, tools=till.tools, hooks=Hooks(approve=Person(given)))
    assert any(row.startswith("error hook: hook: approve raised") for row in run.brief)
    assert (run.end.reason, till.paid, till.peeked) == ("error", [], 0)
    assert set(run.outcomes().values()) == {"cancelled"}
    assert run.state.turn is None


async def thinks(info: ApprovalInfo) -> None:
    await anyio.sleep_forever()


def test_abort_reaches_a_person_who_thinks(play: Player) -> None:
    till = Till()
    run = play(PAY_TWICE, tools=till.tools, hooks=Hooks(approve=thinks), at={9.0: lambda o: o.stop()})
    assert (run.end.reason, run.now, till.paid) == ("aborted", 9.0, [])
    assert set(run.outcomes().values()) == {"cancelled"}


def test_message_reaches_a_person_who_thinks(play: Player) -> None:
    till = Till()
    acts: Mapping[float, Act] = {9.0: lambda o: o.steer("forget it")}
    run = play(PAY_TWICE, "fine", tools=till.tools, hooks=Hooks(approve=thinks), at=acts)
    assert (run.end.reason, run.now, till.paid) == ("stop", 9.0, [])
    assert set(run.results().values()) == {NEW_MESSAGE}
    assert run.sent()[-1] == "user: forget it"


# --- a message instead of a decision -----------------------------------------------------------


def test_new_prompt_instead_of_a_decision(play: Player) -> None:  # B148
    till = Till()
    paused = pause(play, till)
    run = play("4", prompt="forget it, what is 2+2?", state=paused.state, tools=till.tools)
    assert run.outcomes() == {"h1": "skipped", "h2": "skipped", "h3": "skipped"}
    assert set(run.results().values()) == {NEW_MESSAGE}
    assert run.sent()[-1] == "user: forget it, what is 2+2?"
    assert (till.paid, till.peeked, run.end.reason) == ([], 0, "stop")
    with pytest.raises(ContinueError):  # what was overtaken can no longer be approved
        play("never", prompt=None, state=run.state, decisions=Verdict.allow(), tools=till.tools)


def test_message_that_comes_with_the_decision_goes_first(play: Player) -> None:
    till = Till()
    acts: Mapping[str, Act] = {"agent_start": lambda o: o.steer("wait")}
    run = resume(play, pause(play, till), Verdict.allow(), till, on=acts)
    assert set(run.results().values()) == {NEW_MESSAGE}
    assert (till.paid, run.sent()[-1]) == ([], "user: wait")


def test_abort_of_a_run_that_resumes(play: Player) -> None:
    till = Till()
    acts: Mapping[str, Act] = {"agent_start": lambda o: o.stop()}
    run = resume(play, pause(play, till), Verdict.allow(), till, on=acts)
    assert (till.paid, run.end.reason) == ([], "aborted")
    assert set(run.outcomes().values()) == {"cancelled"}


def test_limit_on_calls_holds_for_approved_ones(play: Player) -> None:
    till = Till()
    limits = Limits(tool_calls=1)
    paused = pause(play, till, limits=limits)
    run = resume(play, paused, Verdict.allow(), till, limits=limits)
    assert till.paid == [1]
    assert run.outcomes() == {"h1": "ok", "h2": "skipped", "h3": "skipped"}
    assert run.end.reason == "max_tool_calls"


def test_tool_that_is_gone_when_the_decision_comes(play: Player) -> None:
    till = Till()
    paused = pause(play, till)
    run = play("sorry", prompt=None, state=paused.state, decisions=Verdict.allow(), tools=[till.tools[1]])
    assert run.outcomes() == {"h1": "unknown_tool", "h2": "unknown_tool", "h3": "ok"}


# --- further things that meet ------------------------------------------------------------------


def test_message_while_a_call_waits_and_another_still_runs(play: Player) -> None:
    spans, gate = Spans(), Asks("danger")
    tools = [spans.tool(name, concurrency_safe=True) for name in ("calm", "danger")]
    calls = [call("c1", "calm", s=5), call("c2", "danger"), call("c3", "calm")]
    acts: Mapping[float, Act] = {3.0: lambda o: o.steer("leave it")}
    run = play(calls, "fine", tools=tools, hooks=Hooks(gate=gate), at=acts)
    assert run.outcomes() == {"c1": "ok", "c2": "skipped", "c3": "skipped"}
    assert (run.end.reason, run.sent()[-1]) == ("stop", "user: leave it")


def test_abort_while_a_call_waits_and_another_still_runs(play: Player) -> None:
    spans, gate = Spans(), Asks("danger")
    tools = [spans.tool(name, concurrency_safe=True) for name in ("calm", "danger")]
    calls = [call("c1", "calm", s=5), call("c2", "danger"), call("c3", "calm")]
    run = play(calls, tools=tools, hooks=Hooks(gate=gate), at={3.0: lambda o: o.stop()})
    assert run.outcomes() == {"c1": "cancelled", "c2": "cancelled", "c3": "cancelled"}
    assert (run.end.reason, run.state.turn) == ("aborted", None)


def test_fatal_error_while_a_call_waits(play: Player) -> None:
    async def dies(args: Any, ctx: ToolContext) -> object:
        await ctx.clock.sleep(1)
        raise FatalToolError("the disk is gone")

    gate = Asks("echo")
    tools = [raw_tool("dies", "", {}, dies, concurrency_safe=True), echo(concurrency_safe=True)]
    calls = [call("c1", "dies"), call("c2", "echo", value="x")]
    run = play(calls, tools=tools, hooks=Hooks(gate=gate))
    assert asked(run) == [(("c2",), "echo is dangerous")]
    assert run.outcomes() == {"c1": "error", "c2": "cancelled"}
    assert run.end.reason == "error"


def test_both_the_tool_and_the_gate_ask(play: Player) -> None:
    till, gate = Till(), Asks("peek")
    paused = pause(play, till, hooks=Hooks(gate=gate))
    assert asked(paused) == [(("h1", "h2"), "")]
    again = resume(play, paused, Verdict.allow(), till, hooks=Hooks(gate=gate))
    assert (again.end.reason, asked(again)) == ("paused", [(("h3",), "peek is dangerous")])
    assert (till.paid, till.peeked) == ([1, 2], 0)
    last = play(
        "done",
        prompt=None,
        state=again.state,
        decisions={"h3": Verdict.deny()},
        tools=till.tools,
        hooks=Hooks(gate=gate),
    )
    assert (last.outcomes(), till.peeked) == ({"h3": "denied"}, 0)
    assert [row.split(":")[0] for row in last.sent()[-3:]] == ["tool h1", "tool h2", "tool h3"]


def test_host_that_decides_at_once_on_what_a_gate_asks(play: Player) -> None:
    spans = Spans()
    tools = [spans.tool(name, concurrency_safe=True) for name in ("calm", "danger")]
    person = Person(Verdict.allow(), Verdict.deny("not twice"))
    calls = [call("c1", "danger"), call("c2", "danger"), call("c3", "calm")]
    run = play(calls, "done", tools=tools, hooks=Hooks(gate=Asks("danger"), approve=person))
    assert run.outcomes() == {"c1": "ok", "c2": "denied", "c3": "ok"}
    assert [info.calls[0].id for info in person.asked] == ["c1", "c2"]


def test_replaying_a_decision_is_refused(play: Player) -> None:  # B146: stale ids
    till = Till()
    paused = pause(play, till)
    decisions = {"h1": Verdict.allow(), "h2": Verdict.deny()}
    over = resume(play, paused, decisions, till)
    with pytest.raises(ContinueError):
        play("never", prompt=None, state=over.state, decisions=decisions, tools=till.tools)
    assert till.paid == [1]


def test_gate_that_asks_about_a_harmless_call_in_doubt(play: Player) -> None:
    ran: list[str] = []

    async def work(args: Any, ctx: ToolContext) -> object:
        ran.append(ctx.call_id)
        return "done"

    tool = raw_tool("tool", "", {}, work, idempotent=True)
    first = play([call("c1", "tool")], "done", tools=[tool])
    (dispatch,) = first.all_of(ToolExecDispatch)
    hooks = Hooks(gate=Asks("tool"))
    run = play("fine", prompt=None, state=fold(first.facts[: dispatch.seq]), tools=[tool], hooks=hooks)
    assert ran == ["c1"]
    assert run.outcomes() == {"c1": "unknown"}  # no answer of a person may say that it did not run


def test_arguments_that_a_gate_rewrites_may_need_a_person(play: Player) -> None:
    risky = raw_tool(
        "write", "", {}, lambda args, ctx: args["path"], needs_approval=lambda args: args["path"] != "tmp"
    )
    gate = Hooks(gate=lambda use: Verdict.allow({"path": "etc"}))
    run = play([call("c1", "write", path="tmp")], tools=[risky], hooks=gate)
    assert (run.end.reason, run.outcomes()) == ("paused", {})
    log = run.facts
    again = play("done", prompt=None, state=fold(log), decisions=Verdict.allow(), tools=[risky], hooks=gate)
    assert again.results()["c1"] == "etc"


def diffs(**traits: Any) -> RawTool:
    """A tool that refuses ``n`` 0, shows what it would do, and does it."""
    return raw_tool(
        "write",
        "",
        {},
        lambda args, ctx: f"wrote {args['n']}",
        validate=lambda args, ctx: None if args["n"] else "nothing to write",
        preview=lambda args, ctx: {"diff": args["n"]},
        **traits,
    )


def test_a_person_sees_what_each_call_is_going_to_do(play: Player) -> None:
    calls = [call("c1", "write", n=1), call("c2", "write", n=0), call("c3", "write", n=3)]
    first = play(calls, tools=[diffs(needs_approval=True)])
    (fact,) = first.all_of(ApprovalRequested)
    assert (fact.call_ids, fact.previews) == (("c1", "c3"), {"c1": {"diff": 1}, "c3": {"diff": 3}})
    there = fold(first.facts)  # in another process
    assert [waiting.preview for waiting in there.waiting_calls] == [{"diff": 1}, {"diff": 3}]
    decisions = {"c1": Verdict.allow(), "c3": Verdict.allow({"n": 4})}
    again = play("done", prompt=None, state=there, decisions=decisions, tools=[diffs(needs_approval=True)])
    assert again.results() == {"c1": "wrote 1", "c2": "nothing to write", "c3": "wrote 4"}
    assert [(update.call_id, update.payload) for update in again.all_of(ToolExecUpdate)] == [
        ("c3", {"diff": 4})
    ]


def test_a_gate_that_asks_passes_the_preview_on(play: Player) -> None:
    shown: list[ApprovalInfo] = []

    def approve(info: ApprovalInfo) -> Verdict:
        shown.append(info)
        return Verdict.allow()

    hooks = Hooks(gate=Asks("write"), approve=approve)
    run = play([call("c1", "write", n=1)], "done", tools=[diffs()], hooks=hooks)
    assert shown[0].previews == {"c1": {"diff": 1}} and shown[0].reasons == {"c1": "write is dangerous"}
    assert len(run.all_of(ToolExecUpdate)) == 1
    assert run.results() == {"c1": "wrote 1"}


@pytest.mark.parametrize("act", ["stop", "steer"])
def test_a_preview_for_a_person_that_hangs_is_reached(play: Player, act: str) -> None:
    async def preview(args: Any, ctx: ToolContext) -> Any:
        await anyio.sleep_forever()

    tool = raw_tool("write", "", {}, lambda args, ctx: "ok", preview=preview, needs_approval=True)
    acts: dict[str, Act] = {"stop": lambda o: o.stop(marker=False), "steer": lambda o: o.steer("no")}
    run = play([call("c1", "write")], "done", tools=[tool], at={5: acts[act]})
    assert run.now == 5
    assert run.outcomes() == {"c1": "cancelled" if act == "stop" else "skipped"}


@pytest.mark.parametrize("where", ["validate", "preview"])
def test_what_refuses_once_is_not_let_through_unasked(play: Player, where: str) -> None:
    looks: list[str] = []

    def flaky(args: Any, ctx: ToolContext) -> Any:
        looks.append(where)
        if len(looks) == 1:
            raise RuntimeError("flaky")
        return {} if where == "preview" else None

    ran: list[Any] = []
    tool = raw_tool(
        "pay",
        "",
        {},
        lambda args, ctx: ran.append(args),
        needs_approval=True,
        **{where: flaky},  # type: ignore[arg-type]  # one of the two
    )
    run = play([call("c1", "pay")], "done", tools=[tool])
    assert ran == [] and run.outcomes()["c1"] in ("invalid", "error")
