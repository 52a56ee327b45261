"""The host of a replay that has no code of the host's: its hooks, its gate, its context manager, its people.

What each of them said is told by the fact that comes next.

Read with: ``conductor.py``, ``replay.py``, ``unspool.kernel.hooks``.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from unspool.kernel.codec import transcript_entry
from unspool.kernel.errors import ModelError, is_context_overflow
from unspool.kernel.events import (
    AgentStart,
    ApprovalDecided,
    ApprovalRequested,
    ConfigChanged,
    ContextCompacted,
    ContextCompacting,
    ContextProjected,
    ErrorEvent,
    Fact,
    MessageEnd,
    ModelResponse,
    RetryEvent,
    Stored,
    ToolExecDispatch,
    ToolExecEnd,
)
from unspool.kernel.hooks import (
    ApprovalInfo,
    Hooks,
    MaybeAwaitable,
    ModelCallInfo,
    StopInfo,
    StopVerdict,
    ToolUse,
    TurnInfo,
    Verdict,
)
from unspool.kernel.messages import AgentMessage, Message, ToolCall
from unspool.kernel.ports import (
    CallOptions,
    Compaction,
    ContextScope,
    ContextSnapshot,
    ContextUsage,
    Edit,
    Projection,
)
from unspool.kernel.state import AgentState
from unspool.kernel.transcript import Transcript

from .conductor import Conductor
from .recording import Recording, consecutive, is_input

T = TypeVar("T")


class HostError(Exception):
    """What a hook of the past raised; it says what that said."""


def recorded_hooks(conductor: Conductor, state: Callable[[], AgentState]) -> Hooks:
    """Hooks that do what those of the recording did, where it shows that there were any."""
    recording, host = conductor.recording, _Host(conductor, state)
    hooks: dict[str, Any] = {
        "before_turn": host.before_turn,
        "after_turn": host.after_turn,
        "after_model_call": host.after_model_call,
        "stop_guard": host.stop_guard,
        "before_stop": host.before_stop,
        "stop_after_tool": host.stop_after_tool,
    }
    if _replied(recording) or _options_vary(recording) or _raised(recording, "before_model_call"):
        hooks["before_model_call"] = host.before_model_call
    if any(_is_gated(recording, fact) for fact in recording.facts):
        hooks["gate"] = host.gate
    if any(isinstance(fact, ApprovalRequested) for fact in recording.facts):
        hooks["approve"] = host.approve
    if any(isinstance(fact, MessageEnd) and _is_made(fact) for fact in recording.facts) or _raised(
        recording, "tool_result_message"
    ):
        hooks["tool_result_message"] = host.tool_result_message
    if _raised(recording, "before_request"):
        hooks["before_request"] = host.before_request
    return Hooks(**hooks)


def _replied(recording: Recording) -> bool:
    """Whether a hook gave a reply: one that no request was announced for."""
    announced = False
    for fact in recording.facts:
        match fact:
            case ContextProjected(purpose=""):
                announced = True
            case AgentStart() | ModelResponse(purpose="reply"):
                announced = False
            case MessageEnd() if _is_a_reply(fact) and not announced:
                return True
            case _:
                continue
    return False


def _options_vary(recording: Recording) -> bool:
    """Whether a model call had other options than its run."""
    options = ""
    for fact in recording.facts:
        if isinstance(fact, ContextProjected) and not fact.purpose and fact.options != options:
            return True
        options = getattr(fact, "options", None) or options
    return False


def _raised(recording: Recording, hook: str) -> bool:
    return any(isinstance(fact, ErrorEvent) and f"{hook} raised" in fact.message for fact in recording.facts)


def _is_gated(recording: Recording, fact: Fact) -> bool:
    """Whether a fact shows that a gate had its say."""
    match fact:
        case ApprovalRequested(nested=()):
            ruled = bool(fact.reason) or fact.ruling is not None
            return ruled or not all(map(recording.needs_approval, fact.call_ids))
        case ToolExecEnd():
            return recording.refused_by(fact.call_id) == "gate"
        case ToolExecDispatch():
            changed = fact.args is not None and fact.args != recording.approved_args(fact.call_id)
            return changed or fact.ruling is not None
        case _:
            return False


def _is_made(fact: MessageEnd) -> bool:
    """Whether a tool's result has another message than the plain one."""
    message = fact.message
    if message is None or message.role != "tool":
        return False
    return bool(fact.app is not None or message.content or message.metadata)


