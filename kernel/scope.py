"""What a context manager is given: the request to come, the model to ask, the record to speak to.

Read with: ``request.py`` (the caller), ``ports.py`` (``ContextScope``), ``model_call.py`` (replies of a run).
"""

from typing import Any

from anyio import CancelScope

from .cleaning import clean_request
from .errors import ContinueError, ModelTimeoutError, error_kind
from .events import ContextCompacting, ModelResponse
from .messages import NO_USAGE, Message
from .ports import CallOptions, ChatModel, ModelRequest, SystemBlock, ToolSpec, window_of
from .reply import generate
from .run import Run


class RunScope:
    """The scope of one projection or compaction of a run."""

    __slots__ = ("_run", "instructions")

    def __init__(self, run: Run, instructions: str = "") -> None:
        self._run = run
        self.instructions = instructions

    @property
    def _has_ended(self) -> bool:
        return self._run.over or self._run.recorder.run not in (self._run, None)

    @property
    def model(self) -> ChatModel:
        return self._run.config.model

    @property
    def window(self) -> int:
        return window_of(self._run.config.model)

    @property
    def system(self) -> tuple[SystemBlock, ...]:
        return self._run.request.system

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self._run.request.tools

    @property
    def options(self) -> CallOptions:
        return self._run.request.options

    @property
    def sent_as_shown(self) -> bool:
        return self._run.config.hooks.before_request is None

    def announce(self, reason: str, plan: str = "", /) -> None:
        """Record that a rewrite begins."""
        self._check()
        self._run.record(ContextCompacting(reason, plan))

    def warn(self, message: str, /, **details: Any) -> None:
        """Record what went wrong; the run goes on."""
        self._check()
        self._run.warn("context_strategy", message, **details)

    async def call_model(
        self, request: ModelRequest, purpose: str, /, *, model: ChatModel | None = None
    ) -> Message:
        """Ask a model: announced and seen before, recorded and priced after, whatever comes of it."""
        run, asked = self._run, model or self._run.config.model
        self._check()
        request = clean_request(request)
        run.record(run.projector.aside(run.recorder, request, purpose))
        await run.seen()
        await run.flush()
        started_at = run.clock.monotonic()

        def respond(reply: Message | None, kind: str) -> None:
            if self._has_ended:
                return  # a strategy that did not stop when the run ended
            run.record(
                ModelResponse(
                    model=asked.name,
                    usage=(reply and reply.usage) or NO_USAGE,
                    stop_reason=(reply and reply.stop_reason) or "",
                    error_kind=kind,
                    total_s=run.clock.monotonic() - started_at,
                    purpose=purpose,
                    reply=reply,
                )
            )

        try:
            reply = await self._generate(asked, request)
        except Exception as error:
            respond(None, error_kind(error))
            raise
        respond(reply, "")
        return reply

    async def _generate(self, model: ChatModel, request: ModelRequest) -> Message:
        limit_s = self._run.config.retry.call_s
        if limit_s is None:
            return await generate(model, request)
        with CancelScope() as scope:
            cancel = self._run.clock.call_later(limit_s, scope.cancel)
            try:
                return await generate(model, request)
            finally:
                cancel()
        raise ModelTimeoutError("model: the call took too long", limit_s=limit_s)

    def _check(self) -> None:
        if self._has_ended:
            raise ContinueError("context: the run of this strategy has ended")
