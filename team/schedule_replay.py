"""Replaying a whole team: every session to its recorded facts, and every letter against the log of its sender.

Read with: ``schedule.py``, ``unspool.trajectory.replay`` (one session), ``team_tools.py`` (how letters are made).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from msgspec import Struct

from unspool.kernel.events import Fact, MessageEnd, QueueChanged, ToolExecDispatch, ToolExecStart
from unspool.kernel.messages import Message
from unspool.trajectory.replay import Replayed, replay
from unspool.trajectory.sources import facts_from

from .ids import call_letter_id, notice_id
from .kinds import BROADCAST, HOST, IDLE, MESSAGE, SHUTDOWN_APPROVED, SHUTDOWN_REJECTED, SHUTDOWN_REQUEST
from .letters import Letter
from .schedule import Schedule, schedule
from .texts import FormatLetter, about_letter, letter_text

_TOOLS: Final = {
    MESSAGE: "send_message",
    BROADCAST: "send_message",
    SHUTDOWN_REQUEST: "stop_member",
    SHUTDOWN_APPROVED: "answer_shutdown",
    SHUTDOWN_REJECTED: "answer_shutdown",
}
_TEXTS: Final = {"send_message": "text", "stop_member": "reason", "answer_shutdown": "reason"}
"""Which argument of a tool is the text of its letter."""
_NO_REASON: Final = "Please stop."  # what ``shutdown_request`` says then


class LetterDifference(Struct, frozen=True, kw_only=True):
    """A letter in fact ``seq`` of ``session`` that is not what the log of its sender says."""

    session: str
    seq: int
    letter: str
    message: str

    def __str__(self) -> str:
        return f"fact {self.seq} of {self.session}: letter {self.letter!r}: {self.message}"


@dataclass(frozen=True, slots=True)
class ReplayedTeam:
    """What replaying a team came to.

    ``sessions`` says how each was replayed. ``letters`` counts those that were compared, ``differences`` are those
    that were not as their senders' logs say. ``schedule`` is the order of all facts, with its problems.
    """

    sessions: Mapping[str, Replayed]
    letters: int
    differences: Sequence[LetterDifference]
    schedule: Schedule

    @property
    def same(self) -> bool:
        """Whether everything came out as it was recorded, and in an order that can be."""
        replayed = all(each.same for each in self.sessions.values())
        return replayed and not self.differences and not self.schedule.problems


async def replay_schedule(
    sessions: Mapping[str, Iterable[Fact]], *, format_letter: FormatLetter = letter_text
) -> ReplayedTeam:
    """Replay the sessions of a team, each with the letters that it got as inputs, and compare each letter with the
    log of its sender: its id, and its text with the arguments of the call that sent it, or with the answer that it
    tells. ``format_letter`` is the team's. Letters of the host are inputs from outside, and not compared.

    Raises:
        LogError: facts of a session are missing or out of order.
    """
    logs = {session: list(facts_from(facts)) for session, facts in sorted(sessions.items())}
    replayed = {session: await replay(facts) for session, facts in logs.items()}
    senders = {session: _Sender(session, facts) for session, facts in logs.items()}
    compared = 0
    differences: list[LetterDifference] = []
    for session, facts in logs.items():
        seen: set[str] = set()
        for fact, message, about in _letters(facts):
            compared += 1
            problems = list(_problems(message, about, senders, format_letter))
            if about["id"] in seen:
                problems.append("it came before")
            seen.add(about["id"])
            differences += [
                LetterDifference(session=session, seq=fact.seq, letter=about["id"], message=problem)
                for problem in problems
            ]
    return ReplayedTeam(replayed, compared, differences, schedule(logs))


def _letters(facts: Iterable[Fact]) -> Iterator[tuple[QueueChanged, Message, dict[str, Any]]]:
    """The letters of members that a session got."""
    for fact in facts:
        if isinstance(fact, QueueChanged) and fact.action == "queued" and fact.message is not None:
            about = about_letter(fact.message)
            if about and about["sender"] != HOST and (about["kind"] in _TOOLS or "cause" in about):
                yield fact, fact.message, about


def _problems(
    message: Message, about: Mapping[str, Any], senders: Mapping[str, "_Sender"], format_letter: FormatLetter
) -> Iterator[str]:
    """What is wrong with a letter, in words."""
    cause = about.get("cause")
    if cause is None:
        yield "it does not say which fact it followed"
        return
    seq, call_id = int(cause["seq"]), str(cause.get("call_id", ""))
    sender = senders.get(str(cause["session"]))
    if sender is None or sender.last < seq:
        return  # the schedule says so
    kind, id = str(about["kind"]), str(about["id"])
    if call_id:
        yield from _problems_of_call(message, about, sender, seq, call_id, format_letter)
    elif kind in _TOOLS:
        yield "it does not say which call sent it"
    elif not id.startswith(notice_id(sender.session, kind, "")):
        yield f"its id is none of session {sender.session}"
    elif kind == IDLE and message.text != format_letter(_letter(about, sender.answer(seq))):
        yield "its text is not the last answer of its sender"


def _problems_of_call(
    message: Message,
    about: Mapping[str, Any],
    sender: "_Sender",
    seq: int,
    call_id: str,
    format_letter: FormatLetter,
) -> Iterator[str]:
    call = sender.call(call_id, seq)
    if call is None:
        yield f"no call {call_id!r} was dispatched in session {sender.session}"
        return
    kind = str(about["kind"])
    if not _is_id_of(about, sender.session, call_id):
        yield f"its id is not that of call {call_id!r} of session {sender.session}"
    if call.tool != _TOOLS.get(kind, call.tool):
        yield f"it is of kind {kind!r}, and the call was one of {call.tool!r}"
    elif call.tool in _TEXTS:
        text = str(call.args.get(_TEXTS[call.tool], ""))
        if kind == SHUTDOWN_REQUEST:
            text = text or _NO_REASON
        if message.text != format_letter(_letter(about, text, str(call.args.get("summary", "")))):
            yield f"its text is not what call {call_id!r} was given"


def _is_id_of(about: Mapping[str, Any], session: str, call_id: str) -> bool:
    kind, id = str(about["kind"]), str(about["id"])
    if kind in (SHUTDOWN_APPROVED, SHUTDOWN_REJECTED):
        return id == notice_id(str(about.get("reply_to", "")), kind, call_id)
    return id.startswith(call_letter_id(session, call_id, ""))


def _letter(about: Mapping[str, Any], text: str, summary: str = "") -> Letter:
    """A letter as its sender's log has it; who it went to is not part of its text."""
    return Letter(
        id=str(about["id"]),
        sender=str(about["sender"]),
        to="",
        text=text,
        kind=str(about["kind"]),
        summary=summary,
        reply_to=str(about.get("reply_to", "")),
    )


