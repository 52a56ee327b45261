"""A view with edits made: the one place that says what edits mean.

Read with: ``ports.py`` (``Edit``, ``Compaction``), ``request.py`` (how a rewrite is recorded).
"""

from collections.abc import Sequence

from .messages import AgentMessage
from .ports import Compaction, Edit


def edited(view: Sequence[AgentMessage], edits: Sequence[Edit]) -> list[AgentMessage]:
    """The messages of ``view`` with ``edits`` made.

    Raises:
        ValueError: they overlap, are not in order, or go beyond the end.
    """
    result: list[AgentMessage] = []
    at = 0
    for edit in edits:
        if not at <= edit.start <= edit.stop <= len(view):
            raise ValueError(
                f"edits must be in order and fit {len(view)} messages (start={edit.start}, stop={edit.stop})"
            )
        result += view[at : edit.start]
        result += edit.messages
        at = edit.stop
    result += view[at:]
    return result


def rewritten(view: Sequence[AgentMessage], rewrite: Compaction) -> list[AgentMessage]:
    """The messages of ``view`` after a rewrite; all of them where that changed nothing.

    Raises:
        ValueError: its edits do not fit; or it is to be committed, and has none or leaves nothing.
    """
    edits = rewrite.edits if rewrite.changed else ()
    try:
        left = edited(view, edits)
    except ValueError as error:
        raise ValueError(f"a rewrite does not fit the transcript: {error}") from error
    if rewrite.changed and rewrite.commit and not (edits and left):
        raise ValueError("a rewrite that is to be committed leaves nothing" if edits else "it has no edits")
    return left
