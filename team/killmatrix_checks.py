"""What must hold of a team whose processes were killed and gone on with, each as a list of what is wrong.

Read with: ``killmatrix_processes.py`` (who asks), ``unspool.trajectory.killmatrix_checks`` (one session of it).
"""

from collections.abc import Iterator, Mapping, Sequence

from unspool.kernel.events import Fact, MessageEnd
from unspool.kernel.state import fold
from unspool.subagent.killmatrix_checks import Heads
from unspool.trajectory.head import Head
from unspool.trajectory.killmatrix_checks import check_acknowledged, check_transcript
from unspool.trajectory.killmatrix_stores import Stored

from .killmatrix_plan import DONE, OTHER, PROMPT, REPORTS, TASKS
from .mailbox import BoxInfo
from .roster import LEAD

LETTERS = {LEAD: (PROMPT.text, *REPORTS), OTHER: TASKS}
"""What each member is sent, in order."""
_LAST = {LEAD: DONE, OTHER: "reported"}


def check_member(name: str, stored: Sequence[Stored], told: Sequence[Head]) -> Iterator[str]:
    """It has read each letter once, in order, and has answered; no fact is lost or doubled."""
    facts = [record.fact for record in stored]
    state = fold(facts)
    yield from check_acknowledged(told, [Head(record.fact.seq, record.hash) for record in stored])
    yield from check_transcript(state, facts)
    read = [_text_of(text) for text in _read(facts)]
    if read != [*LETTERS[name]]:
        yield f"it has read {read}, not {[*LETTERS[name]]}"
    last = state.messages[-1].text if state.messages else ""
    if (state.active, state.end_reason, last) != (False, "stop", _LAST[name]):
        yield f"it ends with {last!r} (end_reason={state.end_reason!r}, active={state.active})"


def _read(facts: Sequence[Fact]) -> list[str]:
    messages = [fact.message for fact in facts if isinstance(fact, MessageEnd)]
    return [message.text for message in messages if message is not None and message.role == "user"]


def _text_of(shown: str) -> str:
    """What a letter says, without the tag that it is shown in."""
    lines = shown.splitlines()
    return lines[1] if len(lines) == 3 else shown


def check_boxes(boxes: Sequence[BoxInfo], dead: int) -> Iterator[str]:
    """No letter is left over."""
    for box in boxes:
        if box.waiting or box.out:
            yield f"in the box of {box.name} {box.waiting} letters wait, {box.out} are out"
    if dead:
        yield f"{dead} letters are dead"


def check_sessions(stored: Mapping[str, Mapping[str, Sequence[Stored]]], told: Heads) -> Iterator[str]:
    """Each member has one session, and what must hold of it."""
    for name, sessions in stored.items():
        if len(sessions) != 1:
            yield f"{name} has the sessions {sorted(sessions)}"
        for session, records in sessions.items():
            for problem in check_member(name, records, told.get(session, [])):
                yield f"{session}: {problem}"
