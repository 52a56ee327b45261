"""Replaying a session: the real loop again, with everything from outside as it was recorded.

``replay`` runs a log through the kernel and compares each fact with the recorded one, byte for byte. The
clock, the ids, the delays, the answers of the model, the outcomes of the tools, messages, aborts and
decisions are those of the log; nothing is called and nothing is stored. Given the host's configuration, its
hooks, gate, tools and context manager take part: the first fact that comes out otherwise shows what a change
of theirs does to a session of the past.

Read with: ``conductor.py`` (when things happen), ``recording.py`` (what happened), ``replay_host.py``.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Literal, cast

import anyio
from msgspec import Struct
from msgspec.structs import replace

from unspool.kernel.abort import Abort, Inbox
from unspool.kernel.codec import Codec
from unspool.kernel.config import AgentContext, LoopConfig, Settings
from unspool.kernel.errors import AgentError, describe
from unspool.kernel.events import (
    AgentEnd,
    AgentStart,
    ApprovalDecided,
    ConfigChanged,
    ContextCompacted,
    Cut,
    ErrorEvent,
    Fact,
    MessageEnd,
    ModelResponse,
    QueueChanged,
    Stored,
    ToolExecEnd,
)
from unspool.kernel.hooks import Hooks
from unspool.kernel.limits import Retry
from unspool.kernel.loop import Beginning, Session, open_stream
from unspool.kernel.messages import Text
from unspool.kernel.ports import ChatModel, Renews, Tool, ToolSpec
from unspool.kernel.projection import Projector
from unspool.kernel.recorder import Recorder
from unspool.kernel.state import AgentState
from unspool.kernel.stream import EventStream
from unspool.kernel.texts import DEFAULT_TEXTS, Texts
from unspool.kernel.toolbox import Toolbox

from .conductor import SETTLE, Conductor, ReplayLog, Stopped
from .differences import Difference
from .recording import Known, Recording, consecutive, is_input, without_classes
from .replay_host import RecordedContext, recorded_hooks, stored_message, verdicts_of
from .replay_parts import (
    BlindTool,
    LiveContext,
    LiveModel,
    LiveTool,
    LookingTool,
    RecordedModel,
    RecordedTool,
    as_recorded,
    live_hooks,
)
from .replay_texts import RecordedTexts
from .sources import Source, facts_from

_TRIES = 12  # without getting further, for what a log leaves open


class Replayed(Struct, frozen=True, kw_only=True):
    """What a replay came to: how many facts came out as recorded, of how many, and the first difference."""

    facts: int
    recorded: int
    difference: Difference | None = None

    @property
    def same(self) -> bool:
        """Whether every fact came out as it was recorded."""
        return self.difference is None


async def replay(
    source: Source,
    settings: Settings | None = None,
    *,
    tools: Literal["recorded", "live"] = "recorded",
    model: ChatModel | Literal["recorded"] = "recorded",
    codec: Codec | None = None,
    patience_s: float = 60.0,
) -> Replayed:
    """Run a recorded session again and say where it first comes out otherwise.

    Without ``settings`` everything is taken from the log, hooks and gate included. With them (``agent.settings``,
    or the configuration and context of an ``agent_loop``) hooks, texts, tools, system prompt, limits and context
    manager are the host's, the same for all runs; their model is not asked, their log, inbox, abort and lineage are
    not used, and a context manager that can be renewed is, for each process of the past. ``tools="live"`` runs
    their tools, too, with the middlewares around them, but not those of which a call ran a nested session or handed
    the conversation on: these give what was recorded, and the log of a nested session is replayed by itself. A
    ``model`` answers in place of the recorded one, in its name and with its window. Code of the host's that does
    nothing for ``patience_s`` seconds hangs.

    What is done at which moment is the log's: prompts, messages that are queued, decisions, aborts. Which of two
    moments next to each other it was, a log leaves open now and then; then a replay tries both, without code of
    the host's, which runs once. Durations, the wording of progress, and what is only for watching are not
    compared.

    Raises:
        LogError: the log cannot be read or is damaged.
        ValueError: live tools without ``settings``.
    """
    if tools == "live" and settings is None:
        raise ValueError("replay: live tools need settings that hold them")
    known = Known.of(facts_from(source))
    recording = Recording(map(without_classes, known.facts))
    config, context = settings if settings is not None else (None, None)
    live = _Live(config, context, tools == "live", None if model == "recorded" else model, patience_s)
    guesses = _Guesses(recording)
    if live.is_blind:
        return _in_numbers_of(known, await _best(recording, guesses))
    if recording.leaves_open:
        await _best(recording, guesses)
    if config is not None:
        recording, codec = Recording(known.facts), codec or config.codec
    return _in_numbers_of(known, await _Performance(recording, live, codec or Codec(), guesses).run())


def _in_numbers_of(known: Known, result: Replayed) -> Replayed:
    """``result`` by the numbers that the facts have in their log, where some are of kinds nobody knows."""
    numbers, last = known.numbers, known.last
    if result.same or last == len(numbers):
        return replace(result, facts=last if result.same else result.facts, recorded=last)
    seq = numbers[result.facts] if result.facts < len(numbers) else last + 1
    difference = result.difference and replace(result.difference, seq=seq)
    return Replayed(facts=seq - 1, recorded=last, difference=difference)


async def _best(recording: Recording, guesses: "_Guesses") -> Replayed:
    """The replay without code of the host's that comes furthest, and the guesses that lead there."""
    best = Replayed(facts=-1, recorded=len(recording))
    left = _TRIES
    while left:
        performance = _Performance(recording, _Live(), Codec(), guesses)
        result = await performance.run()
        left = _TRIES if result.facts > best.facts else left - 1
        if result.facts > best.facts or result.same:
            best = result
        if result.same or not guesses.improve(performance.open_moments, result.facts):
            break
    return best


