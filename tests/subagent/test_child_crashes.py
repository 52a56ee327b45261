"""Whatever a process leaves in the logs when it dies, once or again and again: the tree goes on where it stood."""

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from unspool import Usage, Verdict
from unspool.kernel import (
    ChildEnded,
    ChildStarted,
    ContinueError,
    Fact,
    ToolContext,
    ToolExecDispatch,
    fold,
    raw_tool,
)
from unspool.llm.scripted import call
from unspool.subagent import AgentDefinition
from unspool.tools.tasks import Tasks
from unspool.trajectory import MemoryLog, SessionHandle, SqliteSessions

from .subagent_scenes import Clock, Scene, go, said, several, sub

__all__ = ["go"]

Order = list[tuple[str, Fact]]
STEPS = (("a", "x"), ("b", "y"), ("a", "z"))
CALLS: dict[str, list[Any]] = {
    "single": [sub("c1", "a")],
    "two": [sub("c1", "a"), sub("c2", "b")],
    "chain": [several("chain", *STEPS)],
    "parallel": [several("tasks", *STEPS)],
    "background": [sub("c1", "a", background=True)],
}
TWO_LEVELS = AgentDefinition(name="b", context="isolated")


class Round(Scene):
    """One process: it begins with what the logs of the one before hold, and notes what it stores, in order."""

    def __init__(self, mode: str, kept: Order, root: str, asks: bool, **stored: Any) -> None:
        self.order: Order = list(kept)
        self.bought: list[str] = []
        self.root = root
        schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
        buy = raw_tool("buy", "Buy.", schema, self._buy, needs_approval=asks)
        logs: dict[str, list[Fact]] = {}
        for session, fact in kept:
            logs.setdefault(session, []).append(fact)
        clock = Clock()
        self.tasks = Tasks(clock=clock)
        scripts: dict[str, list[Any]] = {
            "a": [said("", 3, sub("d1", "g")), said("", 5, sub("d2", "g")), said("half", 4)],
            "b": [said("b", 7)],
            "g": [said("", 5, call("p1", "buy", amount=7)), said("bought", 6)],
            "root": [said("", 1, *CALLS[mode]), said("done", 2)],
        }
        super().__init__(
            scripts.pop("root"),
            scripts,
            agents=[TWO_LEVELS],
            tools=[buy],
            clock=clock,
            tasks=self.tasks,
            **{"log": MemoryLog(logs.pop(root, []), session=root), **stored},
        )
        for each in (self.model, *self.models.values()):
            _by_conversation(each)
        if not stored:
            self._note(self.log)
        noted = _Noted(self._note)
        for session, facts in logs.items():
            noted.setdefault(session, MemoryLog(facts, session=session))
        self.subagents.logs._logs = noted
        self.agent = self.make()

    async def _buy(self, args: Mapping[str, Any], ctx: ToolContext) -> str:
        self.bought.append(ctx.idempotency_key)
        return "ok"

    def _note(self, log: MemoryLog) -> None:
        append = log.append

        def noted(fact: Fact) -> None:
            self.order.append((log.session, fact))
            append(fact)

        log.append = noted  # type: ignore[method-assign]  # the log of one test


class _Noted(dict[str, MemoryLog]):
    def __init__(self, note: Any) -> None:
        self._note = note

    def setdefault(self, session: str, log: MemoryLog) -> MemoryLog:
        if session not in self:
            self._note(log)
            self[session] = log
        return self[session]


def _by_conversation(model: Any) -> None:
    """Have a scripted model answer by how many replies the conversation has, not by how often it was asked."""
    script, stream = list(model._script), model.stream

    def answer(request: Any) -> Any:
        place = sum(message.role == "assistant" for message in request.messages)
        model._script = [script[min(place, len(script) - 1)]] * (len(model.requests) + 1)
        return stream(request)

    model.stream = answer


async def _finish(scene: Round, begin: bool) -> None:
    """Run to the end of everything, approving all."""
    async with scene.tasks:
        try:
            result = await (scene.agent.run("begin") if begin else scene.agent.continue_())
        except ContinueError:
            if scene.agent.state.waiting_calls:
                result = await scene.agent.resume(Verdict.allow())
            elif not scene.agent.state.messages:
                result = await scene.agent.run("begin")
            else:
                return
        while result.end_reason == "paused":
            result = await scene.agent.resume(Verdict.allow())
        assert result.end_reason == "stop"
        await scene.tasks.wait()


