"""What the next model call is sent: the view is chosen, rewritten by the host, lowered and announced.

Read with: ``projection.py`` (how), ``scope.py`` (whom a manager asks), ``model_call.py`` (the caller),
``ports.py`` (``ContextManager``).
"""

from typing import NamedTuple

import msgspec

from .edits import rewritten
from .errors import ContinueError, HookError, LogError, describe
from .events import ContextCompacted, Replaced, Stored
from .hooks import BeforeModelCall, BeforeRequest, ModelCallInfo
from .messages import AgentMessage, Message, clean_message
from .ports import CallOptions, Compaction, ContextManager, ModelRequest, Projection
from .projection import RequestConfig
from .pull import pull
from .run import Run
from .scope import RunScope
from .transcript import Transcript

_MAX_COMMITS = 4  # rewrites of the transcript before one request


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
    return Projection(messages=view)  # nobody has counted what the hook gave


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
        if run.outbox:
            await pull()  # a strategy may take its time
        try:
            chosen = await _project(run, manager)
            view = run.projector.as_view(chosen.messages)
            rewritten = run.config.hooks.before_request is not None  # then this is not yet what is sent
            lower = run.projector.lower if rewritten else run.projector.sent
            if not lower(view):
                raise ValueError("the view is empty")
            run.projector.check(run.recorder, view)
            return Projection(messages=view, tokens=chosen.tokens)
        except LogError:
            raise
        except Exception as error:  # noqa: BLE001 (a strategy that fails must not end the run: the whole view is sent)
            run.warn("context", f"projection failed, the whole transcript is sent: {describe(error)}")
    return Projection(messages=run.state.messages)


async def _project(run: Run, manager: ContextManager) -> Projection:
    """Ask the manager, and again for each transcript that it has committed, a few times at most."""
    scope = RunScope(run)
    for _ in range(_MAX_COMMITS):
        chosen: Projection = await run.ask_host(lambda: manager.project(run.state.messages, scope))
        rewrite = chosen.compaction
        if rewrite is None or not rewrite.changed:
            return chosen
        run.record(compacted(run, rewrite, rewrite.reason, len(chosen.messages)))
        if not rewrite.commit:
            return chosen
        if run.outbox:
            await pull()
    raise ValueError("it rewrites the transcript again and again")


def _announce(run: Run, projection: Projection, config: RequestConfig) -> Composed | None:
    """Record what the next call sees."""
    request, fact = run.projector.project(run.recorder, config, projection)
    if not request.messages:
        run.fail(ContinueError("nothing in the conversation is for the model"))
        return None
    run.record(fact)
    run.projector.recorded(run.recorder, fact)
    return Composed(request, fact.fingerprint)


async def compact(run: Run, manager: ContextManager, reason: str, instructions: str = "") -> bool:
    """Have the context manager make the view smaller; whether it did."""
    try:
        view, scope = run.state.messages, RunScope(run, instructions)
        rewrite: Compaction = await run.ask_host(lambda: manager.compact(view, reason, scope))
        fact = compacted(run, rewrite, reason, len(view))
    except LogError:
        raise
    except Exception as error:  # noqa: BLE001 (the run then fails by the overflow that this should have mended)
        run.warn("context", f"compaction failed: {describe(error)}")
        rewrite = Compaction(changed=False)
        fact = compacted(run, rewrite, reason, len(run.state.messages))
    run.record(fact)
    return rewrite.changed


def compacted(run: Run, rewrite: Compaction, reason: str, projected: int) -> ContextCompacted:
    """The fact that says what a rewrite did; ``projected`` is how many messages are shown after it.

    Raises:
        ValueError: the edits do not fit the transcript, or nothing would be left.
        CodecError: a new message cannot be stored.
    """
    before = len(run.state.messages)
    edits = list(rewrite.edits) if rewrite.changed else []
    left = len(rewritten(run.state.messages, rewrite))
    fact = ContextCompacted(
        reason=reason,
        tokens_before=rewrite.tokens_before,
        tokens_after=rewrite.tokens_after,
        messages_before=before,
        messages_after=projected if rewrite.shown is None else rewrite.shown,
        steps=rewrite.steps,
    )
    if not edits:
        return fact
    ids = run.state.ids
    if not rewrite.commit:
        covered = [Replaced(first=ids[e.start], last=ids[e.stop - 1]) for e in edits if e.stop > e.start]
        return msgspec.structs.replace(fact, covered=tuple(covered))
    first, stop = edits[0].start, edits[-1].stop
    if first == stop:  # something is put in between: a neighbour says where
        first, stop = (first - 1, stop) if first else (first, stop + 1)
    messages: list[str | Stored] = []
    at = first
    for edit in edits:
        messages += ids[at : edit.start]
        messages += [run.recorder.store(message) for message in edit.messages]
        at = edit.stop
    messages += ids[at:stop]
    return msgspec.structs.replace(
        fact,
        committed=True,
        messages_after=left,
        messages=tuple(messages),
        replaced=Replaced(first=ids[first], last=ids[stop - 1]),
    )
