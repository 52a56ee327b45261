"""The message that stands for a part of the conversation, whoever wrote its text.

It is a user message, so that a request never ends with it as a reply and no model takes it for its own words, and it says
that it is a record. What it needs for the next one is in its mark: ``read_files``, ``modified_files`` and whether
``files_omitted``, ``requests`` and how many ``requests_omitted``, ``covered`` (messages that it stands for), ``tokens_before`` of the request, ``by`` (what
wrote it), and ``summary`` (the text alone).

Read with: ``cuts.py``, ``carried.py``, ``summary_text.py``; ``summary.py``, ``extract.py``, ``session_memory.py`` (the callers).
"""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from unspool.kernel.json_edge import clean_text
from unspool.kernel.messages import AgentMessage, Message, Text

from .carried import files_of, requests_of
from .cuts import Span, room_for_messages
from .marks import mark_of, marked
from .serializing import shortened
from .summary_text import bare, wrapped
from .work import Work

_REQUESTS: Final = 0.15  # of what the relief level leaves for messages: what the users' own words may take
_FILES: Final = 0.05  # and each list of files
_BYTES: Final = 3  # of text in a token; few, so that the bound holds


class SummaryInfo(Struct, frozen=True, kw_only=True):
    """What a summary did: tokens of the request and messages of the view, and how many of those it replaced.

    ``split_turn``: the cut went through a turn. ``incremental``: it took an earlier summary in.
    """

    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    compacted: int
    kept: int
    split_turn: bool
    incremental: bool
    summary_chars: int
    read_files: tuple[str, ...]
    modified_files: tuple[str, ...]


def chars_for(tokens: int) -> int:
    """About how many characters of ordinary text are surely no more than ``tokens``."""
    return _BYTES * tokens


def checkpoint(work: Work, span: Span, text: str, *, by: str, **said: Any) -> Message:
    """The message for a span, with ``text`` as its summary; ``said`` goes to its mark."""
    gone = [work.original(message) for message in span.fresh]
    text = clean_text(text)
    room = room_for_messages(work)
    files = files_of(gone, span.earlier, limit=chars_for(int(_FILES * room)))
    requests = requests_of(gone, span.earlier, limit=chars_for(int(_REQUESTS * room)))
    shown = wrapped(
        text,
        requests=requests.texts,
        omitted=requests.omitted,
        read=files.read,
        modified=files.modified,
        more_files=files.omitted,
    )
    return marked(
        Message(role="user"),
        [Text(clean_text(shown))],
        "summary",
        by=by,
        summary=text,
        requests=requests.texts,
        requests_omitted=requests.omitted,
        read_files=files.read,
        modified_files=files.modified,
        files_omitted=files.omitted,
        covered=len(span.fresh) + sum([covered_by(summary) for summary in span.earlier]),
        tokens_before=work.budget.tokens,
        **said,
    )


def covered_by(summary: AgentMessage) -> int:
    """How many messages of the conversation a summary stands for."""
    covered = mark_of(summary).get("covered")
    return covered if isinstance(covered, int) else 1


def earlier_text(summaries: Sequence[AgentMessage]) -> str:
    """The texts of earlier summaries alone."""
    return "\n\n".join([text for text in map(summary_of, summaries) if text])


def summary_of(message: AgentMessage) -> str:
    """The text of a summary alone."""
    text = mark_of(message).get("summary")
    return bare(text if isinstance(text, str) else message.text)


def middle_out(text: str, limit: int) -> str:
    """A summary in ``limit`` characters: what is missing is taken from its middle."""
    return shortened(text, limit, "the earlier summary") if len(text) > limit else text


def tokens_of(work: Work, span: Span) -> int:
    """The tokens of what a span takes out."""
    return sum([work.tokens(work.view[at]) for at in span.indexes])


def info_of(work: Work, span: Span, message: Message) -> SummaryInfo:
    """What ``message`` in the place of ``span`` comes to."""
    before = len(work.view)
    mark = mark_of(message)
    return SummaryInfo(
        tokens_before=work.budget.tokens,
        tokens_after=work.budget.tokens - tokens_of(work, span) + work.tokens(message),
        messages_before=before,
        messages_after=before - len(span.indexes) + 1,
        compacted=len(span.indexes),
        kept=before - len(span.indexes),
        split_turn=span.cut.split,
        incremental=bool(span.earlier),
        summary_chars=len(mark["summary"]),
        read_files=tuple(mark["read_files"]),
        modified_files=tuple(mark["modified_files"]),
    )
