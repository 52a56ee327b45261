"""The calls of one reply: when each may start, and how its result reaches the transcript.

1. Calls that need a person's approval are asked for together, before anything runs.
2. Calls start in order. Adjacent concurrency-safe ones run together, up to the limit; any other
   runs alone. A call that cannot start yet, or that a gate still looks at, holds back all later ones.
3. A failure never cancels its siblings; a fatal one ends the run.
4. Results are committed in call order, each as soon as all earlier ones are in.
5. A message that steers the run stops further starts, and interrupts tools that allow it.

Read with: ``tool_prepare.py``, ``tool_call.py``, ``closing.py`` (calls that will not run).
"""

from collections import deque
from typing import Any

from .call_states import CallState
from .closing import announce, commit_results, end_execution, end_unrun
from .events import ApprovalRequested, ToolExecDispatch, ToolExecUpdate
from .json_edge import clean_text, plain_object
from .pull import pull
from .run import Run
from .steps import limit_reached
from .tool_call import Execution, Outcome
from .tool_check import Refusal, refusal
from .tool_prepare import Preparation


async def run_tools(run: Run) -> None:
    """Perform the step "run tools": until nothing is left to run or the run is to end."""
    batch = _Batch(run)
    batch.reconcile()
    run.on_notice = batch.notice
    try:
        if await batch.ask_first():
            return
        while not run.aborted:
            launch = batch.start_what_may()
            if run.outbox:
                await pull()
            if launch:
                await run.flush()
                batch.launch(launch)
            batch.prepare()
            if not batch.busy:
                if not batch.may_start():
                    return
                continue
            if not batch.has_news() and not run.aborted:
                await run.wake.wait()
            if batch.collect():
                return
    finally:
        run.on_notice = None


