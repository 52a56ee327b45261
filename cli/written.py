"""``unspool show --as-written``: the conversation as it was written, also what a rewrite has replaced since.

Read with: ``show.py``, ``unspool.trajectory.transcript``.
"""

from unspool.kernel.messages import AgentMessage
from unspool.trajectory.transcript import Written, transcript

from .output import console, write_json
from .places import Place
from .view import TextView, content_text, show_arguments


def show_written(place: Place, *, as_json: bool) -> int:
    """Print every message, the first one first, whole."""
    written = transcript(place.facts())
    if as_json:
        for each in written:
            write_json(_object(each))
        return 0
    view = TextView(console(), live=False)
    for each in written:
        replaced = "" if each.kept else " · replaced since"
        cause = f" ({each.cause})" if each.cause else ""
        view.tell(f"{each.id} {each.message.role}{cause}{replaced}")
        for line in _lines(each.message):
            view.say(line)
    return 0


def _lines(message: AgentMessage) -> list[str]:
    calls = getattr(message, "tool_calls", ())
    content = [block for block in getattr(message, "content", ()) if block not in calls]
    text = content_text(content) if content else message.text
    return [*text.splitlines(), *[f"→ {call.id} {call.name}({show_arguments(call.args)})" for call in calls]]


def _object(written: Written) -> dict[str, object]:
    return {
        "id": written.id,
        "seq": written.seq,
        "time": written.time,
        "run_id": written.run_id,
        "cause": written.cause,
        "kept": written.kept,
        "message": written.message.to_message(),
    }
