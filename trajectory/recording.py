"""A recorded session, looked at from where a replay of it stands.

Everything that came from outside (answers of models, results of tools, messages, aborts, decisions, what
hooks said) is in the facts; a replay asks here what it was, by the number of the fact that comes next.

Read with: ``replay.py``, ``conductor.py``.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeVar

from msgspec.structs import replace

from unspool.kernel.codec import Codec
from unspool.kernel.config import QueueMode
from unspool.kernel.errors import LogError
from unspool.kernel.events import (
    AgentEnd,
    AgentStart,
    ApprovalDecided,
    ApprovalRequested,
    ChildEnded,
    ChildStarted,
    ConfigChanged,
    ContextCompacted,
    ContextProjected,
    Cut,
    ErrorEvent,
    Fact,
    Handoff,
    MessageEnd,
    ModelResponse,
    QueueChanged,
    RetryEvent,
    SessionChanged,
    ToolExecDispatch,
    ToolExecEnd,
    ToolExecStart,
    UnknownFact,
)
from unspool.kernel.json_edge import canonical_bytes
from unspool.kernel.messages import ToolCall
from unspool.kernel.ports import CallOptions, SystemBlock, ToolSpec

from .rebuild import RecordedRequest, requests
from .values import from_blob

F = TypeVar("F", bound=Fact)
T = TypeVar("T")
_STRANGER: Final = Codec()  # knows no application's messages


class Recording:
    """The facts of a session; numbers are those of the facts, from 1."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.facts = list(facts)
        self.blobs: dict[str, Any] = {}
        self.ends: dict[str, ToolExecEnd] = {}
        self.dispatched: dict[str, ToolExecDispatch] = {}
        self.asked: dict[str, ApprovalRequested] = {}
        self.calls_of: dict[str, list[str]] = {}  # tool: its calls
        self.arguments: dict[str, dict[str, Any]] = {}
        self.calls: dict[str, ToolCall] = {}
        self.declined: set[str] = set()
        self.asked_first: set[str] = set()  # calls that a person was asked about before their turn
        self.beside: set[str] = set()  # calls that ran beside others
        self.repeated: set[str] = set()  # calls that ran again after a crash
        self.nested: set[str] = set()  # calls that ran a session of their own, or handed the conversation on
        self._running: set[str] = set()
        self._waiting: set[str] = set()  # calls whose nested session waits for a person
        self._suspended: dict[int, int] = {}  # by the fact that says so: after which one it did
        self._about: dict[str, list[int]] = {}  # by call: what was asked, dispatched, ended
        self._starts: dict[str, ToolExecStart] = {}
        self._cuts: set[int] = set()
        self._edited: dict[str, dict[str, Any]] = {}
        for fact in self.facts:
            self._index(fact)
        self._released = self._release_points()
        self._modes = self._queue_modes()
        self._retries = [fact for fact in self.facts if isinstance(fact, RetryEvent)]

    def _index(self, fact: Fact) -> None:
        self.blobs.update(getattr(fact, "blobs", {}))
        match fact:
            case AgentStart():
                self._running.clear()
            case AgentEnd(cut=Cut(seq=seq)):
                self._cuts.add(seq)
            case ToolExecStart():
                self._starts[fact.call_id] = fact
                self.calls_of.setdefault(fact.tool, []).append(fact.call_id)
                self.arguments[fact.call_id] = fact.args
            case ToolExecEnd():
                self._running.discard(fact.call_id)
                self._waiting.discard(fact.call_id)
                self.ends[fact.call_id] = fact
                self._note(fact.call_id, fact)
            case ToolExecDispatch():
                self._index_dispatch(fact)
            case ApprovalRequested() if fact.nested:
                (call_id,) = fact.call_ids
                self._running.discard(call_id)
                self._waiting.add(call_id)
                self.nested.add(call_id)
                self._note(call_id, fact)
            case ChildStarted() | ChildEnded() | Handoff():
                self.nested.add(fact.call_id)
            case ApprovalRequested():
                for call_id in fact.call_ids:
                    self._note(call_id, fact)
                    self.asked.setdefault(call_id, fact)
                    if call_id not in self._starts:
                        self.asked_first.add(call_id)
            case ApprovalDecided():
                if not fact.approved:
                    self.declined.add(fact.call_id)
                elif fact.args is not None:
                    self._edited[fact.call_id] = fact.args
            case MessageEnd() if fact.message is not None:
                self.calls.update({call.id: call for call in fact.message.tool_calls})

    def _index_dispatch(self, fact: ToolExecDispatch) -> None:
        call_id = fact.call_id
        if call_id in self._waiting:
            self._waiting.discard(call_id)
        elif call_id in self.dispatched:
            self.repeated.add(call_id)
        if self._running:
            self.beside |= {call_id, *self._running}
        self._running.add(call_id)
        self.dispatched[call_id] = fact
        self._note(call_id, fact)

    def _note(self, call_id: str, fact: Fact) -> None:
        self._about.setdefault(call_id, []).append(fact.seq)

    def _release_points(self) -> dict[str, int]:
        """After which fact each call may end, or wait for a nested session. Calls whose ends stand side by side, in
        the order of their starts, may have ended together: they are let go together."""
        order = {
            call_id: n for n, call_id in enumerate(call for calls in self.calls_of.values() for call in calls)
        }
        starts = {fact.call_id: fact.seq for fact in self.facts if isinstance(fact, ToolExecStart)}
        points: dict[str, int] = {}
        point, last = 0, ("", -1)
        for fact in self.facts:
            if isinstance(fact, ToolExecEnd):
                call_id = fact.call_id
            elif isinstance(fact, ApprovalRequested) and fact.nested:
                (call_id,) = fact.call_ids
            else:
                last = ("", -1)
                continue
            began = starts.get(call_id, order.get(call_id, 0))
            if last[1] < 0 or began < last[1]:
                point = fact.seq - 1
            if isinstance(fact, ToolExecEnd):
                points[call_id] = point
            else:
                self._suspended[fact.seq] = point
            last = (call_id, began)
        return points

    def _queue_modes(self) -> dict[str, list[tuple[int, QueueMode]]]:
        """By lane, the facts that show whether queued messages were taken together or one by one."""
        waiting: dict[str, set[str]] = {}
        modes: dict[str, list[tuple[int, QueueMode]]] = {}
        for fact in self.facts:
            if not isinstance(fact, QueueChanged):
                continue
            queue = waiting.setdefault(fact.lane, set())
            if fact.action == "queued":
                queue.update(fact.ids)
                continue
            queue.difference_update(fact.ids)
            if fact.action == "taken" and (queue or len(fact.ids) > 1):
                modes.setdefault(fact.lane, []).append((fact.seq, "one" if queue else "all"))
        return modes

    def queue_mode(self, lane: str, seq: int) -> QueueMode:
        """How queued messages were taken the next time after fact ``seq`` that it can be told."""
        modes = self._modes.get(lane, [])
        index = bisect_right(modes, seq, key=lambda shown: shown[0])
        return modes[index][1] if index < len(modes) else "all"

    def retries(self, seq: int) -> int:
        """How many retries the next model call after fact ``seq`` that failed was allowed."""
        index = bisect_right(self._retries, seq, key=lambda fact: fact.seq)
        return self._retries[index].limit if index < len(self._retries) else 0

    def suspension(self, call_id: str, seq: int) -> tuple[ApprovalRequested, int] | None:
        """What a call that was dispatched by fact ``seq`` came to wait for, and after which fact; None where it ended
        before it did."""
        following = self.next_about(call_id, seq)
        if not isinstance(following, ApprovalRequested) or not following.nested:
            return None
        return following, self._suspended[following.seq]

    def last_own(self, seq: int) -> int:
        """The last fact up to ``seq`` that the run itself recorded."""
        while seq > 0 and is_input(self.facts[seq - 1]):
            seq -= 1
        return seq

    def release_point(self, call_id: str) -> int | None:
        """After which fact a call may end; None where its end is not recorded."""
        return self._released.get(call_id)

    @cached_property
    def nesting(self) -> frozenset[str]:
        """The tools of which a call ran a session of its own, or handed the conversation on."""
        return frozenset(tool for tool, calls in self.calls_of.items() if not self.nested.isdisjoint(calls))

    @cached_property
    def released_together(self) -> dict[int, frozenset[str]]:
        """The calls that may end after each fact."""
        groups: dict[int, set[str]] = {}
        for call_id, point in self._released.items():
            groups.setdefault(point, set()).add(call_id)
        return {point: frozenset(calls) for point, calls in groups.items()}

    def __len__(self) -> int:
        return len(self.facts)

    def at(self, seq: int) -> Fact | None:
        """Fact ``seq``; None after the last one."""
        return self.facts[seq - 1] if 0 < seq <= len(self.facts) else None

    def after(self, seq: int) -> Iterator[Fact]:
        """The facts after number ``seq``."""
        for index in range(seq, len(self.facts)):
            yield self.facts[index]

    def rest_of_run(self, seq: int, run_id: str) -> Iterator[Fact]:
        """The facts of a run after number ``seq``, up to its end or to where it was cut off."""
        for fact in self.after(seq):
            if fact.run_id != run_id or isinstance(fact, AgentStart):
                return
            yield fact

    @property
    def leaves_open(self) -> bool:
        """Whether the moment of something from outside may have been another, next to the one recorded."""
        starts = sum(isinstance(fact, AgentStart) for fact in self.facts)
        ends = sum(isinstance(fact, AgentEnd) for fact in self.facts)
        return (
            starts != ends or bool(self._cuts) or any(fact.run_id and is_input(fact) for fact in self.facts)
        )

    def unended_run(self, seq: int) -> AgentStart | None:
        """The start of the run that fact ``seq`` belongs to, where that has no end."""
        for index in range(min(seq, len(self.facts)) - 1, -1, -1):
            fact = self.facts[index]
            if isinstance(fact, AgentStart):
                return None if self.find(AgentEnd, fact.seq, fact.run_id) else fact
            if isinstance(fact, AgentEnd):
                return None
        return None

    def find(self, kind: type[F], seq: int, run_id: str) -> F | None:
        """The next fact of a kind in a run."""
        return next((fact for fact in self.rest_of_run(seq, run_id) if isinstance(fact, kind)), None)

    def refused_by(self, call_id: str) -> Literal["", "gate", "tool"]:
        """Who refused a call that its schema let pass: a gate, or the tool itself."""
        end, call = self.ends.get(call_id), self.calls.get(call_id)
        if end is None or call is None or call_id in self.dispatched:
            return ""
        if end.outcome == "denied":
            return "" if call_id in self.declined else "gate"
        if end.outcome not in ("invalid", "error") or "issues" in end.details:
            return ""
        return "tool" if call.completed and not call.args_invalid else ""

    def was_looked_at(self, call_id: str) -> bool:
        """Whether somebody looked at a call before it ran: refused it, or took the time in which something else
        came in."""
        started = self._starts.get(call_id)
        if started is None or self.refused_by(call_id):
            return self.refused_by(call_id) != ""
        after, dispatched = self.at(started.seq + 1), self.dispatched.get(call_id)
        if after is None or after.run_id != started.run_id:  # the process died when it had come to its turn
            before = self.at(dispatched.seq - 1) if dispatched is not None else None
            return before is not None and before.run_id != started.run_id and is_input(before)
        return getattr(after, "call_id", "") != call_id or started.seq in self._cuts

    def ended_at_once(self, end: ToolExecEnd) -> bool:
        """Whether a call that was cut off ended before its run took note: its result comes before the ends of
        calls after it."""
        after = self.at(end.seq + 1)
        if not isinstance(after, MessageEnd):
            return False
        for fact in self.rest_of_run(after.seq, end.run_id):
            if isinstance(fact, ToolExecEnd):
                return True
            if isinstance(fact, ModelResponse):
                return False
        return False

    def approved_args(self, call_id: str) -> dict[str, Any] | None:
        """The arguments that a person changed a call's into."""
        return self._edited.get(call_id)

    def needs_approval(self, call_id: str) -> bool:
        """Whether a call's tool says that a person is to be asked about it."""
        call = self.calls.get(call_id)
        return call_id in self.asked_first or (call is not None and call.name in self._asking)

    @cached_property
    def _asking(self) -> frozenset[str]:
        hashes = {fact.toolbox or fact.tools for fact in self.facts if isinstance(fact, AgentStart)}
        hashes |= {fact.toolbox or fact.tools or "" for fact in self.facts if isinstance(fact, ConfigChanged)}
        specs = [spec for key in hashes for spec in self.value(key, tuple[ToolSpec, ...], ())]
        return frozenset(spec.name for spec in specs if spec.needs_approval)

    def value(self, key: str, kind: type[T], default: T) -> T:
        """What is stored under a hash; ``default`` for none, and for one that is not there."""
        return from_blob(self.blobs[key], kind) if key in self.blobs else default

    def options(self, key: str) -> CallOptions:
        return self.value(key, CallOptions, CallOptions())

    def system(self, key: str) -> tuple[SystemBlock, ...]:
        return self.value(key, tuple[SystemBlock, ...], ())

    def specs(self, key: str) -> tuple[ToolSpec, ...]:
        return self.value(key, tuple[ToolSpec, ...], ())

    def takes_no_tools(self, seq: int) -> bool:
        """Whether the model that was set by fact ``seq`` was said to take no tools."""
        following = (
            fact for fact in self.after(seq) if not isinstance(fact, ConfigChanged) and not is_input(fact)
        )
        fact = next(following, None)
        return isinstance(fact, ErrorEvent) and fact.kind == "no_tools"

    @cached_property
    def _by_args(self) -> dict[tuple[str, bytes], tuple[list[float], list[str]]]:
        """By tool and arguments: the calls, and by when all up to this one had ended."""
        found: dict[tuple[str, bytes], tuple[list[float], list[str]]] = {}
        for tool, call_ids in self.calls_of.items():
            for call_id in dict.fromkeys(call_ids):
                dispatch, end = self.dispatched.get(call_id), self.ends.get(call_id)
                ended = end.seq if end is not None else math.inf
                given = (self.arguments[call_id], self._edited.get(call_id), dispatch and dispatch.args)
                for key in {canonical_bytes(args) for args in given if args is not None}:
                    ends, calls = found.setdefault((tool, key), ([], []))
                    ends.append(max(ended, ends[-1]) if ends else ended)
                    calls.append(call_id)
        return found

    def call_with(self, tool: str, args: Any, seq: int) -> str:
        """The call of a tool with these arguments that has not ended by fact ``seq``."""
        ends, calls = self._by_args.get((tool, canonical_bytes(args)), ([], []))
        index = bisect_right(ends, seq)
        return calls[index] if index < len(calls) else ""

    def next_about(self, call_id: str, seq: int) -> Fact | None:
        """What comes next of a call, after its start."""
        seqs = self._about.get(call_id, [])
        index = bisect_right(seqs, seq)
        return self.at(seqs[index]) if index < len(seqs) else None

    def was_waiting(self, end: ToolExecEnd) -> bool:
        """Whether a call that ended had stopped before, to wait for a decision on calls of its nested session."""
        seqs = self._about.get(end.call_id, [])
        index = bisect_left(seqs, end.seq)
        return index > 0 and isinstance(self.at(seqs[index - 1]), ApprovalRequested)

    def traits_of(self, call_id: str, spec: ToolSpec) -> ToolSpec:
        """A tool's spec as it held for one call, as far as the log shows it."""
        started, changes = self._starts.get(call_id), dict[str, Any]()
        if started is not None and started.label != (spec.activity or spec.title):
            changes["activity"] = started.label
        if call_id in self.beside:
            changes["concurrency_safe"] = True
        if call_id in self.repeated:
            changes["idempotent"] = True
        if call_id in self.asked_first:
            changes["needs_approval"] = True
        elif call_id in self.dispatched and call_id not in self.asked:
            changes["needs_approval"] = False
        changed = {name: value for name, value in changes.items() if getattr(spec, name) != value}
        return replace(spec, **changed) if changed else spec

    @cached_property
    def asides(self) -> dict[int, RecordedRequest]:
        """The requests that context strategies made, by the fact that announced them."""
        return {each.seq: each for each in requests(self.facts) if each.purpose != "reply"}