class _Call(NamedTuple):
    """A call that ran: from which fact on, of which tool, with which arguments."""

    seq: int
    tool: str
    args: Mapping[str, Any]


class _Sender:
    """What the log of a session says of the letters that it sent."""

    def __init__(self, session: str, facts: Sequence[Fact]) -> None:
        self.session = session
        self.last = facts[-1].seq if facts else 0
        self._calls: dict[str, list[_Call]] = {}
        self._answers: list[tuple[int, str]] = []
        starts: dict[str, ToolExecStart] = {}
        for fact in facts:
            match fact:
                case ToolExecStart():
                    starts[fact.call_id] = fact
                case ToolExecDispatch() if (start := starts.get(fact.call_id)) is not None:
                    args = start.args if fact.args is None else fact.args
                    self._calls.setdefault(fact.call_id, []).append(_Call(fact.seq, start.tool, args))
                case MessageEnd(message=Message(role="assistant") as said):
                    if said.text.strip() and getattr(said, "stop_reason", "") != "aborted":
                        self._answers.append((fact.seq, said.text))
                case _:
                    pass

    def call(self, call_id: str, until: int) -> _Call | None:
        """The call as it was dispatched last, up to that fact."""
        calls = self._calls.get(call_id, [])
        place = bisect_right(calls, until, key=lambda call: call.seq)
        return calls[place - 1] if place else None

    def answer(self, until: int) -> str:
        """The text of the last answer up to that fact that said something."""
        place = bisect_right(self._answers, until, key=lambda answer: answer[0])
        return self._answers[place - 1][1] if place else ""
