"""Patterns in which work flows through members: one after another, or many at once and then one.

Read with: ``pattern_cast.py`` (who takes part, what an answer is).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from unspool.kernel.errors import AgentError, describe
from unspool.subagent.definition import AgentDefinition

from .pattern_cast import Answer, Answers, Cast, PatternEnd, Spent, Who

if TYPE_CHECKING:
    from .team import Team


@dataclass(frozen=True, slots=True)
class Piped:
    """What a pipeline came to: ``text`` is the answer of its last stage, empty unless it ended with ``stop``.

    ``answers`` are those of the stages that were asked, in their order; where one failed, it is the last.
    """

    text: str
    end_reason: PatternEnd
    answers: Answers
    spent: Spent


async def pipeline(team: "Team", stages: Sequence[Who], text: str) -> Piped:
    """Ask the stages one after another: the first gets ``text``, each other one the answer before it.

    It stops at the first that does not answer, or has nothing to say. A member may be several stages.

    Raises:
        ValueError: there is no stage.
        UnknownAgent, TeamError: somebody cannot take part; nobody is asked then.
    """
    if not stages:
        raise ValueError("pipeline: needs a stage")
    answers: list[Answer] = []
    async with Cast(team) as cast:
        names = [await cast.name_of(stage) for stage in stages]
        for name in names:
            answer = await cast.ask(name, text)
            answers.append(answer)
            if not answer.ok or not answer.text:
                return Piped("", cast.end_reason("failed"), answers, cast.spent())
            text = answer.text
        return Piped(text, "stop", answers, cast.spent())


@dataclass(frozen=True, slots=True)
class MapReduced:
    """What a map-reduce came to: ``text`` is the reducer's answer.

    ``answers`` are those about the items, in the order of the items, those that failed included. ``reduced`` is the
    answer of the reducer; None where it was not asked, since nobody answered or the team has ended.
    """

    text: str
    end_reason: PatternEnd
    answers: Answers
    reduced: Answer | None
    spent: Spent

    @property
    def failed(self) -> Sequence[int]:
        """The places of the items that were not answered, from 0."""
        return [place for place, answer in enumerate(self.answers) if not answer.ok]


async def map_reduce(
    team: "Team", items: Sequence[str], *, worker: Who, reducer: Who, task: str = "", at_once: int = 4
) -> MapReduced:
    """Have each item answered, then have the reducer make one answer of all of them.

    ``worker`` as a definition: a new member for each item, at most ``at_once`` of them at a time. As a member: one
    item after another, in one conversation. ``task`` says what to do with each item, and goes before it. The reducer
    is told which items failed, and why.

    Raises:
        ValueError: there is no item, or ``at_once`` is below 1.
        UnknownAgent, TeamError: somebody cannot take part.
    """
    if not items or at_once < 1:
        raise ValueError(f"map_reduce: needs an item, and at_once of 1 or more (at_once={at_once!r})")
    async with Cast(team) as cast:
        last = await cast.name_of(reducer)
        if isinstance(worker, str) and worker in team.members:
            name = await cast.name_of(worker)
            answers = [await cast.ask(name, _asked(task, item)) for item in items]
        else:
            answers = await _mapped(cast, items, worker, task, at_once)
        reduced = None
        if any(answer.ok for answer in answers) and not team.over:
            reduced = await cast.ask(last, _to_reduce(task, items, answers))
        return MapReduced(
            reduced.text if reduced is not None and reduced.ok else "",
            cast.end_reason(_how(answers, reduced)),
            answers,
            reduced,
            cast.spent(),
        )


def _how(answers: Answers, reduced: Answer | None) -> PatternEnd:
    if reduced is None or not reduced.ok:
        return "failed"
    return "stop" if all(answer.ok for answer in answers) else "incomplete"


async def _mapped(cast: Cast, items: Sequence[str], worker: Who, task: str, at_once: int) -> list[Answer]:
    """The answers in the order of the items; a fixed number of tasks takes them one after another."""
    definition = cast.definition(worker)
    answers: dict[int, Answer] = {}
    places = iter(range(len(items)))

    async def work() -> None:
        for place in places:
            answers[place] = await _answered(cast, definition, _asked(task, items[place]))

    async with anyio.create_task_group() as workers:
        for _ in range(min(at_once, len(items))):
            workers.start_soon(work)
    return [answers[place] for place in range(len(items))]


async def _answered(cast: Cast, worker: AgentDefinition, text: str) -> Answer:
    """What a new member answers."""
    if cast.team.end_reason is not None:
        return Answer(worker.name, "", cast.team.end_reason, "it was not asked")
    try:
        name = await cast.name_of(worker)
    except AgentError as error:
        return Answer(worker.name, "", "undelivered", describe(error))
    answer = await cast.ask(name, text)
    await cast.dismiss(name)
    return answer


def _asked(task: str, item: str) -> str:
    return f"{task}\n\n{item}" if task else item


def _to_reduce(task: str, items: Sequence[str], answers: Answers) -> str:
    about = f"Each was asked: {task}\n\n" if task else ""
    parts = [
        _part(number, item, answer)
        for number, (item, answer) in enumerate(zip(items, answers, strict=True), 1)
    ]
    failed = sum(not answer.ok for answer in answers)
    missing = f" {failed} of them failed: say what is missing for that." if failed else ""
    return f"{about}Make one answer of these {len(parts)}.{missing}\n\n" + "\n\n".join(parts)


def _part(number: int, item: str, answer: Answer) -> str:
    said = (
        answer.text
        if answer.ok
        else f"(failed: {answer.end_reason}{': ' if answer.error else ''}{answer.error})"
    )
    return f"{number}. {item}\n{said}"