class Known(NamedTuple):
    """The facts of a session whose kinds this version knows, numbered anew, and the numbers they had."""

    facts: list[Fact]
    numbers: list[int]
    last: int  # of all facts

    @classmethod
    def of(cls, facts: Iterable[Fact]) -> "Known":
        """``facts`` are those of a session from its first on.

        Raises:
            LogError: one is missing.
        """
        found, numbers = list[Fact](), list[int]()
        now: dict[int, int] = {}
        for seq, fact in enumerate(facts, 1):
            if fact.seq != seq:
                raise LogError("log: a fact is missing", kind="gap", expected=seq, seq=fact.seq)
            if not isinstance(fact, UnknownFact):
                found.append(fact if len(found) == seq - 1 else _moved(fact, len(found) + 1, now))
                numbers.append(seq)
            now[seq] = len(found)
        return cls(found, numbers, len(now))


def _moved(fact: Fact, seq: int, now: Mapping[int, int]) -> Fact:
    """``fact`` with another number, and with those of the facts that it refers to."""
    match fact:
        case ContextProjected():
            return replace(fact, seq=seq, base=now.get(fact.base, 0))
        case AgentEnd(cut=Cut() as cut):
            return replace(fact, seq=seq, cut=replace(cut, seq=now[cut.seq]))
        case _:
            return replace(fact, seq=seq)