def _check(scene: Round, whole: Round | None) -> None:
    """Everything that holds at the end, whatever happened before."""
    assert scene.agent.state.messages[-1].text == "done"
    assert len(scene.bought) == len(set(scene.bought))
    for log in (scene.log, *scene.logs.values()):
        facts = log.facts
        dispatched = [
            f.idempotency_key for f in facts if isinstance(f, ToolExecDispatch) and f.call_id == "p1"
        ]
        assert len(dispatched) <= 1
        opened: set[str] = set()
        for fact in facts:
            if isinstance(fact, ChildStarted):
                opened.add(fact.child)
            elif isinstance(fact, ChildEnded):
                assert fact.child in opened, "it ends once"
                opened.discard(fact.child)
        assert fold(facts).end_reason == "stop"
    if whole is not None:
        assert set(scene.logs) == set(whole.logs)


def _balanced(scene: Round) -> None:
    assert not scene.agent.state.children
    assert scene.agent.total_usage == scene.spent


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("mode", [mode for mode in CALLS if mode != "background"])
def test_a_crash_anywhere(go: Any, mode: str, asks: bool) -> None:
    whole = Round(mode, [], f"root-{mode}-{asks}", asks)
    go(lambda: _finish(whole, True))
    _check(whole, None)
    _balanced(whole)
    for cut in range(1, len(whole.order), 1 if os.environ.get("UNSPOOL_LONG") else 11):
        again = Round(mode, whole.order[:cut], whole.root, asks)
        go(lambda again=again: _finish(again, False))
        _check(again, whole)
        _balanced(again)


@pytest.mark.parametrize("seed", range(200 if os.environ.get("UNSPOOL_LONG") else 4))
def test_crash_after_crash(go: Any, seed: int) -> None:
    rand = random.Random(seed)
    mode, asks = rand.choice(sorted(set(CALLS) - {"background"})), rand.random() < 0.5
    scene = Round(mode, [], f"root-{seed}", asks)
    go(lambda: _finish(scene, True))
    for _ in range(4):
        scene = Round(mode, scene.order[: rand.randrange(1, len(scene.order) + 1)], scene.root, asks)
        go(lambda scene=scene: _finish(scene, False))
    _check(scene, None)
    _balanced(scene)


def test_a_crash_with_one_in_the_background(go: Any) -> None:
    """While its call has no end it goes on as a task; afterwards it is the host that may go on with it."""
    whole = Round("background", [], "root-background", False)
    go(lambda: _finish(whole, True))
    _balanced(whole)
    ended = next(
        n for n, (s, f) in enumerate(whole.order) if s == whole.root and type(f).__name__ == "ToolExecEnd"
    )
    for cut in range(1, ended + 1):
        again = Round("background", whole.order[:cut], whole.root, False)
        go(lambda again=again: _finish(again, False))
        _check(again, whole)
        _balanced(again)


def test_a_crash_with_stored_logs(go: Any, tmp_path: Path) -> None:
    whole = Round("parallel", [], "root-stored", True)
    go(lambda: _finish(whole, True))
    for cut in range(8, len(whole.order), len(whole.order) // 6):
        with SqliteSessions(tmp_path / f"{cut}.db") as sessions:
            _store(sessions, whole.order[:cut])
            with sessions.open(whole.root) as log:
                again = Round("parallel", [], whole.root, True, sessions=sessions, log=log)
                go(lambda again=again: _finish(again, False))
                every = [fold(sessions.facts(info.session)) for info in sessions.list()]
                assert again.agent.state.messages[-1].text == "done"
                assert again.agent.total_usage == sum([state.usage for state in every], Usage())
                assert len(every) == 1 + len(whole.logs) and not any(state.children for state in every)


def _store(sessions: SqliteSessions, order: Order) -> None:
    logs: dict[str, SessionHandle] = {}
    for session, fact in order:
        if session not in logs:
            logs[session] = sessions.create(session)
        logs[session].append(fact)
    for log in logs.values():
        log.close()
