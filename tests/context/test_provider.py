"""What a provider has compacted is not sent to it again, and is to another."""

from collections.abc import Sequence
from typing import Any

import pytest

from unspool.context.engine import Engine
from unspool.context.provider import DropCompacted
from unspool.context.work import Rewrite, Work
from unspool.kernel import AgentMessage, Edit, Message, user_message
from unspool.kernel.messages import Content, Opaque, Text, ToolCall, tool_message
from unspool.llm.scripted import ScriptedModel

from .scoping import Conversation, Scope

pytestmark = pytest.mark.anyio
LONG = "word " * 300
PLAIN = {"type": "compaction", "content": "They worked."}
SEALED = {"type": "compaction", "id": "c1", "encrypted_content": "c2VhbGVk"}
ANTHROPIC, OPENAI = "anthropic-messages", "openai-responses"
READS = ToolCall(id="t1", name="read")
READS_MORE = ToolCall(id="t2", name="read")


class ByWords:
    """A token a word."""

    name = "words"

    def count(self, text: str, /) -> int:
        return len(text.split())


class Model(ScriptedModel):
    """A model that says which format it speaks."""

    def __init__(self, name: str, format: str) -> None:
        super().__init__(name=name, context_window=600)
        self.format = format


def said(*content: Content, origin: str = f"{ANTHROPIC}:anthropic/m", stop: str = "stop") -> Message:
    return Message(role="assistant", content=content, origin=origin, stop_reason=stop)


def compacted(data: Any = PLAIN, format: str = ANTHROPIC, name: str = "anthropic/m") -> Message:
    """A reply with a compaction."""
    return said(Opaque(provider=format, data=data), Text("on it"), origin=f"{format}:{name}")


def conversation(*messages: AgentMessage, model: ScriptedModel | None = None) -> Conversation:
    engine = Engine([DropCompacted()], window=600, reserve=100, counter=ByWords())
    made = Conversation(engine, Scope(model=model or ScriptedModel(name="anthropic/m")))
    made.say(*messages)
    return made


async def shown(talk: Conversation) -> list[AgentMessage]:
    return list((await talk.project()).messages)


def kept(talk: Conversation, view: Sequence[AgentMessage]) -> list[int]:
    """Which of the messages that were said are shown."""
    return [at for at, message in enumerate(talk.written) if any(message is each for each in view)]


OLD, NEW = user_message(LONG), user_message("go on")
VIEWS: dict[str, tuple[list[AgentMessage], list[int]]] = {
    "what came before goes": ([OLD, said(Text(LONG)), NEW, compacted(), user_message("thanks")], [3, 4]),
    "a reply may end with it": (
        [
            OLD,
            said(Text(LONG)),
            NEW,
            said(Text("x"), Opaque(provider=ANTHROPIC, data=SEALED)),
            user_message("y"),
        ],
        [3, 4],
    ),
    "the newest counts": ([OLD, compacted(), OLD, compacted(), NEW], [3, 4]),
    "system messages stay": (
        [Message(role="system", content=(Text("be kind"),)), OLD, said(Text(LONG)), compacted(), NEW],
        [0, 3, 4],
    ),
    "the newest user message stays": (
        [OLD, said(Text(LONG)), NEW, said(READS), tool_message(READS, LONG), compacted()],
        [2, 5],
    ),
    "in the middle of a turn, its results stay": (
        [
            OLD,
            said(Text(LONG)),
            NEW,
            said(Opaque(provider=ANTHROPIC, data=PLAIN), READS, READS_MORE, stop="tool_use"),
            tool_message(READS, "a"),
            tool_message(READS_MORE, "b"),
        ],
        [2, 3, 4, 5],
    ),
    "one that failed is none": (
        [OLD, said(Text(LONG)), compacted({"type": "compaction", "content": None}), NEW],
        [0, 1, 2, 3],
    ),
    "one of another model": ([OLD, said(Text(LONG)), compacted(name="anthropic/n"), NEW], [0, 1, 2, 3]),
    "one in a reply that failed": (
        [OLD, said(Text(LONG)), said(Opaque(provider=ANTHROPIC, data=PLAIN), stop="error"), NEW],
        [0, 1, 2, 3],
    ),
    "another block": ([OLD, said(Text(LONG)), compacted({"type": "web_search"}), NEW], [0, 1, 2, 3]),
    "a block that is no object": ([OLD, said(Text(LONG)), compacted("compaction"), NEW], [0, 1, 2, 3]),
    "it fits as it is": ([user_message("hi"), compacted(), NEW], [0, 1, 2]),
}


@pytest.mark.parametrize("name", VIEWS)
async def test_what_is_shown(name: str) -> None:
    messages, expected = VIEWS[name]
    talk = conversation(*messages)
    view = await shown(talk)
    assert kept(talk, view) == expected
    assert len(view) == len(expected)


async def test_it_is_remembered_and_not_committed() -> None:
    talk = conversation(OLD, said(Text(LONG)), NEW, compacted(), user_message("thanks"))
    assert kept(talk, await shown(talk)) == [3, 4]
    assert list(talk.transcript) == talk.written
    assert [(each.commit, each.steps[0].strategy) for each in talk.rewrites] == [
        (False, "provider_compaction")
    ]
    talk.say(said(Text("welcome")), user_message("bye"))
    assert kept(talk, await shown(talk)) == [3, 4, 5, 6]
    assert len(talk.rewrites) == 1


FORMATS = {
    "the same": (Model("openai/m", OPENAI), [2, 3]),
    "a name in two formats": (Model("openai/m", "openai-chat"), [0, 1, 2, 3]),
    "a model that does not say goes by its name": (ScriptedModel(name="openai/m"), [2, 3]),
}


@pytest.mark.parametrize("name", FORMATS)
async def test_only_the_format_that_takes_it_back(name: str) -> None:
    model, expected = FORMATS[name]
    talk = conversation(OLD, said(Text(LONG)), compacted(SEALED, OPENAI, "openai/m"), NEW, model=model)
    assert kept(talk, await shown(talk)) == expected


class CutOld:
    """Old messages go, for good."""

    name = "cut_old"
    commits = True

    async def rewrite(self, work: Work, /) -> Rewrite | None:
        return Rewrite(edits=[Edit(start=0, stop=1)]) if len(work.view) > 3 else None


async def test_another_model_is_shown_everything() -> None:
    talk = conversation(OLD, said(Text(LONG)), compacted(), NEW)
    assert kept(talk, await shown(talk)) == [2, 3]
    talk.scope.model = ScriptedModel(name="openai/m")
    talk.say(said(Text("welcome")), user_message("bye"))
    assert kept(talk, await shown(talk)) == [0, 1, 2, 3, 4, 5]
    talk.scope.model = ScriptedModel(name="anthropic/m")
    assert kept(talk, await shown(talk)) == [2, 3, 4, 5]


async def test_nothing_is_committed_on_top_of_it() -> None:
    engine = Engine([DropCompacted(), CutOld()], window=600, reserve=100, counter=ByWords())
    talk = Conversation(engine, Scope(model=ScriptedModel(name="anthropic/m")))
    talk.say(OLD, said(Text(LONG)), compacted(), user_message(LONG), said(Text(LONG)), NEW)
    assert kept(talk, await shown(talk)) == [3, 4, 5]
    assert [len(each.steps) for each in talk.rewrites] == [2]
    talk.say(said(Text(LONG)), user_message("and now?"))
    assert kept(talk, await shown(talk)) == [4, 5, 6, 7]
    assert not any(each.commit for each in talk.rewrites)
    assert list(talk.transcript) == talk.written
