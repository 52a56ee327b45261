"""The calls of one reply: when each may start, and how its result reaches the transcript.

1. Calls start in order. Adjacent concurrency-safe ones run together, up to the limit; any other
   runs alone. A call that cannot start yet holds back all later ones.
2. A failure never cancels its siblings; a fatal one ends the run.
3. Results are committed in call order, each as soon as all earlier ones are in.
4. A message that steers the run stops further starts, and interrupts tools that allow it.

Read with: ``tool_call.py``, ``closing.py`` (calls that will not run).
"""

from collections import deque

from .call_states import CallState
from .closing import announce, commit_results, end_execution, end_unrun
from .events import ToolExecDispatch, ToolExecUpdate
from .json_edge import plain_json
from .pull import pull
from .run import Run
from .steps import limit_reached
from .tool_call import SKIPPED, UNKNOWN, Execution, Refusal, refusal


async def run_tools(run: Run) -> None:
    """Perform the step "run tools": until nothing is left to run or the run is to end."""
    batch = _Batch(run)
    batch.reconcile()
    run.on_notice = batch.notice
    try:
        while not run.aborted:
            launch = batch.start_what_may()
            if run.outbox:
                await pull()
            if launch:
                await run.flush()
                batch.launch(launch)
            if not batch.running:
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

    def reconcile(self) -> None:
        """Look at where each call stands; one that was dispatched when an earlier process died ends:
        nobody knows its effect."""
        turn = self.run.state.turn
        calls = turn.calls.uncommitted if turn is not None else ()
        settled = False
        for state in calls:
            if state.stage in ("requested", "started"):
                self.to_start.append(state)
            elif state.stage == "dispatched":
                end_unrun(self.run, state, "unknown", UNKNOWN)
                settled = True
            elif state.stage == "ended":
                settled = True
        if settled:
            commit_results(self.run)

    def may_start(self) -> bool:
        """Whether a call is left that this batch may still start."""
        return bool(self.to_start) and not limit_reached(self.run.state, self.run.limits)

    def start_what_may(self) -> list[Execution]:
        """Announce every call that may start now; those that may not run get their end."""
        run, to_start = self.run, self.to_start
        launch: list[Execution] = []
        settled = False
        while to_start and not run.aborted:
            state = to_start[0]
            skipped = bool(run.state.steering)
            if not skipped and (
                limit_reached(run.state, run.limits) or (self.running and not self._may_join(state))
            ):
                break
            refused = Refusal("skipped", SKIPPED) if skipped else refusal(run, state.call)
            if refused is None:
                launch.append(self._dispatch(state))
            else:
                end_unrun(run, state, *refused)
                settled = True
            to_start.popleft()
        if settled:
            commit_results(run)
        return launch

    def _may_join(self, state: CallState) -> bool:
        """Whether a call may run beside those under way; one that will be refused waits its turn."""
        running = self.running
        tool = self.run.toolbox.by_name.get(state.call.name)
        return (
            tool is not None
            and len(running) < self.run.limits.concurrency
            and tool.is_safe(state.call.args)
            and all(execution.safe for execution in running.values())
        )

    def _dispatch(self, state: CallState) -> Execution:
        run, call = self.run, state.call
        announce(run, state)
        key = f"{run.recorder.session}:{call.id}"
        run.record(ToolExecDispatch(call.id, key))
        execution = Execution(run, call, run.toolbox.by_name[call.name], key)
        self.running[call.id] = execution
        return execution

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
                if execution.tool.spec.interrupt == "cancel":
                    execution.interrupt()

    def has_news(self) -> bool:
        """Whether a call ended, progressed, or something outside is to be told."""
        return bool(self.run.outbox) or any(e.has_news for e in self.running.values())

    def collect(self) -> bool:
        """Record what ended and what progressed; whether a fatal error ends the batch."""
        run, fatal = self.run, None
        for execution in list(self.running.values()):
            if (progress := execution.take_progress()) is not None:
                summary, payload = progress
                update = ToolExecUpdate(
                    execution.call.id, "progress", summary, plain_json(payload), run_id=run.id
                )
                run.recorder.signal((update,))
            outcome = execution.outcome
            if outcome is None:
                continue
            del self.running[execution.call.id]
            end_execution(run, execution, outcome)
            fatal = fatal or outcome.fatal
        commit_results(run)
        if fatal is not None:
            run.fail(fatal)
        return fatal is not None or bool(run.state.failed)
