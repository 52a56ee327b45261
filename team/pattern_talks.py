"""Patterns in which members talk about one thing: a debate before a judge, notes on a blackboard.

Read with: ``pattern_cast.py`` (who takes part, what an answer is).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final, TypeAlias

from .pattern_cast import Answer, Answers, Cast, PatternEnd, Spent, Who

if TYPE_CHECKING:
    from .team import Team

NOTHING: Final = "NOTHING"  # what an expert says that has nothing to add


@dataclass(frozen=True, slots=True)
class Statement:
    """What a member said, in which round (from 1)."""

    name: str
    round: int
    text: str


Statements: TypeAlias = Sequence[Statement]


@dataclass(frozen=True, slots=True)
class Debated:
    """What a debate came to: ``text`` is what the judge says, empty unless it ended with ``stop``.

    ``failures`` are the answers that were none: of a side, with which the debate ended, or of the judge.
    """

    text: str
    end_reason: PatternEnd
    statements: Statements
    failures: Answers
    spent: Spent


async def debate(team: "Team", question: str, sides: Sequence[Who], rounds: int, *, judge: Who) -> Debated:
    """Let the sides argue, one after another in each round, then have the judge decide.

    Each side reads what the others have said since its last turn. Where a side fails, the debate ends without a
    judgement: it would not be a fair one.

    Raises:
        ValueError: there are fewer than two sides, no rounds, or somebody takes part twice.
        UnknownAgent, TeamError: somebody cannot take part; nobody is asked then.
    """
    if len(sides) < 2 or rounds < 1:
        raise ValueError(f"debate: needs two sides and a round (sides={len(sides)!r}, rounds={rounds!r})")
    said: list[Statement] = []
    async with Cast(team) as cast:
        *names, last = await cast.names_of([*sides, judge])
        read = dict.fromkeys(names, 0)
        for number in range(1, rounds + 1):
            for name in names:
                answer = await cast.ask(name, _turn(question, number, rounds, said[read[name] :], name))
                if not answer.ok:
                    return Debated("", cast.end_reason("failed"), said, [answer], cast.spent())
                said.append(Statement(name, number, answer.text))
                read[name] = len(said)
        verdict = await cast.ask(last, _to_judge(question, said))
        failures = [] if verdict.ok else [verdict]
        end = "stop" if verdict.ok else cast.end_reason("failed")
        return Debated(verdict.text if verdict.ok else "", end, said, failures, cast.spent())


def _turn(question: str, number: int, rounds: int, new: Statements, name: str) -> str:
    if number == 1:
        begin = f"You are {name!r} in a debate of {rounds} rounds. Argue your side; a judge decides.\n\n{question}"
    else:
        begin = f"Round {number} of {rounds}. Answer what was said."
    return f"{begin}\n\n{_shown(new)}" if new else begin


def _to_judge(question: str, said: Statements) -> str:
    return f"You are the judge of this debate. Decide, and say why.\n\n{question}\n\n{_shown(said)}"


def _shown(statements: Statements) -> str:
    """Statements as others read them, escaped, so that nobody can speak for another."""
    return "\n".join(
        f'<statement by="{escape(each.name)}" round="{each.round}">\n{escape(each.text, quote=False)}\n</statement>'
        for each in statements
    )


@dataclass(frozen=True, slots=True)
class Noted:
    """What a blackboard came to: its ``notes`` in their order.

    ``end_reason``: ``stop`` (nobody had anything to add), ``rounds``, ``failed`` (no expert is left), or why the team
    ended. ``failures`` are the answers that were none; an expert that failed was not asked again.
    """

    notes: Statements
    end_reason: PatternEnd
    failures: Answers
    spent: Spent


async def blackboard(team: "Team", problem: str, experts: Sequence[Who], rounds: int) -> Noted:
    """Let experts work on a problem by notes that all of them read, until nobody adds any or the rounds are over.

    In each round they are asked one after another; each reads the notes of the others since its last turn.

    Raises:
        ValueError: there is no expert, no round, or somebody takes part twice.
        UnknownAgent, TeamError: somebody cannot take part; nobody is asked then.
    """
    if not experts or rounds < 1:
        raise ValueError(f"blackboard: needs an expert and a round (rounds={rounds!r})")
    notes: list[Statement] = []
    failures: list[Answer] = []
    async with Cast(team) as cast:
        names = await cast.names_of(experts)
        read = dict.fromkeys(names, 0)
        for number in range(1, rounds + 1):
            before = len(notes)
            for name in tuple(names):
                answer = await cast.ask(name, _to_expert(problem, number, notes[read[name] :]))
                if not answer.ok:
                    failures.append(answer)
                    names.remove(name)
                elif not _is_nothing(answer.text):
                    notes.append(Statement(name, number, answer.text))
                read[name] = len(notes)
            if team.over or not names:
                return Noted(notes, cast.end_reason("failed"), failures, cast.spent())
            if len(notes) == before:
                return Noted(notes, "stop", failures, cast.spent())
        return Noted(notes, "rounds", failures, cast.spent())


def _is_nothing(text: str) -> bool:
    return text.strip().strip(".").upper() in ("", NOTHING)


def _to_expert(problem: str, number: int, new: Statements) -> str:
    begin = (
        f"You are one of several experts who share notes on this problem:\n\n{problem}\n\n"
        if number == 1
        else ""
    )
    shown = f"New notes of others:\n{_shown(new)}\n\n" if new else "There are no new notes.\n\n"
    return f"{begin}{shown}Answer with the one note that you add for all, or with {NOTHING} if you have nothing to add."
