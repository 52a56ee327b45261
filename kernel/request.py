"""What the next model call is sent: the view is chosen, rewritten by the host, lowered and announced.

Read with: ``projection.py`` (how), ``model_call.py`` (the caller), ``ports.py`` (``ContextManager``).
"""

from typing import NamedTuple

import msgspec

from .cleaning import clean_request
from .errors import ContinueError, HookError, LogError, ModelError, describe
from .events import ContextCompacted, ModelResponse, Replaced
from .hooks import BeforeModelCall, BeforeRequest, ModelCallInfo
from .messages import AgentMessage, Message, Usage, clean_message
from .ports import CallModel, CallOptions, Compaction, ContextManager, ModelRequest, Projection
from .projection import RequestConfig
from .pull import pull
from .reply import generate
from .run import Run
from .transcript import Transcript

NO_USAGE = Usage()


class Composed(NamedTuple):
    """A request that is announced, or the reply that a hook gave in its place."""

    request: ModelRequest | None
    fingerprint: str = ""
    reply: Message | None = None


async def compose(run: Run, attempt: int) -> Composed | None:
    """Choose what the model sees and announce the call; None where a hook has failed the run."""
    config, hook = run.request, run.config.hooks.before_model_call
    try:
        view = await choose_view(run)
        if hook is not None:
            if run.outbox:
                await pull()  # the hook may take its time
            request = run.projector.draft(run.projector.as_view(view.messages), config)
            given = await _ask(run, hook, request, attempt)
            if isinstance(given, Message):
                return Composed(None, reply=given)
            if given is not None:
                config = RequestConfig(config.system, config.tools, given)
    except HookError as error:
        run.fail(error)
        return None
    return _announce(run, view, config)


async def choose_view(run: Run) -> Projection:
    """What the model sees: as the context manager and then the host want it.

    Raises:
        HookError: ``before_request`` raised.
    """
    chosen, hook = await _choose(run), run.config.hooks.before_request
    if hook is None:
        return chosen
    if run.outbox:
        await pull()  # the hook may take its time
    view = await _rewrite(run, hook, run.projector.as_view(chosen.messages))
    return Projection(messages=view, tokens=chosen.tokens)


async def _rewrite(run: Run, hook: BeforeRequest, view: Transcript[AgentMessage]) -> Transcript[AgentMessage]:
    """The messages of one call as the host wants them; the transcript stays as it is."""
    try:
        lowered = run.projector.lower(view)
        given = list(await run.ask_host(lambda: hook(lowered)))
        known = {id(message) for message in lowered}  # those are clean
        view = run.projector.as_view([m if id(m) in known else clean_message(m) for m in given])
        if not run.projector.sent(view):
            raise ValueError("nothing is left to send")
        return view
    except Exception as error:
        raise HookError("hook: before_request raised", reason=describe(error)) from error


async def _ask(
    run: Run, hook: BeforeModelCall, request: ModelRequest, attempt: int
) -> CallOptions | Message | None:
    info = ModelCallInfo(request, attempt, run.state)
    try:
        given = await run.ask_host(lambda: hook(info))
        if isinstance(given, Message):
            if given.role != "assistant":
                raise ValueError(f"a reply has role assistant, not {given.role!r}")
            return run.recorder.store(given).message
        if not (given is None or isinstance(given, CallOptions)):
            raise TypeError(f"expected CallOptions, a Message or None, got {type(given).__name__}")
    except Exception as error:
        raise HookError("hook: before_model_call raised", reason=describe(error)) from error
    return given