class _Guesses:
    """What a log leaves open, and a replay tries.

    Something of the outside that the log has between two pulls of the consumer may have come at the first of
    several that have no fact between them, at a later one, or after all of them, when everything waited.
    ``cuts`` say, by the start of a run that has no end, when it was cut short: the process died while the run
    was ending.
    """

    def __init__(self, recording: Recording) -> None:
        self.cuts: dict[int, Cut] = {}
        self._recording = recording
        self._left: dict[int, list[Cut]] = {}
        self._chosen: dict[int, int] = {}  # by moment: 0 as the log has it, 1 the other way, then one by one
        self._passed: Counter[int] = Counter()
        self._tried: set[int] = set()

    def pulls_before(self, moment: int, *, late: bool) -> float:
        """How many pulls of the consumer pass before it comes; endless: not before everything waits."""
        chosen = self._chosen.get(moment, 0)
        return chosen - 1 if chosen > 1 else math.inf if late is (chosen == 0) else 0

    def is_late(self, moment: int) -> bool:
        """Whether something comes when everything waits, although the log has it otherwise."""
        return self._chosen.get(moment) == 1

    def improve(self, moments: Sequence[int], position: int) -> bool:
        """Guess otherwise, after a replay that came to ``position``; False where nothing is left to try."""
        start = self._recording.unended_run(position + 1)
        if start is not None:
            seqs = range(position, max(position - 3, start.seq - 1), -1)
            cuts = [Cut(seq=seq, waiting=waiting) for seq in seqs for waiting in (False, True)]
            left = self._left.setdefault(start.seq, cuts)
            if left:
                self.cuts[start.seq] = left.pop(0)
                return True
            self.cuts.pop(start.seq, None)
        self._passed |= Counter(moments)
        reached = [moment for moment in moments if moment <= position + 1]
        unchosen = [moment for moment in reached if moment not in self._chosen]
        if unchosen:
            self._chosen[unchosen[-1]] = 1
            return True
        for moment in reversed(reached):
            if moment not in self._tried and self._chosen[moment] < self._passed[moment]:
                self._chosen[moment] += 1
                return True
            if moment not in self._tried:
                self._tried.add(moment)
                self._chosen[moment] = 1
        return False


class _Live(Struct, frozen=True):
    """What of a replay is the host's."""

    config: LoopConfig | None = None
    context: AgentContext | None = None
    tools: bool = False
    model: ChatModel | None = None
    patience_s: float = 0.0

    @property
    def is_blind(self) -> bool:
        """Whether nothing is."""
        return self.config is None and self.model is None