class _Host:
    """What the host did, read off the facts that come next."""

    def __init__(self, conductor: Conductor, state: Callable[[], AgentState]) -> None:
        self._conductor = conductor
        self._recording = conductor.recording
        self._state = state

    def _rest(self) -> list[Fact]:
        """The facts that follow, as far as they matter to a hook."""
        position = self._conductor.position
        return [fact for fact, _ in zip(self._recording.after(position), range(64), strict=False)]

    def _check(self, hook: str) -> None:
        """Raise what a hook raised, where that comes next."""
        following = self._conductor.next
        if isinstance(following, ErrorEvent) and following.message.startswith(f"hook: {hook} raised"):
            raise HostError(following.details.get("reason", ""))

    def _asked(self, hook: str, answer: Callable[[], T], *effects: type[Fact]) -> T | Awaitable[T]:
        """What a hook said, once everything is there that came while it was asked.

        In a run that was cut short already only a plain function still has ``effects``: it answers at once.
        """
        if self._was_cut and isinstance(self._conductor.next, (*effects, ErrorEvent)):
            self._check(hook)
            return answer()
        return self._later(hook, answer)

    async def _later(self, hook: str, answer: Callable[[], T]) -> T:
        await self._conductor.settle()
        self._check(hook)
        return answer()

    @property
    def _was_cut(self) -> bool:
        cut = self._conductor.cut
        return cut is not None and cut.seq == self._conductor.position

    def _watch(self, hook: str) -> Awaitable[None] | None:
        """The same for a hook that gives no answer: it waits for nothing, unless it is to raise."""
        following = next((fact for fact in self._rest() if not is_input(fact)), None)
        if isinstance(following, ErrorEvent) and following.message.startswith(f"hook: {hook} raised"):
            return self._asked(hook, _nothing)
        if self._was_cut and isinstance(following, ErrorEvent | RetryEvent):
            return None
        return _at_once()

    def before_turn(self, info: TurnInfo) -> MaybeAwaitable[list[AgentMessage]]:
        return self._asked("before_turn", self._reminders, MessageEnd)

    def _reminders(self) -> list[AgentMessage]:
        given = consecutive(self._rest(), MessageEnd, ("before_turn",))
        return [message for fact in given if (message := _message_of(fact)) is not None]

    def after_turn(self, info: TurnInfo) -> MaybeAwaitable[None]:
        return self._watch("after_turn")

    def after_model_call(self, info: Any) -> MaybeAwaitable[None]:
        return self._watch("after_model_call")

    def before_model_call(self, info: ModelCallInfo) -> MaybeAwaitable[CallOptions | Message | None]:
        def answer() -> CallOptions | Message | None:
            following = self._conductor.next
            if isinstance(following, ContextProjected):
                options = self._recording.options(following.options)
                return options if options != info.request.options else None
            if isinstance(following, MessageEnd) and _is_a_reply(following):
                return following.message
            return None

        return self._asked("before_model_call", answer, ContextProjected, MessageEnd)

    def before_request(self, messages: Sequence[Message]) -> MaybeAwaitable[Sequence[Message]]:
        def answer() -> Sequence[Message]:
            following, state = self._conductor.next, self._state()
            if not isinstance(following, ContextProjected):
                return messages
            given = {message.id: message for message in messages if message.id}
            view = view_of(following, state)
            found = [given.get(each) if isinstance(each, str) else each.message for each in view]
            return [message for message in found if message is not None]

        return self._asked("before_request", answer, ContextProjected)

    async def gate(self, use: ToolUse) -> Verdict:
        await self._conductor.settle()
        following = self._recording.next_about(use.call.id, self._conductor.position)
        match following:
            case ApprovalRequested(ruling=ruling):
                verdict = Verdict.ask(following.reason)
            case ToolExecDispatch(ruling=ruling):
                changed = following.args != self._recording.approved_args(use.call.id)
                verdict = Verdict.allow(following.args if changed else None)
            case _:
                return Verdict.allow()
        if ruling is None:
            return verdict
        return replace(verdict, by=ruling.by, reason=verdict.reason or ruling.reason, details=ruling.details)

    def approve(self, info: ApprovalInfo) -> MaybeAwaitable[Mapping[str, Verdict] | None]:
        def answer() -> Mapping[str, Verdict] | None:
            return verdicts_of(consecutive(self._rest(), ApprovalDecided)) or None

        return self._asked("approve", answer, ApprovalDecided)

    def stop_after_tool(self, end: ToolExecEnd) -> bool:
        following = self._conductor.next
        after = self._recording.at(self._conductor.position + 2)
        if isinstance(after, ErrorEvent) and after.message.startswith("hook: stop_after_tool raised"):
            raise HostError(after.details.get("reason", ""))
        return isinstance(following, ToolExecEnd) and following.terminal

    def tool_result_message(self, call: ToolCall, plain: Message) -> AgentMessage | None:
        following = self._conductor.next
        after = self._recording.at(self._conductor.position + 2)
        if isinstance(after, ErrorEvent) and after.message.startswith("hook: tool_result_message raised"):
            raise HostError(after.details.get("reason", ""))
        if isinstance(following, MessageEnd) and _is_made(following):
            return _message_of(following)
        return None

    def stop_guard(self, info: StopInfo) -> MaybeAwaitable[StopVerdict]:
        return self._asked("stop_guard", self._verdict, MessageEnd)

    def _verdict(self) -> StopVerdict:
        following = self._conductor.next
        if isinstance(following, ErrorEvent) and following.kind == "stop_guard":
            return StopVerdict("fail", following.message)
        if isinstance(following, MessageEnd) and following.cause == "stop_guard" and following.message:
            return StopVerdict("go_on", following.message.text)
        return StopVerdict("stop")

    async def before_stop(self, info: StopInfo) -> None:
        await self._later("before_stop", _nothing)
        if isinstance(self._conductor.next, ContextCompacted):
            await self._conductor.forever()  # an abort cuts it short, and the reply