def without_classes(fact: Fact) -> Fact:
    """``fact`` as whoever reads it who does not know the application's messages: they are what was sent of
    them."""
    match fact:
        case MessageEnd(app=None) | QueueChanged(app=None) | AgentStart(history=()):
            return fact
        case ContextCompacted(messages=()) | ContextProjected(append=()):
            return fact
        case MessageEnd() | QueueChanged() | AgentStart() | ContextCompacted() | ContextProjected():
            return _STRANGER.decode(_STRANGER.encode(fact))
        case _:
            return fact


def is_input(fact: Fact) -> bool:
    """Whether a fact was recorded because of the outside, and not by the run itself."""
    match fact:
        case QueueChanged():
            return (fact.lane != "prompt" and fact.action == "queued") or fact.action == "cleared"
        case SessionChanged() | Handoff() | ChildStarted() | ChildEnded():
            return True
        case _:
            return False


def replied(facts: Iterable[Fact], purpose: str) -> Iterator[Fact]:
    """What a model call came to, out of the facts after its announcement: up to its response."""
    for fact in facts:
        yield fact
        if isinstance(fact, ModelResponse) and fact.purpose == purpose and fact.source == "model":
            return


def consecutive(facts: Iterable[Fact], kind: type[F], cause: Sequence[str] = ()) -> list[F]:
    """The facts of a kind with which ``facts`` begins."""
    found: list[F] = []
    for fact in facts:
        if not isinstance(fact, kind) or (cause and getattr(fact, "cause", "") not in cause):
            break
        found.append(fact)
    return found
