"""What a run makes of an answer: how often it asks, what it runs, what it sends back.

The agent is a real one, its server answers with the case's bytes and then with a plain last answer, or with
the same bytes for ever where the case says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from unspool.kernel import Agent, Event, Retry, RunResult, raw_tool
from unspool.kernel.events import MessageUpdate
from unspool.kernel.ports import ChatModel, Tool

from .formats import model_of
from .replay import Answer, ReplayServer
from .report import differs
from .wire_text import last_answer, reply_blocks, results_of, signature_of

_KEYS: Final = frozenset(
    {
        "executions",
        "requests",
        "attempts",
        "max_requests",
        "bounded",
        "replay_blocks",
        "unique_ids",
        "signature",
    }
)
_WAIT_S: Final = 20.0  # no run takes this long unless something is broken
_IDLE_S: Final = 0.3  # stands for the idle time of a case
_MOST_REQUESTS: Final = 20  # of a run that is bounded


@dataclass
class _Run:
    """A run as its server and its host saw it."""

    requests: list[Any] = field(default_factory=list)
    executed: list[tuple[str, Any]] = field(default_factory=list)
    result: RunResult[str] | None = None


def is_about_the_run(case: Mapping[str, Any]) -> bool:
    """Whether the case expects anything that the bytes alone do not decide."""
    return case["trigger"]["kind"] == "http-stream-timed" or not _KEYS.isdisjoint(case.get("expect") or ())


def check_run(case: Mapping[str, Any], body: bytes, names: Sequence[str]) -> Iterator[str]:
    """The differences in what a run makes of the case; its tools have these names."""
    trigger, expect = case["trigger"], case.get("expect") or {}
    wire, silent = trigger["wire"], trigger["kind"] == "http-stream-timed"
    cancels = "client cancels" in trigger.get("then", "")
    answers = [Answer(body, open=silent or cancels)]
    if "repeat" not in trigger and not silent:
        answers.append(Answer(last_answer(wire, trigger.get("then", ""))))
    run = _Run()
    with ReplayServer(answers) as server:
        model = model_of(wire, server.url)
        if model is None:
            yield f"run: the model of {wire} is not built"
            return
        run.requests = server.requests
        anyio.run(_cancelled if cancels else _silent if silent else _plain, model, names, run)
    yield from _check(run, expect, wire)
    if silent and run.result is not None:
        yield from differs("error of a silent server", "stream_idle", run.result.error_kind)


def _agent(model: ChatModel, names: Sequence[str], run: _Run, **options: Any) -> Agent[str]:
    def tool(name: str) -> Tool:
        def execute(args: Mapping[str, Any], ctx: object) -> str:
            run.executed.append((name, dict(args)))
            return f"result {len(run.executed)}"

        return raw_tool(name, "Does it.", {"type": "object"}, execute)

    retry = options.pop("retry", Retry(base_s=0.0))
    return Agent(model, tools=[tool(name) for name in dict.fromkeys(names)], retry=retry, **options)


async def _plain(model: ChatModel, names: Sequence[str], run: _Run) -> None:
    with anyio.fail_after(_WAIT_S):
        run.result = await _agent(model, names, run).run("go")


async def _silent(model: ChatModel, names: Sequence[str], run: _Run) -> None:
    """A server that stops sending: one attempt, so that its own error is seen."""
    retry = Retry(attempts=0, idle_s=_IDLE_S)
    with anyio.fail_after(_WAIT_S):
        run.result = await _agent(model, names, run, retry=retry).run("go")


async def _cancelled(model: ChatModel, names: Sequence[str], run: _Run) -> None:
    """The run is aborted once the text is there, its text kept, and the user goes on."""
    agent = _agent(model, names, run)

    def abort(event: Event) -> None:
        if isinstance(event, MessageUpdate):
            agent.abort(keep=True)

    agent.subscribe(abort)
    with anyio.fail_after(_WAIT_S):
        await agent.run("go")
        run.result = await agent.run("never mind")


def _check(run: _Run, expect: Mapping[str, Any], wire: str) -> Iterator[str]:
    asked = len(run.requests)
    if "executions" in expect:
        yield from differs("executions", expect["executions"], len(run.executed))
    for key in ("requests", "attempts"):
        if key in expect:
            yield from differs(key, expect[key], asked)
    if asked > expect.get("max_requests", _MOST_REQUESTS):
        yield from differs("requests, at most", expect.get("max_requests", _MOST_REQUESTS), asked)
    last = run.requests[-1] if asked > 1 else {}
    if "replay_blocks" in expect:
        yield from differs("replay_blocks", expect["replay_blocks"], reply_blocks(wire, last))
    if "signature" in expect:
        yield from differs("signature sent back", expect["signature"], signature_of(wire, last))
    if expect.get("unique_ids"):
        calls, results = results_of(wire, last)
        if not calls or len(set(calls)) < len(calls) or calls != results:
            yield f"unique_ids: calls {calls} have results {results}"