class _Batch:
    """The calls of the open turn: those to start, in order, and those under way."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.running: dict[str, Execution] = run.executions
        self.to_start: deque[CallState] = deque()
        self.preparation: Preparation | None = None  # of the first call to start

    def reconcile(self) -> None:
        """Look at where each call stands; one that was dispatched when an earlier process died ends,
        because nobody knows its effect, unless it does no harm when it runs again."""
        turn = self.run.state.turn
        calls = turn.calls.uncommitted if turn is not None else ()
        settled = False
        for state in calls:
            if state.stage in ("requested", "started", "waiting", "answered") or self._may_repeat(state):
                self.to_start.append(state)
            elif state.stage == "dispatched":
                end_unrun(self.run, state, Refusal("unknown", self.run.config.texts.unknown_outcome))
                settled = True
            elif state.stage == "ended":
                settled = True
        if settled:
            commit_results(self.run)

    def _may_repeat(self, state: CallState) -> bool:
        tool = self.run.toolbox.by_name.get(state.call.name)
        args = state.call.args if state.args is None else state.args
        return state.stage == "dispatched" and tool is not None and tool.may_repeat(args)

    async def ask_first(self) -> bool:
        """Ask a person about all calls that need it, at once; whether there are such calls.

        The tools look at them first: what they refuse nobody is asked about, and a preview is shown.
        """
        run = self.run
        if not run.toolbox.may_ask or self._overtaken:
            return False
        asked: list[str] = []
        previews: dict[str, dict[str, Any]] = {}
        refused = False
        for state in [state for state in self.to_start if self._needs_approval(state)]:
            execution = Execution(run, state, run.toolbox.by_name[state.call.name])
            preparation = Preparation(run, execution, None)
            if execution.tool.looks and not await self._look(preparation):
                return False
            if preparation.refused is not None:  # for good: a second look must not let it through
                end_unrun(run, state, preparation.refused)
                self.to_start.remove(state)
                refused = True
                continue
            asked.append(state.call.id)
            if execution.preview is not None:
                previews[state.call.id] = dict(execution.preview)
        if refused:
            commit_results(run)
        if asked:
            run.record(ApprovalRequested(tuple(asked), previews=previews))
        return bool(asked)

    async def _look(self, preparation: Preparation) -> bool:
        """Let a tool look at its call; whether it could, before anything else came."""
        run = self.run
        if run.outbox:
            await pull()  # it may take its time
        preparation.start()
        while not (preparation.done or run.aborted or self._overtaken):
            await run.wake.wait()
            if run.outbox:
                await pull()
        if not preparation.done:
            preparation.cancel()
        return not (run.aborted or self._overtaken)

    def _needs_approval(self, state: CallState) -> bool:
        tool = self.run.toolbox.by_name.get(state.call.name)
        if tool is None or state.approved or state.declined or state.stage not in ("requested", "started"):
            return False
        args = state.call.args if state.args is None else state.args
        return tool.spec_for(args).needs_approval and refusal(self.run, state) is None

    @property
    def _overtaken(self) -> bool:
        """Whether a message of the user came before what is left to start."""
        state = self.run.recorder.state
        return bool(state.steering or state.prompts)

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return bool(self.running) or (self.preparation is not None and not self.preparation.done)

    def may_start(self) -> bool:
        """Whether a call is left that this batch may still start."""
        return bool(self.to_start) and not limit_reached(self.run.state, self.run.limits)

    def start_what_may(self) -> list[Execution]:
        """Announce every call that may start now; those that may not run get their end."""
        run, to_start = self.run, self.to_start
        launch: list[Execution] = []
        settled = False
        while to_start and not run.aborted:
            state = self._standing(to_start[0])
            if self._overtaken:
                self._forget_preparation()
                refused: Refusal | None = Refusal("skipped", run.config.texts.skipped)
            elif state.stage == "answered" and state.call.name in run.toolbox.by_name:
                if self.running and not self._may_join(state):
                    break
                launch.append(self._dispatch(self._again(state), state))
                to_start.popleft()
                continue
            elif limit_reached(run.state, run.limits) or (self.running and not self._may_join(state)):
                break
            else:
                refused = refusal(run, state)
            if refused is None:
                execution = self._prepared(state)
                if execution is None:
                    break
                refused = self._verdict()
                if refused is None and self._is_unasked(execution, state):
                    self._ask(execution, "")
                    break
                if refused is None:
                    launch.append(self._dispatch(execution, state))
            if refused is not None:
                end_unrun(run, state, refused)
                settled = True
            self.preparation = None
            to_start.popleft()
        if settled:
            commit_results(run)
        return launch

    def _standing(self, known: CallState) -> CallState:
        """Where a call stands by now: its start may have been recorded while it was looked at."""
        turn = self.run.state.turn
        return (turn.calls.get(known.call.id) if turn is not None else None) or known

    def _may_join(self, state: CallState) -> bool:
        """Whether a call may run beside those under way; one that will be refused waits its turn."""
        running, preparation = self.running, self.preparation
        tool = self.run.toolbox.by_name.get(state.call.name)
        if tool is None or len(running) >= self.run.limits.concurrency:
            return False
        if preparation is not None:
            safe = preparation.execution.safe
        else:
            safe = tool.is_safe(state.call.args if state.args is None else state.args)
        return safe and all(execution.safe for execution in running.values())

    def _prepared(self, state: CallState) -> Execution | None:
        """The call's execution, once everybody who wants to has looked at it; None until then."""
        run = self.run
        if self.preparation is None:
            execution = Execution(run, state, run.toolbox.by_name[state.call.name])
            gate, tool = run.config.hooks.gate, execution.tool
            if gate is None and not tool.looks:
                return execution
            announce(run, state)
            self.preparation = Preparation(run, execution, gate)
            return None
        if not self.preparation.done:
            return None
        self._show_preview()
        if self.preparation.asks is not None:
            if state.stage != "dispatched":
                self._ask(self.preparation.execution, self.preparation.asks.reason)
                return None
            unknown = Refusal("unknown", run.config.texts.unknown_outcome)
            self.preparation.refused = unknown  # no answer of a person may say that it did not run
        return self.preparation.execution

    def _show_preview(self) -> None:
        if self.preparation is not None and (preview := self.preparation.take_preview()) is not None:
            self.run.recorder.signal((preview,))

    def _is_unasked(self, execution: Execution, state: CallState) -> bool:
        """Whether a call that needs a person's approval has come here without one, by whatever way."""
        return execution.spec.needs_approval and not execution.approved and state.stage != "dispatched"

    def _ask(self, execution: Execution, reason: str) -> None:
        """Have a person decide; nothing more starts until then."""
        call_id, preview = execution.call.id, execution.preview
        previews = {call_id: dict(preview)} if preview is not None else {}
        self.run.record(ApprovalRequested((call_id,), clean_text(reason), previews, ruling=execution.ruling))
        self.preparation = None
        self.to_start.clear()

    def _again(self, state: CallState) -> Execution:
        """The execution of a call that goes on: what it may do has been decided."""
        return Execution(self.run, state, self.run.toolbox.by_name[state.call.name])

    def _suspend(self, execution: Execution, outcome: Outcome) -> None:
        """Have a person decide on calls of a nested session; nothing more starts until then."""
        self.run.record(ApprovalRequested((execution.call.id,), nested=outcome.nested))
        self._forget_preparation()
        self.to_start.clear()

    def _verdict(self) -> Refusal | None:
        return self.preparation.refused if self.preparation is not None else None

    def _forget_preparation(self) -> None:
        if self.preparation is not None:
            self.preparation.cancel()
            self.preparation = None

    def _dispatch(self, execution: Execution, state: CallState) -> Execution:
        run, call = self.run, execution.call
        announce(run, state)
        args = None if execution.args is call.args else dict(execution.args)
        run.record(ToolExecDispatch(call.id, execution.key, args, ruling=execution.ruling))
        self.running[call.id] = execution
        return execution

    def prepare(self) -> None:
        """Let validator, preview and gate look at the next call; the consumer has seen its start."""
        preparation = self.preparation
        if preparation is not None and preparation.job is None and not self.run.aborted:
            preparation.start()

    def launch(self, executions: list[Execution]) -> None:
        """Start the tools; the consumer has seen what was announced."""
        if self.run.aborted:
            return
        for execution in executions:
            if self.run.state.steering:
                execution.skip()
            else:
                execution.start()

    def notice(self) -> None:
        """Something came from outside: interrupt what may be interrupted, at once."""
        if self.run.state.steering:
            for execution in list(self.running.values()):
                if execution.spec.interrupt == "cancel":
                    execution.interrupt()

    def has_news(self) -> bool:
        """Whether a call ended, progressed, was decided upon, or something outside is to be told."""
        preparation = self.preparation
        if preparation is not None and (preparation.shown is not None or self._overtaken):
            return True
        if preparation is not None and preparation.done and not preparation.looked_at:
            preparation.looked_at = True  # it may still have to wait for those that run
            return True
        return bool(self.run.outbox) or any(e.has_news for e in self.running.values())

    def collect(self) -> bool:
        """Record what ended and what progressed; whether a fatal error ends the batch."""
        run, fatal = self.run, None
        self._show_preview()
        for execution in list(self.running.values()):
            if (progress := execution.take_progress()) is not None:
                payload = plain_object(progress.payload)
                update = ToolExecUpdate(
                    execution.call.id, "progress", progress.topic, progress.summary, payload, run_id=run.id
                )
                run.recorder.signal((update,))
            outcome = execution.outcome
            if outcome is None:
                continue
            del self.running[execution.call.id]
            if outcome.nested:
                self._suspend(execution, outcome)
                continue
            end_execution(run, execution, outcome)
            fatal = fatal or outcome.fatal
        commit_results(run)
        if fatal is not None:
            run.fail(fatal)
        return fatal is not None or bool(run.state.failed)