class _Performance:
    """One replay, from the first fact on."""

    def __init__(self, recording: Recording, live: _Live, codec: Codec, guesses: _Guesses) -> None:
        self.moments: list[int] = []
        self._beside: set[int] = set()  # moments that may have been the same as those before
        self._recording = recording
        self._live = live
        self._codec = codec
        self._guesses = guesses
        settle = SETTLE if live.is_blind else 5 * SETTLE
        self._conductor = Conductor(recording, codec, settle, live.patience_s)
        self._conductor.stall, self._conductor.stuck = self._stall, self._stuck
        self._log = ReplayLog(self._conductor)
        self._recorder = self._new_recorder(None)
        self._projector = Projector()
        self._abort = Abort()
        self._was_cut = False
        self._gone = ""  # how the consumer left, where it did
        self._scope = anyio.CancelScope()
        self._made: dict[str, list[Tool]] = {}
        self._kinds: dict[str, type[RecordedTool]] = {}
        self._live_context: LiveContext | None = None  # of the process that the session is in

    @property
    def open_moments(self) -> list[int]:
        """The moments that may have been others, as often as they could have come."""
        return sorted([*self.moments, *self._beside.difference(self.moments)], key=abs)

    def _new_recorder(self, state: AgentState | None) -> Recorder:
        session = state.session if state is not None else ""
        clock = self._conductor.clock
        return Recorder(state, log=self._log, clock=clock, codec=self._codec, session=session or "replay")

    async def run(self) -> Replayed:
        conductor = self._conductor
        difference: Difference | None = None
        try:
            while (fact := conductor.next) is not None and difference is None:
                if isinstance(fact, AgentStart):
                    difference = await self._run(fact)
                    if conductor.position < fact.seq:  # not even its start came again
                        difference = difference or self._missing(fact, "the replay's run did not begin")
                elif fact.run_id:
                    difference = self._missing(fact, "the replay's run had ended")
                else:
                    self._recorder.record(replace(fact), fact.time)
                    self._sync(fact)
        except Stopped:
            difference = None
        except (AgentError, ValueError, TypeError, AssertionError) as error:
            difference = Difference(
                seq=conductor.position + 1, what="failed", message=f"the replay raised: {describe(error)}"
            )
        return Replayed(
            facts=conductor.position,
            recorded=len(self._recording),
            difference=conductor.difference or difference,
        )

    def _sync(self, fact: Fact) -> None:
        """Tell the host's context manager that the conversation was replaced, where ``fact`` did that."""
        replaced = isinstance(fact, ContextCompacted) and fact.reason in ("reset", "set_messages")
        imported = isinstance(fact, MessageEnd) and fact.cause == "import"
        if self._live_context is not None and (replaced or imported):
            self._live_context.sync(self._recorder.state.messages)

    def _missing(self, fact: Fact, why: str) -> Difference:
        kind = type(fact).__struct_config__.tag
        return Difference(
            seq=fact.seq, what="missing", message=f"{kind} was recorded, {why}", recorded=str(kind)
        )

    # --- one run --------------------------------------------------------------------------------

    async def _run(self, start: AgentStart) -> Difference | None:
        conductor, recorder = self._conductor, self._recorder
        recorder.session = start.session or recorder.session
        config, context = self._settings(start)
        self._abort, self._gone = config.abort or Abort(), ""
        conductor.cut, self._was_cut = self._cut_of(start), False
        session = Session(recorder, self._projector, Toolbox(context.tools))
        stream = open_stream(session, self._beginning(start), context, config)
        conductor.start()
        try:
            with anyio.CancelScope() as self._scope:
                async with stream:
                    await self._consume(stream)
        except Stopped:
            if conductor.difference is not None or conductor.next is None:
                raise
            self._gone = "crashed"
        finally:
            await conductor.end()
        following = conductor.next
        if self._gone == "stuck" and following is not None:
            return self._missing(following, "the replay waits for something that the log does not tell")
        if self._gone == "crashed":
            self._crash()
        return None

    async def _consume(self, stream: EventStream) -> None:
        """Take the events, and let in what came while the consumer had one."""
        async for _ in stream:
            self._conductor.tick()
            while self._let_in(waiting=False):
                pass
            if self._gone:
                return

    def _crash(self) -> None:
        """The process died here: what goes on is another one, from the facts so far."""
        self._recorder = self._new_recorder(self._recorder.state)
        self._projector = Projector()
        self._live_context = None
        self._conductor.stopped = False

    def _beginning(self, start: AgentStart) -> Beginning:
        prompts: list[Stored] = []
        decided: list[ApprovalDecided] = []
        for fact in self._recording.rest_of_run(start.seq, start.run_id):
            match fact:
                case QueueChanged(lane="prompt", action="queued"):
                    prompts.append(Stored(message=fact.message, app=fact.app))
                case ApprovalDecided() if start.cause == "resume":
                    decided.append(fact)
                case ConfigChanged() | ErrorEvent(kind="no_tools"):
                    continue
                case _:
                    break
        decisions = verdicts_of(decided) if start.cause == "resume" else None
        return Beginning(start.cause, tuple(prompts), decisions)

    # --- what it runs with ----------------------------------------------------------------------

    def _settings(self, start: AgentStart) -> tuple[LoopConfig, AgentContext]:
        live, conductor = self._live, self._conductor
        self._offered, self._toolbox, self._window = start.tools, start.toolbox, start.window
        config = self._live_config(live.config) if live.config else self._recorded_config(start)
        given = live.context or AgentContext(system=self._recording.system(start.system))
        history = [message for each in start.history if (message := stored_message(each)) is not None]
        tools = self._tools(start)
        context = dataclasses.replace(given, tools=tools, messages=history, state=None)
        config = dataclasses.replace(
            config,
            model=self._model(start.model, start.seq),
            log=self._log,
            clock=conductor.clock,
            codec=self._codec,
            inbox=Inbox(),
            abort=Abort(),
            rand=lambda: 0.0,
            agent=start.agent if live.config is None else config.agent,
            lineage=start.lineage,
            refresh=None,
        )
        if live.config is None:
            config = dataclasses.replace(config, refresh=self._refreshed)
        self._current = Settings(config, context)
        return config, context

    def _live_config(self, config: LoopConfig) -> LoopConfig:
        conductor, manager = self._conductor, config.context
        hooks = live_hooks(config.hooks, conductor, tools=self._live.tools)
        if manager is not None and self._live_context is None:
            renewed = manager.renewed() if isinstance(manager, Renews) else manager
            self._live_context = LiveContext(renewed, conductor)
        return dataclasses.replace(config, hooks=hooks, context=self._live_context)

    def _recorded_config(self, start: AgentStart) -> LoopConfig:
        recording = self._recording
        return LoopConfig(
            model=self._model(start.model, start.seq),
            limits=start.limits,
            options=recording.options(start.options),
            retry=Retry(attempts=recording.retries(start.seq), max_s=math.inf, idle_s=None, call_s=None),
            hooks=self._hooks,
            context=self._manager,
            texts=self._texts,
            steering_mode=recording.queue_mode("steering", start.seq),
            follow_up_mode=recording.queue_mode("follow_up", start.seq),
        )

    @cached_property
    def _hooks(self) -> Hooks:
        return recorded_hooks(self._conductor, lambda: self._recorder.state)

    @cached_property
    def _manager(self) -> RecordedContext:
        return RecordedContext(self._conductor, lambda: self._recorder.state)

    @cached_property
    def _texts(self) -> Texts:
        return cast("Texts", RecordedTexts(self._conductor))

    def _model(self, name: str, seq: int) -> ChatModel:
        """The model of that name that was set by fact ``seq``."""
        if self._live.model is not None:
            return LiveModel(self._live.model, self._conductor, name, self._window)
        if self._live.config is not None:
            model = self._live.config.model
            return RecordedModel(self._conductor, model.name, model.supports_tools, self._window)
        return RecordedModel(self._conductor, name, not self._takes_no_tools(seq), self._window)

    def _takes_no_tools(self, seq: int) -> bool:
        held_back = self._recording.specs(self._toolbox) if not self._offered else ()
        return any(not spec.deferred for spec in held_back) or self._recording.takes_no_tools(seq)

    def _tools(self, start: AgentStart) -> Sequence[Tool]:
        context, conductor = self._live.context, self._conductor
        if context is not None:
            if self._live.tools:
                return [LiveTool(tool, conductor) for tool in context.tools]
            return [as_recorded(tool, conductor) for tool in context.tools]
        return self._recorded_tools()

    def _recorded_tools(self) -> list[Tool]:
        """All tools of the run as it stands, those among them that are not offered."""
        key = self._toolbox or self._offered
        if key not in self._made:
            self._made[key] = [self._recorded_tool(spec) for spec in self._recording.specs(key)]
        return self._made[key]

    def _recorded_tool(self, spec: ToolSpec) -> RecordedTool:
        if spec.name not in self._kinds:
            self._kinds[spec.name] = self._kind_of(spec.name)
        recording, calls = self._recording, self._recording.calls_of.get(spec.name, ())
        decides = any(recording.traits_of(call_id, spec) is not spec for call_id in calls)
        return self._kinds[spec.name](self._conductor, spec, decides)

    def _kind_of(self, name: str) -> type[RecordedTool]:
        """What a tool was able to do, as far as its calls show."""
        recording = self._recording
        calls = recording.calls_of.get(name, ())
        asked = [recording.asked[call_id] for call_id in calls if call_id in recording.asked]
        if any(call_id in fact.previews for fact in asked for call_id in calls):
            return LookingTool
        return BlindTool if any(map(recording.was_looked_at, calls)) else RecordedTool

    def _refreshed(self) -> Settings:
        """The settings that the next turn took over, where the log says that they changed."""
        fact, (config, context), recording = self._conductor.next, self._current, self._recording
        if isinstance(fact, ErrorEvent) and fact.kind == "no_tools":
            config = dataclasses.replace(config, model=self._model(config.model.name, fact.seq - 1))
        if isinstance(fact, ConfigChanged):
            self._offered = self._offered if fact.tools is None else fact.tools
            self._toolbox = self._toolbox if fact.toolbox is None else fact.toolbox
            self._window = self._window if fact.window is None else fact.window
            if (fact.model, fact.tools, fact.window) != (None, None, None):
                model = self._model(fact.model or config.model.name, fact.seq)
                config = dataclasses.replace(config, model=model)
            if fact.options is not None:
                config = dataclasses.replace(config, options=recording.options(fact.options))
            if fact.limits is not None:
                config = dataclasses.replace(config, limits=fact.limits)
            if fact.system is not None:
                context = dataclasses.replace(context, system=recording.system(fact.system))
            if fact.tools is not None or fact.toolbox is not None:
                context = dataclasses.replace(context, tools=self._recorded_tools())
            if fact.context is not None:
                config = dataclasses.replace(config)  # so that the manager is asked again what it is
        position = self._conductor.position
        steering, follow_up = (recording.queue_mode(lane, position) for lane in ("steering", "follow_up"))
        if (config.steering_mode, config.follow_up_mode) != (steering, follow_up):
            config = dataclasses.replace(config, steering_mode=steering, follow_up_mode=follow_up)
        if config.retry.attempts != (attempts := recording.retries(position)):
            config = dataclasses.replace(config, retry=replace(config.retry, attempts=attempts))
        self._current = Settings(config, context)
        return self._current

    # --- the outside ----------------------------------------------------------------------------

    def _cut_of(self, start: AgentStart) -> Cut | None:
        """When the run was cut short from outside, and how."""
        recording, run_id = self._recording, start.run_id
        end = recording.find(AgentEnd, start.seq, run_id)
        if end is not None:
            return end.cut
        if start.seq in self._guesses.cuts:
            return self._guesses.cuts[start.seq]
        for fact in recording.rest_of_run(start.seq, run_id):  # the process died, perhaps while the run ended
            if _shows_a_cut(fact):
                return Cut(seq=fact.seq - 1, waiting=True)
        return None

    def _let_in(self, *, waiting: bool) -> bool:
        """Let in what is next, if it comes from outside and at such a moment; whether something was."""
        fact = self._conductor.next
        if fact is None or not is_input(fact) or self._recorder.run is None:
            return self._cut_now(waiting)
        if waiting or self._is_due(fact.seq, late=getattr(fact, "waiting", False)):
            self._input(fact)
            return True
        return False

    def _is_due(self, moment: int, *, late: bool) -> bool:
        """Whether what may come between two pulls of the consumer comes between these two."""
        passed = self.moments.count(moment)
        self.moments.append(moment)
        return passed >= self._guesses.pulls_before(moment, late=late)

    def _input(self, fact: Fact) -> None:
        recorder = self._recorder
        if isinstance(fact, QueueChanged) and fact.action == "queued":
            recorder.queue_stored(fact.lane, Stored(message=fact.message, app=fact.app))
        else:
            recorder.record(replace(fact), fact.time)

    def _cut_now(self, waiting: bool) -> bool:
        cut = self._conductor.cut
        if cut is None or self._conductor.position < cut.seq or self._was_cut:
            return False
        if not waiting and not self._is_due(-cut.seq, late=cut.waiting or self._goes_on(cut)):
            return False
        following = self._conductor.next
        if (
            cut.how == "abort"
            and isinstance(following, ToolExecEnd)
            and self._recording.ended_at_once(following)
        ):
            self._was_cut = True
            self._conductor.last_acts[following.call_id] = partial(self._end, cut)
            self._conductor.allow(following.seq)
        else:
            self._end(cut)
        return True

    def _goes_on(self, cut: Cut) -> bool:
        """Whether a model call or a tool was under way that the cut ended."""
        for fact in self._rest_of(cut):
            match fact:
                case ModelResponse(error_kind="canceled"):
                    return True
                case ToolExecEnd() if not self._recording.was_waiting(fact):
                    text = "".join([block.text for block in fact.content if isinstance(block, Text)])
                    if fact.outcome != "cancelled" or text != DEFAULT_TEXTS.not_started:
                        return True
                case _:
                    continue
        return False

    def _rest_of(self, cut: Cut) -> Iterator[Fact]:
        """The facts of the run after it was cut short."""
        last = self._recording.at(cut.seq)
        return self._recording.rest_of_run(cut.seq, last.run_id if last is not None else "")

    def _end(self, cut: Cut) -> None:
        """Do what cut the run short."""
        self._was_cut = True
        kept, marker = "", None
        for fact in self._rest_of(cut):
            if isinstance(fact, ContextCompacted) and fact.reason == "interrupted":
                heard = [each.message for each in fact.messages if isinstance(each, Stored)]
                kept = "".join([message.text for message in heard if message is not None])
            elif isinstance(fact, MessageEnd) and fact.message is not None:
                if fact.message.stop_reason == "interrupted":
                    kept = fact.message.text
                elif fact.cause == "abort":
                    marker = fact.message.text
        keep = (lambda _: kept) if kept else False
        if cut.how == "abort" or marker is not None:
            self._abort.fire(marker=marker is not None, reason=marker or "", keep=keep)
            self._conductor.ending = True
            self._conductor.wake()
        if cut.how == "left":
            self._leave("left")

    def _leave(self, how: str) -> None:
        self._gone = how
        self._scope.cancel()

    def _stall(self) -> bool:
        """Everything waits: let in what came at such a moment, or see that this is the end of it."""
        conductor, following = self._conductor, self._conductor.next
        also = self._together_with(following)
        if self._interrupts([following, *also]):
            return True
        if self._let_in(waiting=True):
            for fact in also:
                self._input(fact)
            return True
        at_work = conductor.busy > 0  # code of the host's: it may still end by itself, if only by the clock
        if isinstance(following, ToolExecEnd) and conductor.allowed < following.seq and not at_work:
            conductor.allow(self._last_end(following))  # calls that end because the run does
            return True
        run = self._recorder.run
        if (
            following is None
            or isinstance(following, AgentStart)
            or (run is not None and not following.run_id)
        ):
            self._die("crashed")
            return True
        return False

    def _interrupts(self, inputs: Sequence[Fact | None]) -> bool:
        """Whether a call ends at once because of what comes in now: then it lets that in when it ends."""
        given = [fact for fact in inputs if fact is not None and is_input(fact)]
        end = self._conductor.recording.at(given[-1].seq + 1) if given else None
        if not isinstance(end, ToolExecEnd) or end.outcome != "interrupted":
            return False
        if end.call_id in self._conductor.last_acts or not self._recording.ended_at_once(end):
            return False

        def let_in() -> None:
            for fact in given:
                self._input(fact)

        self._conductor.last_acts[end.call_id] = let_in
        self._conductor.allow(end.seq)
        return True

    def _together_with(self, first: Fact | None) -> list[Fact]:
        """What came from outside after ``first``, in the same moment."""
        found: list[Fact] = []
        for fact in self._recording.after(first.seq) if first is not None and is_input(first) else ():
            if is_input(fact) and fact.run_id:
                self._beside.add(fact.seq)
            if not (is_input(fact) and self._guesses.is_late(fact.seq)):
                break
            found.append(fact)
        return found

    def _last_end(self, first: ToolExecEnd) -> int:
        ends = consecutive(self._recording.after(first.seq - 1), ToolExecEnd)
        return ends[-1].seq

    def _stuck(self) -> None:
        self._die("stuck")

    def _die(self, how: str) -> None:
        """Stop the run without a word: nothing more of it was recorded."""
        self._conductor.ending = self._conductor.released = self._conductor.stopped = True
        self._recorder.broken = True
        self._conductor.wake()
        self._leave(how)


def _shows_a_cut(fact: Fact) -> bool:
    """Whether a fact was recorded because its run was cut short."""
    match fact:
        case ModelResponse():
            return fact.error_kind == "canceled"
        case ToolExecEnd():
            return fact.outcome == "cancelled"
        case ContextCompacted():
            return fact.reason == "interrupted"
        case MessageEnd() if fact.message is not None:
            return fact.cause == "abort" or fact.message.stop_reason == "interrupted"
        case _:
            return False
