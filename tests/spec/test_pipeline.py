"""What a call passes on its way to its tool: traits, check, validate, preview, gate, middlewares."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Literal

import anyio
import pytest
from play import EncodedLog, Played, Player, Spans, echo, gives

from unspool.kernel import (
    AgentContext,
    ApprovalRequested,
    CallOptions,
    FatalToolError,
    Hooks,
    Limits,
    LoopConfig,
    Message,
    ModelCallInfo,
    Refused,
    Ruling,
    Text,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecStart,
    ToolExecUpdate,
    ToolReference,
    ToolSpec,
    ToolUse,
    Verdict,
    agent_loop,
    fold,
    make_call,
)
from unspool.kernel.function_tool import RawTool, raw_tool
from unspool.kernel.hooks import CallNext
from unspool.kernel.trace import line
from unspool.llm.scripted import ScriptedModel, Unfinished, call

NUMBER = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


class Noted:
    """A tool of whose use a note is kept: the arguments it ran with."""

    def __init__(self, name: str = "tool", schema: Any = None, **traits: Any) -> None:
        self.ran: list[Any] = []
        self.tool = raw_tool(name, "Notes.", schema or {}, self._run, **traits)

    async def _run(self, args: Any, ctx: ToolContext) -> object:
        self.ran.append(args)
        return "done"


class Gate:
    """Gives its verdicts in order, then allows; keeps what it was shown."""

    def __init__(self, *verdicts: Any) -> None:
        self.verdicts = list(verdicts)
        self.asked: list[ToolUse] = []

    def __call__(self, use: ToolUse) -> Any:
        self.asked.append(use)
        verdict = self.verdicts.pop(0) if self.verdicts else Verdict.allow()
        if isinstance(verdict, BaseException):
            raise verdict
        return verdict


def of_tools(run: Played) -> list[str]:
    """The events of tools, one a line, in order."""
    return [row for row in run.trace.splitlines() if row.startswith("tool_exec")]


async def hangs(*_: Any) -> Any:
    await anyio.sleep_forever()


# --- middlewares -------------------------------------------------------------------------------


def around(log: list[str], name: str) -> Any:
    async def middleware(use: ToolUse, call_next: CallNext) -> object:
        log.append(f"{name} before {use.call.name}")
        result = await call_next()
        log.append(f"{name} after")
        return result

    return middleware


def test_middleware_around_a_tool(play: Player) -> None:  # T9
    log: list[str] = []

    async def content(args: Any, ctx: ToolContext) -> object:
        log.append("runs")
        return Text("rich")

    tools = [raw_tool("content", "", {}, content)]
    run = play([call("c1", "content")], "done", tools=tools, hooks=Hooks(middlewares=[around(log, "m")]))
    assert log == ["m before content", "runs", "m after"]
    assert run.sent()[-1] == "tool c1: rich"
    assert run.outcomes() == {"c1": "ok"}


def test_first_middleware_is_outermost(play: Player) -> None:  # A.4.5j
    log: list[str] = []
    hooks = Hooks(middlewares=[around(log, "a"), around(log, "b")])
    play([call("c1", "echo", value="x")], "done", tools=[echo()], hooks=hooks)
    assert log == ["a before echo", "b before echo", "b after", "a after"]


def test_middleware_may_answer_itself(play: Player) -> None:  # A.4.5j, I-16c
    async def cached(use: ToolUse, call_next: CallNext) -> object:
        return f"cached {use.args['value']}"

    tool = Noted("tool")
    hooks = Hooks(middlewares=[cached])
    run = play([call("c1", "tool", value="x")], "done", tools=[tool.tool], hooks=hooks)
    assert tool.ran == []
    assert run.results() == {"c1": "cached x"}


def test_what_a_middleware_gives_is_the_result(play: Player) -> None:  # I-16c: one truth
    async def loud(use: ToolUse, call_next: CallNext) -> object:
        return [Text(f"{await call_next()}!")]

    run = play([call("c1", "echo", value="x")], "done", tools=[echo()], hooks=Hooks(middlewares=[loud]))
    assert run.sent()[-1] == "tool c1: x!"
    assert "tool_exec_end c1 ok: x!" in run.trace


@pytest.mark.parametrize(
    ("error", "told"), [(ToolError("no"), "no"), (ZeroDivisionError("oops"), "ZeroDivisionError: oops")]
)
def test_middleware_that_raises(play: Player, error: Exception, told: str) -> None:  # A.4.5j
    async def breaks(use: ToolUse, call_next: CallNext) -> object:
        await call_next()
        raise error

    run = play([call("c1", "echo", value="x")], "sorry", tools=[echo()], hooks=Hooks(middlewares=[breaks]))
    assert (run.outcomes()["c1"], run.results()["c1"]) == ("error", told)
    assert run.end.reason == "stop"


def test_middleware_may_be_fatal(play: Player) -> None:
    async def breaks(use: ToolUse, call_next: CallNext) -> object:
        raise FatalToolError("no licence")

    run = play([call("c1", "echo", value="x")], tools=[echo()], hooks=Hooks(middlewares=[breaks]))
    assert "error tool_fatal: no licence" in run.brief


# --- the gate ----------------------------------------------------------------------------------


def test_gate_that_denies_never_switches_a_tool_off(play: Player) -> None:  # T10
    gate, tool = Gate(*[Verdict.deny("not here")] * 3), Noted()
    turns = [[call(f"c{number}", "tool")] for number in range(3)]
    run = play(*turns, "done", tools=[tool.tool], hooks=Hooks(gate=gate), limits=Limits(tool_errors=1))
    assert (len(gate.asked), tool.ran) == (3, [])
    assert set(run.outcomes().values()) == {"denied"}
    assert set(run.results().values()) == {"not executed: denied: not here"}
    assert (run.end.tool_errors, run.end.tool_skips) == (0, 3)


def test_denied_without_a_reason(play: Player) -> None:
    run = play([call("c1", "tool")], "ok", tools=[gives("x")], hooks=Hooks(gate=Gate(Verdict.deny())))
    assert run.results() == {"c1": "not executed: denied"}
    assert run.requests[1].messages[-1].is_error


def test_what_a_gate_says_is_recorded_with_the_call(play: Player) -> None:  # G.7.10
    gate = Gate(
        Verdict.allow(by="rule a", reason="known", details={"path": "a"}),
        Verdict.deny("not here", by="rule b", details={"path": "b"}),
        Verdict.ask("sure?", by="mode", details={"key": "sk-" + "a1" * 24}),
    )
    calls = [call(f"c{number}", "tool") for number in (1, 2, 3)]
    run = play(calls, tools=[Noted().tool], hooks=Hooks(gate=gate))
    assert [fact.ruling for fact in run.all_of(ToolExecDispatch)] == [
        Ruling(by="rule a", reason="known", details={"path": "a"})
    ]
    assert [fact.ruling for fact in run.all_of(ToolExecEnd)] == [
        None,
        Ruling(by="rule b", reason="not here", details={"path": "b"}),
    ]
    (asked,) = run.all_of(ApprovalRequested)
    assert (asked.call_ids, asked.reason, asked.ruling and asked.ruling.by) == (("c3",), "sure?", "mode")
    assert asked.ruling is not None and "a1a1" not in str(asked.ruling)  # a key is taken out


def test_gate_that_says_no_more_leaves_no_ruling(play: Player) -> None:
    gate = Gate(Verdict.allow(), Verdict.deny("not here"))
    run = play([call("c1", "tool"), call("c2", "tool")], "ok", tools=[Noted().tool], hooks=Hooks(gate=gate))
    assert [fact.ruling for fact in (*run.all_of(ToolExecDispatch), *run.all_of(ToolExecEnd))] == [None] * 3


def test_gate_whose_details_are_no_object_denies(play: Player) -> None:
    wrong: Any = ["x"]
    gate = Gate(Verdict.allow(by="x", details=wrong))
    run = play([call("c1", "tool")], "ok", tools=[Noted().tool], hooks=Hooks(gate=gate))
    assert run.outcomes() == {"c1": "denied"}


def test_gate_rewrites_arguments(play: Player) -> None:  # T11
    gate = Gate(Verdict.allow({"value": "rewritten"}))
    run = play([call("c1", "echo", value="original")], "done", tools=[echo()], hooks=Hooks(gate=gate))
    assert run.results() == {"c1": "rewritten"}
    assert [fact.args for fact in run.all_of(ToolExecStart)] == [{"value": "original"}]
    assert [fact.args for fact in run.all_of(ToolExecDispatch)] == [{"value": "rewritten"}]
    assert run.requests[1].messages[1].tool_calls[0].args == {"value": "original"}


def test_middleware_and_trait_go_by_the_rewritten_arguments(play: Player) -> None:  # A.4.5i
    seen: list[Any] = []

    async def look(use: ToolUse, call_next: CallNext) -> object:
        seen.append((use.args, use.call.args, use.spec.timeout_s))
        return await call_next()

    play(
        [call("c1", "echo", value="a")],
        "done",
        tools=[echo(timeout_s=lambda args: float(len(args["value"])))],
        hooks=Hooks(gate=Gate(Verdict.allow({"value": "four"})), middlewares=[look]),
    )
    assert seen == [({"value": "four"}, {"value": "a"}, 4.0)]


def test_rewritten_arguments_are_checked(play: Player) -> None:  # I-16b
    tool = Noted(schema=NUMBER)
    gate = Gate(Verdict.allow({"x": "one"}))
    run = play([call("c1", "tool", x=1)], "sorry", tools=[tool.tool], hooks=Hooks(gate=gate))
    assert tool.ran == []
    assert run.outcomes() == {"c1": "invalid"}
    assert "$.x: expected integer, got string" in run.results()["c1"]


def test_rewritten_arguments_are_validated(play: Player) -> None:  # I-16b
    asked: list[Any] = []

    def validate(args: Any, ctx: ToolContext) -> str | None:
        asked.append(args["x"])
        return "too much" if args["x"] > 9 else None

    tool = Noted(schema=NUMBER, validate=validate)
    gate = Gate(Verdict.allow({"x": 10}))
    run = play([call("c1", "tool", x=1)], "sorry", tools=[tool.tool], hooks=Hooks(gate=gate), real_time=True)
    assert (asked, tool.ran) == ([1, 10], [])
    assert (run.outcomes(), run.results()) == ({"c1": "invalid"}, {"c1": "too much"})


@pytest.mark.parametrize("given", [RuntimeError("policy server is down"), KeyError("x")], ids=repr)
def test_gate_that_raises_denies(play: Player, given: Any) -> None:  # T12
    tool = Noted()
    run = play([call("c1", "tool")], "ok", tools=[tool.tool], hooks=Hooks(gate=Gate(given)))
    assert tool.ran == []
    assert run.outcomes() == {"c1": "denied"}
    assert str(given) in run.results()["c1"]
    assert run.end.reason == "stop"


NONSENSE: list[Any] = [
    None,
    True,
    False,
    "allow",
    {},
    Verdict(decision="maybe"),  # type: ignore[arg-type]
    Verdict(decision="allow", args=["x"]),  # type: ignore[arg-type]
    Verdict(decision="allow", args="x"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("given", NONSENSE, ids=repr)
def test_gate_that_gives_nonsense_denies(play: Player, given: Any) -> None:
    tool = Noted()
    run = play([call("c1", "tool")], "ok", tools=[tool.tool], hooks=Hooks(gate=Gate(given)))
    assert tool.ran == []
    assert run.outcomes() == {"c1": "denied"}


def test_gate_may_take_its_time(play: Player) -> None:
    async def gate(use: ToolUse) -> Verdict:
        await use.ctx.clock.sleep(3)
        return Verdict.allow()

    run = play([call("c1", "echo", value="x")], "done", tools=[echo()], hooks=Hooks(gate=gate))
    assert run.results() == {"c1": "x"}
    assert run.now == 3.0


def test_what_a_gate_is_shown(play: Player) -> None:
    gate = Gate()
    tool = echo(title="Echo", read_only=True)
    play([call("c1", "echo", value="x")], "done", tools=[tool], hooks=Hooks(gate=gate))
    (use,) = gate.asked
    assert (use.call.id, use.args, use.spec.title, use.approved) == ("c1", {"value": "x"}, "Echo", False)
    assert (use.preview, use.ctx.call_id) == (None, "c1")
    assert use.state.turn is not None


def test_gate_cannot_change_what_was_asked(play: Player) -> None:
    def gate(use: ToolUse) -> Verdict:
        use.args["value"] = "sneaky"  # type: ignore[index]
        return Verdict.allow()

    run = play([call("c1", "echo", value="x")], "done", tools=[echo()], hooks=Hooks(gate=gate))
    assert run.requests[1].messages[1].tool_calls[0].args == {"value": "x"}
    assert run.results() == {"c1": "x"}


def test_validator_and_preview_cannot_change_what_was_asked(play: Player) -> None:
    async def spoil(args: Any, ctx: ToolContext) -> Any:
        args["value"] = "sneaky"
        return None

    async def preview(args: Any, ctx: ToolContext) -> Any:
        return {"value": args.pop("value")}

    run = play([call("c1", "echo", value="x")], "done", tools=[echo(validate=spoil, preview=preview)])
    assert run.requests[1].messages[1].tool_calls[0].args == {"value": "x"}
    assert run.results() == {"c1": "x"}


BAD_CALLS: list[Any] = [
    call("c1", "nope"),
    call("c1", "tool"),
    make_call("c1", "tool", "{"),
    Unfinished("c1", "tool", '{"x":1}'),
]


@pytest.mark.parametrize("bad", BAD_CALLS, ids=["unknown", "unfit", "no JSON", "unfinished"])
def test_gate_sees_only_calls_that_fit(play: Player, bad: Any) -> None:  # T443, A.4.5
    gate, tool = Gate(), Noted(schema=NUMBER)
    run = play([bad], "sorry", tools=[tool.tool], hooks=Hooks(gate=gate))
    assert (gate.asked, tool.ran) == ([], [])
    assert run.outcomes()["c1"] in ("unknown_tool", "invalid")


# --- validate ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refused", "details"),
    [
        (Refused("needs read first", 2), {"code": 2}),
        (Refused("needs read first", "unread"), {"code": "unread"}),
        (Refused("needs read first"), {}),
        ("needs read first", {}),
    ],
    ids=repr,
)
def test_validator_refuses(play: Player, refused: Any, details: dict[str, Any]) -> None:  # T13
    asked: list[Any] = []

    async def validate(args: Any, ctx: ToolContext) -> Any:
        asked.append(args)
        return refused

    gate, tool = Gate(), Noted(validate=validate, preview=hangs)
    run = play([call("c1", "tool", x=1)], "sorry", tools=[tool.tool], hooks=Hooks(gate=gate))
    assert (asked, tool.ran, gate.asked) == ([{"x": 1}], [], [])
    (end,) = run.all_of(ToolExecEnd)
    assert (end.outcome, end.details, run.results()["c1"]) == ("invalid", details, "needs read first")


def test_validator_has_no_objection(play: Player) -> None:  # T14
    asked: list[Any] = []

    async def validate(args: Any, ctx: ToolContext) -> None:
        asked.append(args)

    tool = Noted(validate=validate)
    run = play([call("c1", "tool", x=1)], "done", tools=[tool.tool])
    assert (asked, tool.ran) == ([{"x": 1}], [{"x": 1}])
    assert run.outcomes() == {"c1": "ok"}


@pytest.mark.parametrize("given", [False, True, RuntimeError("no disk")], ids=repr)
def test_validator_that_fails(play: Player, given: Any) -> None:
    async def validate(args: Any, ctx: ToolContext) -> Any:
        if isinstance(given, Exception):
            raise given
        return given

    tool = Noted(validate=validate)
    run = play([call("c1", "tool")], "sorry", tools=[tool.tool])
    assert (tool.ran, run.outcomes()) == ([], {"c1": "invalid"})
    assert run.results()["c1"].startswith("arguments could not be checked: ")


# --- preview -----------------------------------------------------------------------------------


def test_no_preview_of_arguments_that_do_not_fit(play: Player) -> None:  # T15
    asked: list[Any] = []

    async def preview(args: Any, ctx: ToolContext) -> Any:
        asked.append(args)
        return {}

    tool = Noted(schema=NUMBER, preview=preview)
    run = play([call("c1", "tool")], "sorry", tools=[tool.tool])
    assert (asked, tool.ran, run.outcomes()) == ([], [], {"c1": "invalid"})
    assert run.all_of(ToolExecUpdate) == []


def test_preview_that_raises(play: Player) -> None:  # T16
    async def preview(args: Any, ctx: ToolContext) -> Any:
        raise RuntimeError("render diff")

    gate, tool = Gate(), Noted(preview=preview)
    run = play([call("c1", "tool")], "sorry", tools=[tool.tool], hooks=Hooks(gate=gate))
    assert (tool.ran, gate.asked, run.outcomes()) == ([], [], {"c1": "error"})
    assert run.results() == {"c1": "preview of 'tool' failed: render diff"}
    assert run.all_of(ToolExecUpdate) == []


def previewed(**traits: Any) -> RawTool:
    """A tool with a preview that reports progress, also where nobody may hear it."""

    async def validate(args: Any, ctx: ToolContext) -> None:
        ctx.progress("validating")

    async def preview(args: Any, ctx: ToolContext) -> Any:
        ctx.progress("previewing")
        return {"diff": "+1"}

    async def work(args: Any, ctx: ToolContext) -> object:
        ctx.progress("progress", rows=3)
        await ctx.clock.sleep(1)
        return "written"

    return raw_tool("write", "", {}, work, validate=validate, preview=preview, **traits)


def test_preview_and_progress(play: Player) -> None:  # T17
    run = play([call("c1", "write")], "done", tools=[previewed()])
    updates = [(u.kind, u.topic, u.summary, u.payload) for u in run.all_of(ToolExecUpdate)]
    assert updates == [
        ("preview", "", "", {"diff": "+1"}),
        ("progress", "summary", "progress", {"rows": 3}),
    ]
    assert run.outcomes() == {"c1": "ok"}


def test_order_of_the_events_of_a_call(play: Player) -> None:  # A.4.4
    gate = Gate()
    run = play([call("c1", "write")], "done", tools=[previewed()], hooks=Hooks(gate=gate))
    assert of_tools(run) == [
        "tool_exec_start c1 write({})",
        "tool_exec_update c1 preview ''",
        "tool_exec_dispatch c1",
        "tool_exec_update c1 progress 'progress'",
        "tool_exec_end c1 ok: written",
    ]
    assert gate.asked[0].preview == {"diff": "+1"}


def test_preview_is_made_again_of_arguments_that_a_gate_rewrites(play: Player) -> None:
    tool = raw_tool("write", "", {}, lambda args, ctx: "ok", preview=lambda args, ctx: {"x": args["x"]})
    gate = Hooks(gate=Gate(Verdict.allow({"x": 2})))
    run = play([call("c1", "write", x=1)], "done", tools=[tool], hooks=gate)
    assert [update.payload for update in run.all_of(ToolExecUpdate)] == [{"x": 1}, {"x": 2}]


def test_preview_is_seen_while_the_gate_thinks(play: Player) -> None:
    seen: list[float] = []

    async def gate(use: ToolUse) -> Verdict:
        await use.ctx.clock.sleep(5)
        return Verdict.allow()

    play(
        [call("c1", "write")],
        "done",
        tools=[previewed()],
        hooks=Hooks(gate=gate),
        on={"tool_exec_update c1 preview": lambda o: seen.append(o.clock.monotonic())},
    )
    assert seen == [0.0]


def test_topics_of_progress(play: Player) -> None:
    topics = ["summary", "tool_start", "tool_delta", "thinking", "my own"]

    async def work(args: Any, ctx: ToolContext) -> object:
        for topic in topics:
            ctx.progress("now", topic=topic)
            await ctx.clock.sleep(1)
        return "done"

    run = play([call("c1", "t")], "ok", tools=[raw_tool("t", "", {}, work)])
    assert [update.topic for update in run.all_of(ToolExecUpdate)] == topics


# --- what takes too long -----------------------------------------------------------------------


def hanging(where: str) -> tuple[RawTool, Hooks]:
    """A tool that must not run, and hooks; what is named ``where`` never ends."""

    async def never(args: Any, ctx: ToolContext) -> object:
        raise AssertionError("it ran")

    asked: dict[str, Any] = {where: hangs} if where != "gate" else {}
    return raw_tool("tool", "", {}, never, **asked), Hooks(gate=hangs if where == "gate" else None)


WHERE = pytest.mark.parametrize("where", ["validate", "preview", "gate"])


@WHERE
def test_abort_reaches_what_hangs(play: Player, where: str) -> None:
    tool, hooks = hanging(where)
    run = play(
        [call("c1", "tool"), call("c2", "tool")], tools=[tool], hooks=hooks, at={3.0: lambda o: o.stop()}
    )
    assert run.outcomes() == {"c1": "cancelled", "c2": "cancelled"}
    assert set(run.results().values()) == {"not executed: the run was ended first"}
    assert (run.end.reason, run.now) == ("aborted", 3.0)


@WHERE
def test_message_reaches_what_hangs(play: Player, where: str) -> None:
    tool, hooks = hanging(where)
    run = play(
        [call("c1", "tool"), call("c2", "tool")],
        "sure",
        tools=[tool],
        hooks=hooks,
        at={3.0: lambda o: o.steer("stop that")},
    )
    assert run.outcomes() == {"c1": "skipped", "c2": "skipped"}
    assert run.sent()[-1] == "user: stop that"
    assert (run.end.reason, run.now) == ("stop", 3.0)


@pytest.mark.parametrize("end", ["abort", "message"])
def test_nothing_outlives_the_run_that_a_gate_still_tidies_up(play: Player, end: str) -> None:
    log: list[str] = []

    async def gate(use: ToolUse) -> Verdict:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await use.ctx.clock.sleep(2)
            log.append(f"tidied at {use.ctx.clock.monotonic():g}")
        return Verdict.allow()

    acts: Callable[[Any], None] = (lambda o: o.stop()) if end == "abort" else (lambda o: o.steer("no"))
    run = play(
        [call("c1", "tool")],
        "fine",
        tools=[gives("x")],
        hooks=Hooks(gate=gate),
        at={1.0: acts},
        on={"agent_end": lambda o: log.append("end")},
    )
    assert log == ["tidied at 3", "end"]
    assert run.end.reason == ("aborted" if end == "abort" else "stop")


@pytest.mark.parametrize("end", ["abort", "message"])
def test_thread_is_told_to_stop_looking(play: Player, end: str) -> None:
    seen: list[bool] = []

    def validate(args: Any, ctx: ToolContext) -> None:
        while not ctx.cancelled:
            pass
        seen.append(ctx.cancelled)

    tool = Noted(validate=validate)
    acts: Callable[[Any], None] = (lambda o: o.stop()) if end == "abort" else (lambda o: o.steer("no"))
    run = play([call("c1", "tool")], "fine", tools=[tool.tool], at={0.02: acts}, real_time=True)
    assert (seen, tool.ran) == ([True], [])
    assert run.outcomes() == {"c1": "cancelled" if end == "abort" else "skipped"}


def test_leaving_while_a_gate_thinks(play: Player) -> None:
    log = EncodedLog()

    async def main() -> None:
        config = LoopConfig(model=ScriptedModel([[call("c1", "tool")]]), hooks=Hooks(gate=hangs), log=log)
        async with agent_loop("go", AgentContext(tools=[gives("x")]), config) as run:
            with anyio.move_on_after(0.02):
                async for _ in run:
                    pass

    anyio.run(main, backend=play.backend)
    assert [line(fact) for fact in log.facts if isinstance(fact, ToolExecEnd)] == [
        "tool_exec_end c1 cancelled: not executed: the run was ended first"
    ]
    assert fold(log.facts).end_reason == "aborted"


# --- siblings ----------------------------------------------------------------------------------


def gate_of(name: str, seconds: float, verdict: Verdict | None = None) -> Any:
    """A gate that takes a while over the tool ``name``."""

    async def gate(use: ToolUse) -> Verdict:
        if use.call.name != name:
            return Verdict.allow()
        await use.ctx.clock.sleep(seconds)
        return verdict or Verdict.allow()

    return gate


def test_results_are_committed_while_a_gate_thinks(play: Player) -> None:  # I-16
    spans, at = Spans(), dict[str, float]()
    tools = [spans.tool(name, concurrency_safe=True) for name in ("quick", "judged")]
    run = play(
        [call("c1", "quick", s=1), call("c2", "judged", s=1)],
        "done",
        tools=tools,
        hooks=Hooks(gate=gate_of("judged", 9)),
        on={"message_end tool c1": lambda o: at.update(c1=o.clock.monotonic())},
    )
    assert at == {"c1": 1.0}
    assert spans.began == {"c1": 0.0, "c2": 9.0}
    assert run.sent()[-2:] == ["tool c1: c1", "tool c2: c2"]


def test_call_that_is_looked_at_holds_back_later_ones(play: Player) -> None:
    spans = Spans()
    tools = [spans.tool(name, concurrency_safe=True) for name in ("quick", "judged")]
    play(
        [call("c1", "judged", s=1), call("c2", "quick", s=1)],
        "done",
        tools=tools,
        hooks=Hooks(gate=gate_of("judged", 9)),
    )
    assert spans.began == {"c1": 9.0, "c2": 9.0}


def test_call_that_becomes_unsafe_waits_for_those_that_run(play: Player) -> None:
    spans = Spans()
    tool = spans.tool("t", concurrency_safe=lambda args: not args.get("unsafe"))
    later = {"c2": Verdict.allow({"unsafe": True, "s": 2})}
    run = play(
        [call("c1", "t", s=5), call("c2", "t", s=2), call("c3", "t", s=1)],
        "done",
        tools=[tool],
        hooks=Hooks(gate=lambda use: later.get(use.call.id, Verdict.allow())),
    )
    assert (spans.most, spans.began) == (1, {"c1": 0.0, "c2": 5.0, "c3": 7.0})
    assert run.end.reason == "stop"


def test_unsafe_call_is_looked_at_when_its_turn_comes(play: Player) -> None:
    spans, asked = Spans(), dict[str, float]()

    def gate(use: ToolUse) -> Verdict:
        asked[use.call.id] = use.ctx.clock.monotonic()
        return Verdict.allow()

    play([call("c1", "t"), call("c2", "t")], "done", tools=[spans.tool("t")], hooks=Hooks(gate=gate))
    assert asked == {"c1": 0.0, "c2": 1.0}


def test_fatal_error_ends_a_gate_that_thinks(play: Player) -> None:
    async def dies(args: Any, ctx: ToolContext) -> object:
        await ctx.clock.sleep(1)
        raise FatalToolError("the disk is gone")

    spans = Spans()
    tools = [
        raw_tool("dies", "", {}, dies, concurrency_safe=True),
        spans.tool("slow", concurrency_safe=True),
        spans.tool("judged", concurrency_safe=True),
    ]
    run = play(
        [call("c1", "dies"), call("c2", "slow", s=9), call("c3", "judged"), call("c4", "slow")],
        tools=tools,
        hooks=Hooks(gate=gate_of("judged", 99)),
    )
    assert run.outcomes() == {"c1": "error", "c2": "cancelled", "c3": "cancelled", "c4": "cancelled"}
    assert list(spans.began) == ["c2"]
    assert "error tool_fatal: the disk is gone" in run.brief
    assert run.now == 1.0


# --- traits of a call --------------------------------------------------------------------------


def test_time_limit_of_a_tool(play: Player) -> None:
    spans = Spans()
    tool = spans.tool("t", timeout_s=lambda args: args["limit"])
    run = play([call("c1", "t", s=9, limit=2.5), call("c2", "t", s=1, limit=2.5)], "done", tools=[tool])
    assert run.outcomes() == {"c1": "error", "c2": "ok"}
    assert run.results()["c1"] == "the tool took longer than 2.5 s and was stopped"
    assert spans.ended == {"c1": 2.5, "c2": 3.5}


def test_activity_is_the_label_of_a_call(play: Player) -> None:
    tools = [
        echo("a", title="Echo", activity=lambda args: f"says {args['value']}"),
        echo("b", title="Echo"),
        echo("c", title="Echo", activity=lambda args: args["nope"]),
    ]
    calls = [call(f"c{name}", name, value="x") for name in "abc"]
    run = play(calls, "done", tools=tools)
    assert [fact.label for fact in run.all_of(ToolExecStart)] == ["says x", "Echo", "Echo"]


def test_interrupt_by_arguments(play: Player) -> None:
    spans = Spans()

    def interrupt(args: Any) -> Literal["block", "cancel"]:
        return "cancel" if args["s"] > 5 else "block"

    tool = spans.tool("t", concurrency_safe=True, interrupt=interrupt)
    run = play(
        [call("c1", "t", s=3), call("c2", "t", s=9)],
        "sure",
        tools=[tool],
        at={1.0: lambda o: o.steer("quick")},
    )
    assert run.outcomes() == {"c2": "interrupted", "c1": "ok"}
    assert spans.ended == {"c1": 3.0, "c2": 1.0}


def test_size_of_a_result_by_arguments(play: Player) -> None:
    tool = echo(max_result_bytes=lambda args: len(args["value"]) // 2)
    run = play([call("c1", "echo", value="a" * 600)], "done", tools=[tool])
    assert "bytes left out" in run.results()["c1"]
    assert run.all_of(ToolExecEnd)[0].details == {"truncated_from_bytes": 600}


# --- what the host is told ---------------------------------------------------------------------


def test_issues_are_told_one_by_one(play: Player) -> None:  # T442
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "count": {"type": "integer"},
            "mode": {"enum": ["r", "w"]},
            "edits": {"type": "array"},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    asked = call("c1", "tool", count="3", mode="x", edits='["a"]', other=1)
    run = play([asked], "sorry", tools=[Noted(schema=schema).tool])
    issues = run.all_of(ToolExecEnd)[0].details["issues"]
    assert [(issue["kind"], issue["path"]) for issue in issues] == [
        ("missing", "$.path"),
        ("type", "$.count"),
        ("type", "$.edits"),
        ("value", "$.mode"),
        ("unknown", "$.other"),
    ]
    by_path = {issue["path"]: issue for issue in issues}
    assert (by_path["$.count"]["expected"], by_path["$.count"]["received"]) == (["integer"], "string")
    assert by_path["$.mode"]["expected"] == ['"r"', '"w"']
    assert by_path["$.edits"]["hint"]


def test_code_of_a_tool_error(play: Player) -> None:
    run = play([call("c1", "tool")], "sorry", tools=[gives(ToolError("no such file", code="ENOENT"))])
    assert run.results() == {"c1": "no such file"}
    assert run.all_of(ToolExecEnd)[0].details == {"code": "ENOENT"}


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        ("ok", False),
        ("denied", False),
        ("skipped", False),
        ("invalid", True),
        ("refused", True),
        ("preview", True),
        ("error", True),
    ],
)
def test_what_counts_for_switching_off(play: Player, outcome: str, counts: bool) -> None:  # A.4.6
    first: set[str] = {"c1"}

    async def validate(args: Any, ctx: ToolContext) -> str | None:
        return "no" if outcome == "refused" and ctx.call_id in first else None

    async def preview(args: Any, ctx: ToolContext) -> Any:
        if outcome == "preview" and ctx.call_id in first:
            raise RuntimeError("no")
        return {}

    async def work(args: Any, ctx: ToolContext) -> object:
        if outcome == "error" and ctx.call_id in first:
            raise ToolError("no")
        return "done"

    gate = Gate(Verdict.deny()) if outcome == "denied" else Gate()
    acts: dict[str, Any] = (
        {"message_end assistant": lambda o: o.steer("wait")} if outcome == "skipped" else {}
    )
    run = play(
        [call("c1", "t", x="one" if outcome == "invalid" else 1)],
        [call("c2", "t", x=1)],
        "done",
        tools=[raw_tool("t", "", NUMBER, work, validate=validate, preview=preview)],
        hooks=Hooks(gate=gate),
        limits=Limits(tool_errors=1),
        on=acts,
    )
    assert run.outcomes()["c2"] == ("disabled" if counts else "ok")


def test_result_that_refers_to_a_tool(play: Player) -> None:
    found = [ToolReference("grep"), Text("one tool")]
    run = play([call("c1", "tool")], "ok", tools=[gives(found)])
    assert run.requests[1].messages[-1].content == tuple(found)


# --- the message of a result -------------------------------------------------------------------


def test_host_makes_the_message_of_a_result(play: Player) -> None:  # T452
    def make(asked: ToolCall, plain: Message) -> Message | None:
        if asked.id != "c1":
            return None
        text = Text(f"<out>{plain.text}</out>")
        return Message(role="tool", tool_call_id=asked.id, content=(text,), metadata={"kind": "boxed"})

    run = play(
        [call("c1", "echo", value="a"), call("c2", "echo", value="b")],
        "done",
        tools=[echo()],
        hooks=Hooks(tool_result_message=make),
    )
    assert run.sent()[-2:] == ["tool c1: <out>a</out>", "tool c2: b"]
    boxed = run.state.messages[2]
    assert isinstance(boxed, Message) and boxed.metadata == {"kind": "boxed"} and boxed.id == "m3"
    assert "tool_exec_end c1 ok: a" in run.trace  # what the tool gave


@pytest.mark.parametrize(
    "made",
    [
        Message(role="tool", tool_call_id="c9", content=(Text("x"),)),
        Message(role="user", content=(Text("x"),)),
        "text",
        ZeroDivisionError("oops"),
    ],
    ids=["another call", "another role", "no message", "raises"],
)
def test_message_that_does_not_fit_ends_the_run(play: Player, made: Any) -> None:  # T452
    def make(asked: ToolCall, plain: Message) -> Any:
        if isinstance(made, Exception):
            raise made
        return made

    calls = [call("c1", "echo", value="a"), call("c2", "echo", value="b")]
    run = play(calls, tools=[echo()], hooks=Hooks(tool_result_message=make))
    assert run.end.reason == "error"
    assert [row for row in run.brief if row.startswith("error hook: hook: tool_result_message raised")]
    assert run.texts[2:] == ["tool: a", "tool: not executed: the run was ended first"]


# --- calls in doubt ----------------------------------------------------------------------------


def crashed(play: Player, tool: RawTool, **settings: Any) -> Any:
    """The state of a process that died right after a call was dispatched."""
    run = play([call("c1", "tool")], "done", tools=[tool], **settings)
    (dispatch,) = run.all_of(ToolExecDispatch)
    return fold(run.facts[: dispatch.seq]), dispatch.idempotency_key


@pytest.mark.parametrize("trait", ["idempotent", "read_only"])
def test_harmless_call_in_doubt_runs_again(play: Player, trait: str) -> None:
    keys: list[str] = []

    async def work(args: Any, ctx: ToolContext) -> object:
        keys.append(ctx.idempotency_key)
        return "done"

    traits: dict[str, Any] = {trait: True}
    tool = raw_tool("tool", "", {}, work, **traits)
    state, key = crashed(play, tool)
    run = play("fine", prompt=None, state=state, tools=[tool])
    assert keys == [key, key]
    assert of_tools(run) == ["tool_exec_dispatch c1", "tool_exec_end c1 ok: done"]
    assert run.end.reason == "stop"


def test_other_call_in_doubt_does_not_run_again(play: Player) -> None:  # B002
    tool = Noted()
    state, _ = crashed(play, tool.tool)
    run = play("fine", prompt=None, state=state, tools=[tool.tool])
    assert len(tool.ran) == 1
    assert run.outcomes() == {"c1": "unknown"}
    assert "whether it had any effect is unknown" in run.results()["c1"]


def test_whether_it_runs_again_goes_by_the_arguments_that_ran(play: Player) -> None:
    tool = Noted(idempotent=lambda args: "key" in args)
    state, _ = crashed(play, tool.tool, hooks=Hooks(gate=Gate(Verdict.allow({"key": 1}))))
    run = play("fine", prompt=None, state=state, tools=[tool.tool])
    assert tool.ran == [{"key": 1}, {"key": 1}]
    assert [fact.args for fact in run.all_of(ToolExecDispatch)] == [{"key": 1}]


@pytest.mark.parametrize("trait", ["idempotent", "other"])
@pytest.mark.parametrize("reason", ["message", "abort"])
def test_call_in_doubt_is_never_told_as_not_executed(play: Player, trait: str, reason: str) -> None:
    tool = Noted(idempotent=trait == "idempotent")
    state, _ = crashed(play, tool.tool)
    if reason == "message":
        run = play("fine", prompt="status?", state=state, tools=[tool.tool])
    else:
        run = play(prompt=None, state=state, tools=[tool.tool], on={"agent_start": lambda o: o.stop()})
    assert len(tool.ran) == 1
    assert run.outcomes() == {"c1": "unknown"}
    assert "whether it had any effect is unknown" in run.results()["c1"]


def test_dispatch_that_was_not_reached_is_no_doubt(play: Player) -> None:
    tool = Noted()
    run = play([call("c1", "tool")], "done", tools=[tool.tool])
    (dispatch,) = run.all_of(ToolExecDispatch)
    again = play("fine", prompt=None, state=fold(run.facts[: dispatch.seq - 1]), tools=[tool.tool])
    assert len(tool.ran) == 2  # the second time is the first of the process that goes on
    assert of_tools(again) == ["tool_exec_dispatch c1", "tool_exec_end c1 ok: done"]


def test_foreign_tool_whose_traits_depend_on_arguments(play: Player) -> None:
    class Foreign:
        spec = ToolSpec(name="tool")

        def spec_for(self, args: Any) -> ToolSpec:
            return ToolSpec(name="tool", needs_approval=args["n"] > 10)

        async def execute(self, args: Any, ctx: ToolContext) -> object:
            return args["n"]

    run = play([call("c1", "tool", n=1)], [call("c2", "tool", n=11)], tools=[Foreign()])
    assert run.outcomes() == {"c1": "ok"}
    assert run.end.reason == "paused"


def test_sibling_is_stopped_before_a_fatal_error_ends_the_run(play: Player) -> None:  # B135
    log: list[str] = []

    async def boom(args: Any, ctx: ToolContext) -> object:
        await ctx.clock.sleep(1)
        raise FatalToolError("boom")

    async def write_later(args: Any, ctx: ToolContext) -> object:
        try:
            await ctx.clock.sleep(10)
            log.append("written")
        finally:
            with anyio.CancelScope(shield=True):
                await ctx.clock.sleep(2)
            log.append("tidied")
        return "done"

    tools = [raw_tool(fn.__name__, "", {}, fn, concurrency_safe=True) for fn in (boom, write_later)]
    run = play(
        [call("c1", "boom"), call("c2", "write_later")],
        tools=tools,
        on={"agent_end": lambda o: log.append("end")},
    )
    assert log == ["tidied", "end"]
    assert run.outcomes() == {"c1": "error", "c2": "cancelled"}
    assert run.end.reason == "error"


def test_model_is_forced_to_call_a_tool_only_once(play: Player) -> None:  # B145, by a hook
    def forced(info: ModelCallInfo) -> CallOptions | None:
        return CallOptions(tool_choice="required") if info.state.turns == 0 else None

    run = play(
        [call("c1", "echo", value="x")],
        "ok",
        tools=[echo()],
        hooks=Hooks(before_model_call=forced),
    )
    assert [request.options.tool_choice for request in run.requests] == ["required", None]
    assert run.end.reason == "stop"


def test_gate_and_tool_see_one_parse(play: Player) -> None:  # B081
    gate, tool = Gate(), Noted()
    run = play(
        [make_call("c1", "tool", '{"path":"/tmp/ok","path":"/etc/shadow"}')],
        "done",
        tools=[tool.tool],
        hooks=Hooks(gate=gate),
    )
    assert [use.args for use in gate.asked] == tool.ran
    assert tool.ran == [run.requests[1].messages[1].tool_calls[0].args]


def test_names_are_matched_before_the_gate(play: Player) -> None:  # B143
    gate = Gate()
    names = ["functions.echo", " echo ", "Echo", "", "eсho"]  # the last has a Cyrillic letter
    play([call(f"f{i}", name, value="x") for i, name in enumerate(names)], "ok", hooks=Hooks(gate=gate))
    assert gate.asked == []


def test_arguments_without_a_json_form_do_not_hide_the_error(play: Player) -> None:  # B137
    gate = Gate(Verdict.allow({"img": object()}))
    run = play([call("c1", "tool")], "sorry", tools=[gives(ValueError("bad image"))], hooks=Hooks(gate=gate))
    assert run.results() == {"c1": "ValueError: bad image"}


def test_sync_tools_are_asked_in_threads_that_share_the_context(play: Player) -> None:  # B141
    who: ContextVar[str] = ContextVar("who", default="nobody")
    seen: list[str] = []

    def validate(args: Any, ctx: ToolContext) -> None:
        seen.append(f"validate {who.get()}")
        who.set("x")

    def preview(args: Any, ctx: ToolContext) -> Any:
        seen.append(f"preview {who.get()}")
        return {}

    def gate(use: ToolUse) -> Verdict:
        seen.append(f"gate {who.get()}")
        return Verdict.allow()

    token = who.set("alice")
    try:
        tool = Noted(validate=validate, preview=preview)
        play([call("c1", "tool")], "done", tools=[tool.tool], hooks=Hooks(gate=gate), real_time=True)
    finally:
        who.reset(token)
    assert seen == ["validate alice", "preview alice", "gate alice"]
