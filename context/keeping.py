"""Only the newest part of a conversation is shown.

Read with: ``rules.py`` (what stays whatever its age), ``presets.py`` (when it is cut).
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from unspool.kernel.messages import AgentMessage, Message, Text
from unspool.kernel.ports import Edit

from .calls import owners
from .marks import kind_of, mark_of, marked
from .work import Rewrite, Work


class KeepTurns:
    """Leaves out all but the newest ``turns`` turns, a turn being a reply with its results and what was said
    before it.

    The turn under way, the newest user message and system messages stay, and calls and results go or stay
    together. One short user message (``note``) says how many messages were left out, earlier cuts included.
    Each time it is asked it cuts down to ``turns``: how rarely that is, so that the prefix that providers
    cache holds, is for the engine.
    """

    name = "keep_turns"

    def __init__(self, turns: int = 10, *, note: bool = True, commits: bool = True) -> None:
        if turns < 1:
            raise ValueError(f"context: at least one turn is kept: {turns}")
        self.turns = turns
        self.note = note
        self.commits = commits

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        return left_out(work, turn_cut(work.view, self.turns), self.note)


class KeepTokens:
    """Leaves out all but the newest messages that take ``tokens`` together; else as ``KeepTurns``.

    What stays whatever its age comes on top of that. 0 tokens are as many as the target has room for.
    """

    name = "keep_tokens"

    def __init__(self, tokens: int = 20_000, *, note: bool = True, commits: bool = True) -> None:
        if tokens < 0:
            raise ValueError(f"context: less than no token is kept: {tokens}")
        self.tokens = tokens
        self.note = note
        self.commits = commits

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        tokens = self.tokens or max(1, work.budget.target - work.budget.overhead)
        return left_out(work, token_cut(work.view, work.tokens, tokens), self.note)


def turn_cut(view: Sequence[AgentMessage], turns: int) -> int:
    """Where the newest ``turns`` turns of a view begin; 0 where there are no more."""
    at = len(view)
    for _ in range(turns):
        at -= 1
        while at >= 0 and not _is_reply(view[at]):
            at -= 1
        if at < 0:
            return 0
    while at > 0 and not _is_reply(view[at - 1]) and view[at - 1].role != "tool":
        at -= 1
    return at


def token_cut(view: Sequence[AgentMessage], tokens_of: Callable[[AgentMessage], int], tokens: int) -> int:
    """Where the newest messages of a view begin that take at most ``tokens``; never at a result."""
    at = len(view)
    while at > 0 and (tokens := tokens - tokens_of(view[at - 1])) >= 0:
        at -= 1
    while 0 < at < len(view) and view[at].role == "tool":
        at += 1
    return at


def left_out(work: Work, cut: int, note: bool = True) -> Rewrite | None:
    """The rewrite that leaves out what may go of the messages before ``cut``; None where that saves nothing."""
    view, cut = work.view, min(cut, work.tail)
    stays = _staying(work, cut)
    gone = [at for at in range(cut) if at not in stays]
    count = sum([0 if kind_of(view[at]) == "dropped" else 1 for at in gone])
    if not count:
        return None
    edits = [Edit(start=start, stop=stop) for start, stop in _runs(gone)]
    if note:
        said = count + sum(
            [int(mark_of(view[at]).get("messages", 0)) for at in gone if kind_of(view[at]) == "dropped"]
        )
        message = _note(said)
        if sum([work.tokens(view[at]) for at in gone]) <= work.tokens(message):
            return None
        edits = _with_note(edits, message, work.newest_user)
    return Rewrite(edits=edits, note=f"{count} messages")


def _is_reply(message: AgentMessage) -> bool:
    return message.role == "assistant" and message.to_message() is not None


def _staying(work: Work, cut: int) -> Collection[int]:
    """Indexes before ``cut`` of what stays: of the system, the newest by the user, calls whose results came
    late."""
    stays = {at for at in range(cut) if work.view[at].role == "system"}
    stays.add(work.newest_user)
    pairs = {at: reply for at, (reply, _) in owners(work.view).items()}
    late = {reply for at, reply in pairs.items() if reply < cut <= at}
    return stays | late | {at for at, reply in pairs.items() if reply in late}


def _runs(indexes: Iterable[int]) -> list[tuple[int, int]]:
    """Ranges of indexes that follow each other: start and stop."""
    runs: list[tuple[int, int]] = []
    for at in indexes:
        if runs and runs[-1][1] == at:
            runs[-1] = (runs[-1][0], at + 1)
        else:
            runs.append((at, at + 1))
    return runs


def _note(count: int) -> Message:
    """What stands for messages that were left out."""
    text = f"[{count:,} earlier message{'' if count == 1 else 's'} of this conversation left out here]"
    return marked(Message(role="user"), (Text(text),), "dropped", messages=count)


def _with_note(edits: Sequence[Edit], note: Message, newest_user: int) -> list[Edit]:
    """The edits with a note where the first message is left out, but never after the newest user message:
    that is the one to be answered."""
    first = edits[0]
    if 0 <= newest_user < first.start:
        return [Edit(start=newest_user, stop=newest_user, messages=(note,)), *edits]
    return [Edit(start=first.start, stop=first.stop, messages=(note,)), *edits[1:]]