async def _choose(run: Run) -> Projection:
    """The view, by the context manager; the whole transcript where there is none."""
    manager = run.config.context
    if manager is not None:
        caller = _caller(run)
        if run.outbox:
            await pull()  # a strategy may take its time
        try:
            view = run.state.messages
            chosen: Projection = await run.ask_host(lambda: manager.project(view, caller))
            view = run.projector.as_view(chosen.messages)
            rewritten = run.config.hooks.before_request is not None  # then this is not yet what is sent
            lower = run.projector.lower if rewritten else run.projector.sent
            if not lower(view):
                raise ValueError("the view is empty")
            return Projection(messages=view, tokens=chosen.tokens)
        except LogError:
            raise
        except Exception as error:  # noqa: BLE001 (a strategy that fails must not end the run: the whole view is sent)
            run.warn("context", f"projection failed, the whole transcript is sent: {describe(error)}")
    return Projection(messages=run.state.messages)


def _announce(run: Run, projection: Projection, config: RequestConfig) -> Composed | None:
    """Record what the next call sees."""
    request, fact = run.projector.project(run.recorder, config, projection)
    if not request.messages:
        run.fail(ContinueError("nothing in the conversation is for the model"))
        return None
    run.record(fact)
    run.projector.recorded(run.recorder, fact)
    return Composed(request, fact.fingerprint)


async def compact(run: Run, manager: ContextManager, reason: str) -> bool:
    """Have the context manager make the view smaller; whether it did."""
    before = len(run.state.messages)
    try:
        view, caller = run.state.messages, _caller(run)
        compaction: Compaction = await run.ask_host(lambda: manager.compact(view, reason, caller))
        stored = tuple([run.recorder.store(message) for message in compaction.messages])
        replaced = _replaced(run, compaction)
    except Exception as error:  # noqa: BLE001 (the run then fails by the overflow that this should have mended)
        run.warn("context", f"compaction failed: {describe(error)}")
        compaction, stored, replaced = Compaction(changed=False), (), None
    fact = ContextCompacted(
        committed=replaced is not None,
        reason=reason,
        tokens_before=compaction.tokens_before,
        tokens_after=compaction.tokens_after,
        messages_before=before,
        messages_after=before,
        messages=stored,
        replaced=replaced,
    )
    if replaced is not None:
        ids = run.state.ids.since(0)
        gone = ids.index(replaced.last) - ids.index(replaced.first) + 1
        fact = msgspec.structs.replace(fact, messages_after=before - gone + len(stored))
    run.record(fact)
    return compaction.changed


def _replaced(run: Run, compaction: Compaction) -> Replaced | None:
    """The committed range that a compaction stands for; None where it commits nothing.

    Raises:
        ValueError: the transcript has no such range.
    """
    if not (compaction.changed and compaction.commit):
        return None
    ids = run.state.ids.since(0)
    first, last = compaction.first, compaction.last
    if first not in ids or last not in ids or ids.index(first) > ids.index(last):
        raise ValueError(f"a compaction replaces no range of the transcript (first={first!r}, last={last!r})")
    return Replaced(first=first, last=last)


def _caller(run: Run) -> CallModel:
    """What strategies call models through: recorded and priced, never part of the transcript."""

    async def call_model(request: ModelRequest, purpose: str) -> Message:
        if run.recorder.run not in (run, None):
            raise ContinueError("context: the run of this strategy has ended")
        request = clean_request(request)
        run.record(run.projector.aside(run.recorder, request, purpose))
        await run.seen()
        await run.flush()
        started_at = run.clock.monotonic()

        def respond(reply: Message | None, kind: str) -> None:
            if run.recorder.run not in (run, None):
                return  # a strategy that did not stop when the run ended
            run.record(
                ModelResponse(
                    model=run.config.model.name,
                    usage=(reply and reply.usage) or NO_USAGE,
                    stop_reason=(reply and reply.stop_reason) or "",
                    error_kind=kind,
                    total_s=run.clock.monotonic() - started_at,
                    purpose=purpose,
                    reply=reply,
                )
            )

        try:
            reply = await generate(run.config.model, request)
        except ModelError as error:
            respond(None, error.error_kind)
            raise
        respond(reply, "")
        return reply

    return call_model