def _nothing() -> None:
    """There is no answer."""


async def _at_once() -> None:
    """Nothing is waited for."""


def _is_a_reply(fact: MessageEnd) -> bool:
    message = fact.message
    return message is not None and message.role == "assistant" and not (fact.cause or fact.queue_id)


def view_of(fact: ContextProjected, state: AgentState) -> list[str | Stored]:
    """The view that a projection is about to make."""
    base = state.projection
    kept = base.view.since(0)[: fact.keep] if base is not None and base.seq == fact.base else []
    return [*kept, *fact.append]


def verdicts_of(decided: Sequence[ApprovalDecided]) -> dict[str, Verdict]:
    """Recorded decisions as a person gave them."""
    return {
        fact.call_id: Verdict(
            decision="allow" if fact.approved else "deny",
            args=fact.args,
            reason=fact.reason,
            by=fact.by,
            details=fact.details,
        )
        for fact in decided
    }


def _message_of(fact: MessageEnd) -> AgentMessage | None:
    return stored_message(Stored(message=fact.message, app=fact.app))


def stored_message(stored: Stored) -> AgentMessage | None:
    """A stored message as a host would give it."""
    message: AgentMessage | None = transcript_entry(stored.message, stored.app)
    return message


class RecordedContext:
    """A context manager that shows the model what it was shown, and makes smaller what was made smaller.

    Where there was none, it shows the whole conversation, or what a hook made of it, and is asked nothing else.
    """

    def __init__(self, conductor: Conductor, state: Callable[[], AgentState]) -> None:
        self._conductor = conductor
        self._state = state
        self._whole: tuple[int, Transcript[str]] = (0, Transcript())  # a projection that showed everything
        self._known: Transcript[str] = Transcript()
        self._messages: dict[str, AgentMessage] = {}

    def describe(self) -> Mapping[str, Any]:
        """What the recorded manager said of itself."""
        match self._conductor.next:
            case AgentStart() as fact:
                return fact.context
            case ConfigChanged(context=dict() as said):
                return said
            case _:
                return self._state().context

    async def project(self, view: Sequence[AgentMessage], scope: ContextScope, /) -> Projection:
        """The recorded view."""
        await self._do_again(scope)
        following = self._conductor.next
        if isinstance(following, ErrorEvent) and following.kind == "context" and not following.fatal:
            raise HostError(following.message.partition("is sent: ")[2])
        rewrite = None
        if isinstance(following, ContextCompacted) and following.reason != "interrupted":
            rewrite = self._rewrite(following, changed=True)
            if rewrite.commit:
                return Projection(messages=view, compaction=rewrite)
            following = self._after(following)
        if not isinstance(following, ContextProjected):  # a hook's reply, or the process died here
            return Projection(messages=view, compaction=rewrite)
        state = self._state()
        if self._shows_all(following, state):
            return Projection(messages=view, tokens=following.tokens, compaction=rewrite)
        known = self._by_id(state)
        references = view_of(following, state)
        messages = [known.get(each) if isinstance(each, str) else stored_message(each) for each in references]
        return Projection(
            messages=[each for each in messages if each is not None],
            tokens=following.tokens,
            compaction=rewrite,
        )

    def _shows_all(self, fact: ContextProjected, state: AgentState) -> bool:
        """Whether a projection shows the whole conversation; costs what is new in it."""
        seq, shown = self._whole
        ids, kept = state.ids, 0
        if seq and fact.base == seq and fact.keep == len(shown) and ids.extends(shown):
            kept = len(shown)
        elif fact.keep:
            kept = fact.keep if view_of(fact, state)[: fact.keep] == ids.since(0)[: fact.keep] else -1
        if kept < 0 or len(ids) - kept != len(fact.append) or ids.since(kept) != list(fact.append):
            return False
        self._whole = (fact.seq, ids)
        return True

    def _by_id(self, state: AgentState) -> Mapping[str, AgentMessage]:
        """All messages so far by id, those among them that a rewrite has replaced."""
        if not state.ids.extends(self._known):
            self._known = Transcript()
        start = len(self._known)
        self._messages.update(zip(state.ids.since(start), state.messages.since(start), strict=True))
        self._known = state.ids
        return self._messages

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope, /) -> Compaction:
        """The recorded compaction."""
        await self._do_again(scope)
        following = self._conductor.next
        if isinstance(following, ErrorEvent) and following.kind == "context":
            raise HostError(following.message.partition("compaction failed: ")[2])
        if not isinstance(following, ContextCompacted):
            return Compaction(changed=False)
        after = self._after(following)
        failed = isinstance(after, RetryEvent) or (
            isinstance(after, ErrorEvent) and is_context_overflow(after.kind)
        )
        return self._rewrite(following, changed=not failed)

    def _after(self, fact: Fact) -> Fact | None:
        """What the run itself recorded after a fact; None where it went no further."""
        rest = self._conductor.recording.rest_of_run(fact.seq, fact.run_id)
        return next((fact for fact in rest if not is_input(fact)), None)

    def _rewrite(self, fact: ContextCompacted, *, changed: bool) -> Compaction:
        """What a manager must have given for a fact to say what it says."""
        ids = self._state().ids.since(0)
        if fact.committed:
            edits = _edits(fact, ids)
        else:
            edits = [Edit(start=ids.index(c.first), stop=ids.index(c.last) + 1) for c in fact.covered]
        return Compaction(
            changed=changed,
            commit=fact.committed,
            edits=edits,
            reason=fact.reason,
            steps=fact.steps,
            tokens_before=fact.tokens_before,
            tokens_after=fact.tokens_after,
            shown=fact.messages_after,
        )

    async def _do_again(self, scope: ContextScope) -> None:
        """Say what a manager said, and make the calls that its strategies made."""
        while True:
            await self._conductor.settle()
            match self._conductor.next:
                case ContextCompacting() as fact:
                    scope.announce(fact.reason, fact.plan)
                case ErrorEvent(kind="context_strategy", fatal=False) as fact:
                    scope.warn(fact.message, **fact.details)
                case ContextProjected() as fact if fact.purpose:
                    await self._call(fact, scope)
                case _:
                    return

    async def _call(self, fact: ContextProjected, scope: ContextScope) -> None:
        request = self._conductor.recording.asides[fact.seq].request
        try:
            await scope.call_model(replace(request, messages=self._sent(fact)), fact.purpose)
        except ModelError:
            return  # what the strategy made of it comes next

    def _sent(self, fact: ContextProjected) -> list[Message]:
        """The messages of a strategy's call; those of the conversation are the very same."""
        state = self._state()
        known = self._by_id(state)
        messages = [
            known.get(each) if isinstance(each, str) else each.message for each in view_of(fact, state)
        ]
        return [message for message in messages if isinstance(message, Message)]

    def sync(self, view: Sequence[AgentMessage], /) -> None:
        """Nothing to remember."""

    def usage(self) -> ContextUsage | None:
        return None

    def snapshot(self) -> ContextSnapshot | None:
        return None


def _edits(fact: ContextCompacted, ids: Sequence[str]) -> list[Edit]:
    """The edits that a committed rewrite was made of: what is new between those that stay."""
    assert fact.replaced is not None
    at, stop = ids.index(fact.replaced.first), ids.index(fact.replaced.last) + 1
    edits: list[Edit] = []
    new: list[AgentMessage] = []

    def close(index: int) -> None:
        if new or index > at:
            edits.append(Edit(start=at, stop=index, messages=tuple(new)))
            new.clear()

    for each in fact.messages:
        if isinstance(each, str):
            kept = ids.index(each, at)
            close(kept)
            at = kept + 1
        elif (message := stored_message(each)) is not None:
            new.append(message)
    close(stop)
    return edits
