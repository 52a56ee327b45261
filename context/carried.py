"""What goes from one summary to the next as it is: what users asked for, and which files were read and changed.

A model's summary may lose these; so they are read from the messages and kept beside it, bounded.

Read with: ``checkpoint.py`` (the caller).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from unspool.kernel.json_edge import clean_text
from unspool.kernel.messages import AgentMessage

from .calls import owners, use_of
from .marks import is_summary, mark_of
from .serializing import shortened, text_of

_LONGEST_PATH: Final = 500
_REQUEST_CHARS: Final = 2_000  # of one request
_LEAST_CHARS: Final = 80  # less of a request is not worth having


class Files(NamedTuple):
    """Paths, sorted: those that were read and not changed, and those that were changed; and whether there were more."""

    read: list[str]
    modified: list[str]
    omitted: bool = False


class Requests(NamedTuple):
    """What users asked for, oldest first, and how many more there were."""

    texts: list[str]
    omitted: int


def files_of(messages: Sequence[AgentMessage], earlier: Iterable[AgentMessage] = (), *, limit: int) -> Files:
    """The files of the calls in ``messages``, but for calls that failed, and those that ``earlier`` summaries list.

    Each list is of at most about ``limit`` characters; those that only earlier summaries know go first.
    """
    earlier = list(earlier)
    read, modified = _known_files(earlier)
    failed = {
        (reply, call.id)
        for at, (reply, call) in owners(messages).items()
        if getattr(messages[at], "is_error", False)
    }
    for at, message in enumerate(messages):
        lowered = message.to_message() if message.has_tool_calls else None
        for call in lowered.tool_calls if lowered else ():
            use = use_of(call)
            if use.kind in ("read", "edit") and (at, call.id) not in failed:
                _put(modified if use.kind == "edit" else read, use.paths)
    only_read = [path for path in read if path not in modified]
    kept = _newest(only_read, limit), _newest(list(modified), limit)
    lost = len(kept[0]) + len(kept[1]) < len(only_read) + len(modified)
    before = any(mark_of(summary).get("files_omitted") is True for summary in earlier)
    return Files(*kept, lost or before)


def _newest(paths: Sequence[str], limit: int) -> list[str]:
    """The last of the paths, as many as there is room for, sorted."""
    first = len(paths)
    while first and (limit := limit - len(paths[first - 1].encode()) - 1) >= 0:
        first -= 1
    return sorted(paths[first:])


def _known_files(summaries: Iterable[AgentMessage]) -> tuple[dict[str, None], dict[str, None]]:
    marks = [mark_of(summary) for summary in summaries]
    read = [path for mark in marks for path in _strings(mark, "read_files")]
    modified = [path for mark in marks for path in _strings(mark, "modified_files")]
    return dict.fromkeys(read), dict.fromkeys(modified)


def _put(known: dict[str, None], paths: Iterable[str]) -> None:
    """Make paths of files the newest that are known."""
    for path in paths:
        if path.isprintable() and len(path) <= _LONGEST_PATH and "://" not in path:
            known.pop(path, None)
            known[path] = None


def requests_of(
    messages: Sequence[AgentMessage], earlier: Iterable[AgentMessage] = (), *, limit: int
) -> Requests:
    """What users asked for in ``messages`` and, as ``earlier`` summaries have it, before, in about ``limit`` characters.

    Long ones are shortened in their middle. Where there is not room for all, the newest are kept, and the very first.
    """
    texts: dict[str, None] = {}
    omitted = 0
    for summary in earlier:
        mark = mark_of(summary)
        texts.update(dict.fromkeys(map(clean_text, _strings(mark, "requests"))))
        more = mark.get("requests_omitted")
        omitted += more if isinstance(more, int) else 0
    for message in messages:
        lowered = message.to_message() if message.role == "user" and not is_summary(message) else None
        text = clean_text(text_of(lowered)).strip() if lowered else ""
        texts.pop(text, None)  # said again: the newest counts
        if text:
            texts[text] = None
    kept = _bounded(list(texts), limit)
    return Requests([text for text in kept if text], omitted + sum([not text for text in kept]))


def _bounded(texts: Sequence[str], limit: int) -> list[str]:
    kept = [""] * len(texts)
    newest = len(texts) - 1
    for at in [newest, 0, *range(newest - 1, 0, -1)] if newest > 0 else range(len(texts)):
        text = texts[at]
        room = min(_REQUEST_CHARS, limit * len(text) // len(text.encode()))  # wide letters cost more
        if room < min(_LEAST_CHARS, len(text)):
            continue
        kept[at] = shortened(text, room, "the user's message")
        limit -= len(kept[at].encode())
    return kept


def _strings(mark: Mapping[str, Any], name: str) -> list[str]:
    """A list of strings in a mark, which may come from a log that somebody else wrote."""
    values = mark.get(name)
    return [value for value in values if isinstance(value, str)] if isinstance(values, list | tuple) else []
