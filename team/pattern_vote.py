"""A vote: typed ballots, and a count in which nothing is decided by chance.

Read with: ``pattern_cast.py`` (who takes part, what an answer is).
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio
import msgspec
from msgspec import Struct

from .pattern_cast import Answer, Answers, Cast, PatternEnd, Spent, Who

if TYPE_CHECKING:
    from .team import Team

ABSTAIN: Final = "abstain"


class Ballot(Struct, frozen=True):
    """What a voter says, as JSON: one of the options, or ``abstain``; and why."""

    choice: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Voted:
    """The count of a vote.

    ``winner`` has more ballots than any other option; empty where there is none: options are ``tied``, or everybody
    abstained. ``majority``: whether the winner has more than half of all voters, abstentions counted. ``ballots`` are
    the valid ones, by voter, those that abstain included. ``abstained`` said so; ``invalid`` voters gave no ballot that can be counted, asked
    twice, and ``failures`` are answers that were none: both count as abstentions.
    """

    winner: str
    majority: bool
    tied: Sequence[str]
    counts: Mapping[str, int]
    ballots: Mapping[str, Ballot]
    abstained: Sequence[str]
    invalid: Mapping[str, str]
    failures: Answers
    end_reason: PatternEnd
    spent: Spent


async def vote(team: "Team", question: str, voters: Sequence[Who], options: Sequence[str]) -> Voted:
    """Have members choose one of ``options``, all at once and unseen by each other.

    A ballot that cannot be counted is asked for once more, and then counts as an abstention.

    Raises:
        ValueError: there is no voter, somebody votes twice, or there are no two different options (``abstain`` is none).
        UnknownAgent, TeamError: somebody cannot take part; nobody is asked then.
    """
    if not voters or len(options) < 2 or len(set(options)) < len(options) or ABSTAIN in options:
        raise ValueError(f"vote: needs voters and different options (options={list(options)!r})")
    papers: dict[str, Ballot | str | Answer] = {}
    async with Cast(team) as cast:
        names = await cast.names_of(voters)

        async def ask(name: str) -> None:
            papers[name] = await _ballot(cast, name, question, options)

        async with anyio.create_task_group() as asking:
            for name in names:
                asking.start_soon(ask, name)
        return _counted({name: papers[name] for name in names}, options, cast)


async def _ballot(cast: Cast, name: str, question: str, options: Sequence[str]) -> Ballot | str | Answer:
    """The ballot of a voter; what is wrong with it; or the answer that was none."""
    text, problem = _asked(question, options), ""
    for _ in range(2):
        answer = await cast.ask(name, text)
        if not answer.ok:
            return answer
        ballot = _read(answer.text, options)
        if isinstance(ballot, Ballot):
            return ballot
        problem = ballot
        text = f"This ballot cannot be counted: {problem}. {_form(options)}"
    return problem


def _asked(question: str, options: Sequence[str]) -> str:
    listed = "\n".join(f"- {option}" for option in options)
    return f"Vote on this question:\n\n{question}\n\nThe options:\n{listed}\n\n{_form(options)}"


def _form(options: Sequence[str]) -> str:
    choices = ", ".join(json.dumps(option, ensure_ascii=False) for option in (*options, ABSTAIN))
    return f'Answer only with JSON: {{"choice": one of {choices}, "reason": "why, in a sentence"}}'


def _read(text: str, options: Sequence[str]) -> Ballot | str:
    """A ballot, or what is wrong with it."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text[text.index("\n") + 1 : -3]
    try:
        ballot = msgspec.json.decode(text, type=Ballot)
    except msgspec.DecodeError as error:
        return str(error)
    if ballot.choice in options or ballot.choice == ABSTAIN:
        return ballot
    return f"there is no option {ballot.choice[:80]!r}"


def _counted(papers: Mapping[str, Ballot | str | Answer], options: Sequence[str], cast: Cast) -> Voted:
    ballots = {name: each for name, each in papers.items() if isinstance(each, Ballot)}
    failures = [each for each in papers.values() if isinstance(each, Answer)]
    count = Counter(ballot.choice for ballot in ballots.values())
    counts = {option: count[option] for option in options}
    most = max(counts.values())
    first = [option for option in options if most and counts[option] == most]
    winner = first[0] if len(first) == 1 else ""
    end: PatternEnd = "stop"
    if failures:
        end = cast.end_reason("incomplete" if len(failures) < len(papers) else "failed")
    return Voted(
        winner=winner,
        majority=bool(winner) and 2 * most > len(papers),
        tied=first if len(first) > 1 else (),
        counts=counts,
        ballots=ballots,
        abstained=[name for name, ballot in ballots.items() if ballot.choice == ABSTAIN],
        invalid={name: each for name, each in papers.items() if isinstance(each, str)},
        failures=failures,
        end_reason=end,
        spent=cast.spent(),
    )
