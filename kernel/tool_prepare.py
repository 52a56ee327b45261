"""What a call passes between its announcement and its dispatch: validate, preview, gate.

It runs in a task of its own, so that calls under way are still attended to and an abort or a message
reaches it at once. It leaves no effect: the consumer has not seen a dispatch, the log has none.

Read with: ``tool_batch.py`` (the caller), ``hooks.py`` (``Verdict``), ``ports.py`` (``Validates``, ``Previews``).
"""

from inspect import isawaitable
from typing import Any

from .errors import describe
from .events import Ruling, ToolExecUpdate
from .hooks import Gate, Verdict
from .json_edge import clean_text, copy_json, plain_json, plain_object
from .ports import JSON
from .run import Run
from .spawn import Job
from .tool_call import CallContext, Execution
from .tool_check import Refusal, check_arguments, denied


class Preparation:
    """A call on its way to its dispatch; ``done`` when ``refused``, ``asks`` or neither is known.

    Without a ``gate`` only the tool itself looks at it: for a person who is about to decide.
    """

    __slots__ = ("_gate", "_run", "asks", "done", "execution", "job", "looked_at", "refused", "shown")

    def __init__(self, run: Run, execution: Execution, gate: Gate | None) -> None:
        self._run = run
        self._gate = gate
        self.execution = execution
        self.done = False
        self.looked_at = False  # by the batch, after it was done
        self.refused: Refusal | None = None
        self.asks: Verdict | None = None
        self.shown: dict[str, Any] | None = None  # a preview that the generator has not told yet
        self.job: Job | None = None

    def start(self) -> None:
        self.job = self._run.spawn(self._work)

    def cancel(self) -> None:
        """Stop asking: the call will not run."""
        self.execution.cancelled = True  # for what looks at it in a thread
        if self.job is not None:
            self.job.cancel()

    def take_preview(self) -> ToolExecUpdate | None:
        """The preview as a signal, once."""
        shown, self.shown = self.shown, None
        if shown is None:
            return None
        return ToolExecUpdate(self.execution.call.id, "preview", payload=shown, run_id=self._run.id)

    async def _work(self) -> None:
        try:
            await self._prepare()
        except BaseException as error:  # noqa: BLE001 (what cannot be decided is not allowed; no task may end in an exception)
            self.refused = Refusal("denied", denied(self._run.config.texts, describe(error)))
        finally:
            self.done = True
            self._run.wake.set()

    async def _prepare(self) -> None:
        context = CallContext(self._run, self.execution)
        self.refused = await self._validate(context)
        if self.refused is None and self.execution.preview is None:  # a person may have seen it already
            self.refused = await self._preview(context)
        if self.refused is None and self._gate is not None:
            await self._ask_gate(self._gate, context)

    async def _validate(self, context: CallContext) -> Refusal | None:
        validate = self.execution.tool.validate
        if validate is None:
            return None
        try:
            refused = await validate(copy_json(self.execution.args), context)
        except Exception as error:  # noqa: BLE001 (a tool's own check is the tool's code: what it raises is an answer)
            return Refusal("invalid", self._run.config.texts.unchecked.format(problem=describe(error)))
        if refused is None or isinstance(refused, Refusal):  # a replay has the kernel's own answer
            return refused
        details = {} if refused.code is None else {"code": refused.code}
        return Refusal(
            "invalid", clean_text(self._run.config.texts.refused.format(message=refused.message)), details
        )

    async def _preview(self, context: CallContext) -> Refusal | None:
        execution = self.execution
        if execution.tool.preview is None:
            return None
        try:
            given = await execution.tool.preview(copy_json(execution.args), context)
            shown = plain_object(dict(given))
        except Exception as error:  # noqa: BLE001 (as above)
            text = self._run.config.texts.preview_failed
            return Refusal("error", text.format(name=execution.call.name, problem=describe(error)))
        execution.preview = shown
        self.shown = dict(shown)
        self._run.wake.set()
        return None

    async def _ask_gate(self, gate: Gate, context: CallContext) -> None:
        """Take the gate's verdict; what it raises denies."""
        execution, texts = self.execution, self._run.config.texts
        given = gate(execution.use(context))
        verdict = await given if isawaitable(given) else given
        if not isinstance(verdict, Verdict):
            raise TypeError(f"the gate gave no Verdict but a {type(verdict).__name__}")
        execution.ruling = ruling = _ruling(verdict)
        match verdict.decision:
            case "deny":
                self.refused = Refusal("denied", denied(texts, verdict.reason), ruling=ruling)
            case "ask":
                self.asks = None if execution.approved else verdict
            case "allow":
                if verdict.args is not None:
                    await self._rewrite(verdict.args, context)
            case other:
                raise ValueError(f"the gate neither allows, denies nor asks: {other!r}")

    async def _rewrite(self, given: JSON, context: CallContext) -> None:
        """Go on with other arguments; they are checked like those of the model."""
        execution, args = self.execution, plain_json(given)
        if not isinstance(args, dict):
            raise TypeError("the gate gave arguments that are not a JSON object")
        self.refused = check_arguments(execution.tool, args, self._run.config.texts)
        if self.refused is None:
            execution.use_args(args)
            self.refused = await self._validate(context) or await self._preview(context)
        if self.refused is None and execution.spec.needs_approval and not execution.approved:
            self.asks = Verdict.ask()  # with these arguments a person decides, whatever the gate thinks
        if self.refused is not None:
            self.refused = self.refused._replace(ruling=execution.ruling)


def _ruling(verdict: Verdict) -> Ruling | None:
    """What is recorded of a gate's answer besides the answer; None where it says no more.

    Raises:
        TypeError: its details are not a JSON object.
    """
    details = plain_json(verdict.details)
    if not isinstance(details, dict):
        raise TypeError("the gate's details are not a JSON object")
    if not (verdict.by or details or (verdict.reason and verdict.decision == "allow")):
        return None
    return Ruling(by=clean_text(verdict.by), reason=clean_text(verdict.reason), details=details)
