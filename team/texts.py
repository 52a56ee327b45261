"""The words in which letters, and what the team asks for, reach a model.

Read with: ``letters.py``, ``kinds.py``.
"""

from collections.abc import Callable
from html import escape
from typing import Any, Final, TypeAlias

import msgspec

from unspool.kernel.messages import Message, user_message

from .kinds import HOST, IDLE, MESSAGE, SHUTDOWN_REQUEST, SYNTHESIS, TASK
from .letters import Letter
from .roster import LEAD

LETTER: Final = "unspool.letter"  # the key in the metadata of a message that was a letter
FormatLetter: TypeAlias = Callable[[Letter], str]
"""How a letter becomes the text of a message."""

SYNTHESIZE: Final = (
    "All members rest now. Answer the request that began this work, from what they have reported. "
    "Give the answer itself, not a plan."
)
_ANSWER_SHUTDOWN: Final = (
    "Call answer_shutdown: approve if your work is done or can be given up, else reject with the reason."
)


def letter_text(letter: Letter) -> str:
    """A letter as a model reads it.

    What the host says, and a task of the board, is shown as it is: it is what the member is asked. Everything else
    stands in a tag that says who it is from, escaped, so that no sender can speak for another.
    """
    if letter.kind == TASK or (letter.sender == HOST and letter.kind in (MESSAGE, SYNTHESIS)):
        return letter.text
    marks = {"from": letter.sender, "id": letter.id}
    if letter.kind != MESSAGE:
        marks["kind"] = letter.kind
    if letter.reply_to:
        marks["reply_to"] = letter.reply_to
    if letter.summary:
        marks["summary"] = letter.summary
    attributes = " ".join(f'{name}="{escape(value)}"' for name, value in marks.items())
    text = escape(_body(letter), quote=False)
    return f"<message {attributes}>\n{text}\n</message>"


def _body(letter: Letter) -> str:
    if letter.kind == SHUTDOWN_REQUEST:
        return "\n".join(part for part in (letter.text, _ANSWER_SHUTDOWN) if part)
    return "(no answer)" if letter.kind == IDLE and not letter.text else letter.text


def letter_message(letter: Letter, format_letter: FormatLetter = letter_text) -> Message:
    """A letter as a message of its reader's conversation; ``metadata`` says which letter it was."""
    about: dict[str, Any] = {"id": letter.id, "sender": letter.sender, "kind": letter.kind}
    if letter.reply_to:
        about["reply_to"] = letter.reply_to
    if letter.cause is not None:
        about["cause"] = msgspec.to_builtins(letter.cause)
    return user_message(format_letter(letter), metadata={LETTER: about})


def about_letter(message: object) -> dict[str, Any]:
    """What ``letter_message`` noted; empty where the message was no letter."""
    metadata = getattr(message, "metadata", None)
    about = metadata.get(LETTER) if isinstance(metadata, dict) else None
    return about if isinstance(about, dict) else {}


def introduction(name: str, team: str) -> str:
    """What a member's prompt says of the team."""
    you = f"You are {name!r}, a member of the team {team!r}."
    if name == LEAD:
        return (
            f"{you} You lead it. Messages of members reach you as <message>; when a member has nothing left to do, "
            "its last answer reaches you as a message of kind idle. To wait for messages, end your turn."
        )
    return (
        f"{you} {LEAD!r} leads it. Messages of others reach you as <message>; only send_message reaches them. "
        f"When you are done, end your turn: your last answer is sent to {LEAD!r}. To wait, end your turn, too."
    )
