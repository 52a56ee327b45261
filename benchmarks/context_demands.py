"""What the replies of a transcript needed again, and whether a request still had it.

A *demand* of a reply is

- a path that one of its calls reads, greps or edits, when contents of it were shown before: by ``read_file``, by
  ``sed -n`` or ``cat`` through ``bash``, or by the result of an edit; it is met when some message of the request shows
  the newest such contents, whole or 80 % of their lines;
- an id (commit, ticket, UUID, test) in its text or its calls that a result has shown before; it is met when the
  request has the id literally.

Read with: ``context_tasks.py`` (the transcripts), ``context_price.py`` (the other half of the comparison).
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from unspool.kernel import AgentMessage, Message, ToolCall

_SHARE = 0.8
_FILE = re.compile(r"[\w.-]+(?:/[\w.-]+)*\.(?:py|md)\b")
_SHOWS = re.compile(r"(?:sed -n|cat)\s")
_TOUCHES = re.compile(r"(?:sed|cat|grep|head|tail)\s")
_IDS = re.compile(
    r"\b(?:[A-Z]{2,5}-\d{4}"  # tickets
    r"|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"  # UUIDs
    r"|(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)(?:[0-9a-f]{40}|[0-9a-f]{7,10})"  # commits
    r"|(?:\w+\.)+test_\w+)\b"  # tests
)
_NO_TICKETS = ("RFC-", "ISO-", "UTF-", "SHA-", "PEP-", "CVE-")


class Demand(NamedTuple):
    """Something a reply needed: a path or an id, the message that showed it last, and how many calls came between."""

    kind: str
    identity: str
    shown: int
    age: int


class Score(NamedTuple):
    """Demands that were met, of those there were, in all and of each kind."""

    met: int
    asked: int
    kinds: Mapping[str, tuple[int, int]]

    @property
    def recall(self) -> float:
        return self.met / self.asked if self.asked else 1.0


class Demands:
    """The demands of one transcript, and what it takes to judge a view by them.

    ``by_reply`` has those of each model call, in order. Views hold the transcript's own messages, told by identity, and
    whatever a manager put in their place, which is read.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._at = {id(message): number for number, message in enumerate(messages)}
        self._lines = [
            _lines(message.text) if message.role == "tool" else frozenset() for message in messages
        ]
        self._having: dict[str, list[int]] = defaultdict(list)  # line → results with it
        for number, lines in enumerate(self._lines):
            for line in lines:
                self._having[line].append(number)
        self._texts = [whole_text(message) for message in messages]
        self._naming: dict[str, list[int]] = defaultdict(list)  # id → messages with it
        for number, text in enumerate(self._texts):
            for found in set(_ids(text)):
                self._naming[found].append(number)
        self._showing: dict[int, frozenset[int]] = {}
        self._judged: dict[tuple[int, str, int], bool] = {}
        self._foreign: list[AgentMessage] = []  # kept alive, their ids are keys
        self.by_reply = list(self._find())

    def _find(self) -> Iterator[tuple[Demand, ...]]:
        shown: dict[str, int] = {}
        named: dict[str, int] = {}
        points = [number for number, message in enumerate(self._messages) if message.role == "assistant"]
        pending: dict[str, ToolCall] = {}
        for number, message in enumerate(self._messages):
            if message.role == "assistant":
                yield tuple(self._of_reply(number, shown, named, points))
                pending = {call.id: call for call in message.tool_calls}
            elif message.role == "tool":
                for path in _shown_paths(pending[message.tool_call_id]) if not message.is_error else ():
                    if self._lines[number]:
                        shown[path] = number
                for found in _ids(message.text):
                    named[found] = number

    def _of_reply(
        self, number: int, shown: Mapping[str, int], named: Mapping[str, int], points: Sequence[int]
    ) -> Iterator[Demand]:
        def age(at: int) -> int:
            return bisect_left(points, number) - bisect_left(points, at)

        paths = [path for call in self._messages[number].tool_calls for path in _touched_paths(call)]
        for path in dict.fromkeys(paths):
            if path in shown:
                yield Demand("path", path, shown[path], age(shown[path]))
        for found in dict.fromkeys(_ids(self._texts[number])):
            if found in named:
                yield Demand("id", found, named[found], age(named[found]))

    def score(self, views: Sequence[Sequence[AgentMessage]], *, min_age: int = 0) -> Score:
        """How many demands the requests of a run met. ``views`` has one view for each model call; where a run
        ended early, what came after is not met. ``min_age``: only demands of that age and older ones."""
        counts: Counter[tuple[str, bool]] = Counter()
        for number, demands in enumerate(self.by_reply):
            asked = [demand for demand in demands if demand.age >= min_age]
            if not asked:
                continue
            own, foreign = self._split(views[number]) if number < len(views) else (frozenset[int](), [])
            for demand in asked:
                counts[demand.kind, self._met(demand, own, foreign)] += 1
        kinds = {
            kind: (counts[kind, True], counts[kind, True] + counts[kind, False]) for kind in ("path", "id")
        }
        return Score(sum(met for met, _ in kinds.values()), sum(asked for _, asked in kinds.values()), kinds)

    def _split(self, view: Sequence[AgentMessage]) -> tuple[frozenset[int], list[AgentMessage]]:
        own = [self._at.get(id(message)) for message in view]
        foreign = [message for message, at in zip(view, own, strict=True) if at is None]
        return frozenset([at for at in own if at is not None]), foreign

    def _met(self, demand: Demand, own: frozenset[int], foreign: Sequence[AgentMessage]) -> bool:
        if demand.kind == "id":
            if not own.isdisjoint(self._naming[demand.identity]):
                return True
        elif demand.shown in own or not own.isdisjoint(self._shows(demand.shown)):
            return True
        return any(self._judge(message, demand) for message in foreign)

    def _shows(self, shown: int) -> frozenset[int]:
        """The results that show enough of what result ``shown`` does."""
        known = self._showing.get(shown)
        if known is None:
            common = Counter([at for line in self._lines[shown] for at in self._having[line]])
            least = _SHARE * len(self._lines[shown])
            known = frozenset([at for at, count in common.items() if count >= least])
            self._showing[shown] = known
        return known

    def _judge(self, message: AgentMessage, demand: Demand) -> bool:
        key = (id(message), demand.identity, demand.shown)
        if key not in self._judged:
            self._foreign.append(message)
            text = whole_text(message)
            if demand.kind == "id":
                self._judged[key] = demand.identity in text
            else:
                wanted = self._lines[demand.shown]
                self._judged[key] = len(wanted & _lines(text)) >= _SHARE * len(wanted)
        return self._judged[key]


def whole_text(message: AgentMessage) -> str:
    """All that a model reads of a message: its text, and the names and arguments of its calls."""
    lowered = message.to_message()
    if lowered is None:
        return ""
    return "\n".join([lowered.text, *[f"{call.name} {call.arguments_text}" for call in lowered.tool_calls]])


def _lines(text: str) -> frozenset[str]:
    return frozenset([line for line in text.splitlines() if line.strip()])


def _ids(text: str) -> list[str]:
    return [found for found in _IDS.findall(text) if not found.startswith(_NO_TICKETS)]


def _shown_paths(call: ToolCall) -> list[str]:
    """Files whose contents the result of a call shows."""
    if call.name in {"read_file", "edit_file"}:
        return [call.args["path"]]
    if call.name == "bash" and _SHOWS.match(call.args["command"]):
        return _FILE.findall(call.args["command"])
    return []


def _touched_paths(call: ToolCall) -> list[str]:
    """Files that a call reads, greps or edits."""
    if call.name in {"read_file", "edit_file", "grep"}:
        return [call.args["path"]]
    if call.name == "bash" and _TOUCHES.match(call.args["command"]):
        return _FILE.findall(call.args["command"])
    return []
