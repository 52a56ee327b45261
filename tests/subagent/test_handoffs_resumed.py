"""Handoffs across processes: whatever fact was the last, the right agent goes on, with its own tools."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.subagent.handoff_scenes import Desk, asked, go, transfer

from unspool.kernel import AgentStart, Fact, Handoff, Message, fold
from unspool.llm.scripted import call
from unspool.subagent.handoff_filters import without_tools
from unspool.subagent.handoff_usage import usage_by_agent
from unspool.trajectory import replay, requests

__all__ = ["go"]
QUESTION, THANKS = "please refund", "thanks"


def brain(agent: str, messages: Sequence[Message]) -> Any:
    """Triage looks, hands over between two looks; billing looks and answers. Each by what it is shown."""
    calls = {call.id for message in messages for call in message.tool_calls}
    if messages[-1].text == THANKS:
        return f"{agent}: you're welcome"
    if agent == "billing":
        return "paid back" if "e" in calls else [call("e", "look", at="4")]
    if "a" not in calls:
        return [call("a", "look", at="1")]
    return ["One moment.", call("b", "look", at="2"), transfer("c", "billing"), call("d", "look", at="3")]


def whole(go: Any, **options: Any) -> list[Fact]:
    """The facts of the session that nobody disturbed."""
    desk = Desk(brain, **options)

    async def main() -> None:
        await desk.agent.run(QUESTION)
        await desk.agent.run(THANKS)

    go(main)
    assert desk.asked == [
        "triage",
        "triage",
        "billing",
        "billing",
        "billing" if options["sticky"] else "triage",
    ]
    desk.check()
    return desk.log.facts


@pytest.mark.parametrize("sticky", [True, False])
@pytest.mark.parametrize("shows", [None, without_tools], ids=["all is shown", "without tools"])
def test_a_session_goes_on_after_any_fact(go: Any, sticky: bool, shows: Any) -> None:
    options = {"sticky": sticky, "input_filter": shows}
    facts = whole(go, **options)
    for count in range(len(facts) + 1):
        desk = Desk(brain, facts[:count], **options)
        before = fold(facts[:count])
        assert desk.agent.definition.name == (before.agent or "triage")

        async def main(desk: Desk = desk) -> None:
            if desk.agent.can_continue:
                await desk.agent.continue_()
            if not desk.agent.state.messages:
                await desk.agent.run(QUESTION)
            await desk.agent.run(THANKS)

        go(main)
        moves = [each for each in desk.handoffs if each[2]]
        assert moves == [("triage", "billing", "c")], f"after fact {count}"
        results = desk.results()
        for id, wanted in {
            "a": "triage saw 1",
            "b": "triage saw 2",
            "d": "triage saw 3",
            "e": "billing saw 4",
        }.items():
            assert results[id] == wanted or "unknown" in results[id], (count, id, results[id])
        last = asked(desk.model.requests[-1])
        assert last == ("billing" if sticky else "triage"), f"after fact {count}"
        desk.check()


def test_a_prompt_instead_of_going_on_finds_the_agent_that_took_over(go: Any) -> None:
    """The process died between the fact and the end of its call, and the call is skipped for a new prompt."""
    facts = whole(go, sticky=True)
    (at,) = [fact.seq for fact in facts if isinstance(fact, Handoff)]
    desk = Desk(brain, facts[:at], input_filter=without_tools)
    go(lambda: desk.agent.run(THANKS))
    assert desk.asked == ["billing"]
    assert desk.shown(0)[0:2] == [("user", QUESTION), ("assistant", "One moment.")]
    assert desk.shown(0)[-1] == ("user", THANKS)
    assert len(desk.shown(0)) == 4, "of the calls only the one that handed over is shown"
    assert len([each for each in desk.handoffs if each[2]]) == 1
    desk.check()


def test_an_agent_made_between_runs_shows_who_has_the_conversation(go: Any) -> None:
    facts = whole(go, sticky=True)
    desk = Desk(brain, facts)

    async def main() -> None:
        request = await desk.agent.build_request()
        assert asked(request) == "billing"
        assert [spec.schema["properties"]["agent"]["enum"] for spec in request.tools[1:]] == [["triage"]]
        assert desk.agent.settings.config.agent == "billing"

    go(main)


def test_a_log_tells_who_was_asked_what(go: Any) -> None:
    facts = whole(go, sticky=False)
    rebuilt = list(requests(facts))
    assert [asked(each.request) for each in rebuilt] == ["triage", "triage", "billing", "billing", "triage"]
    assert all(each.exact for each in rebuilt)
    assert list(usage_by_agent(facts)) == ["billing", "triage"]
    starts = [fact.agent for fact in facts if isinstance(fact, AgentStart)]
    assert starts == ["triage", "triage"]


@pytest.mark.parametrize("sticky", [True, False])
def test_a_log_with_handoffs_replays(go: Any, sticky: bool) -> None:
    facts = whole(go, sticky=sticky, input_filter=without_tools)
    replayed = go(lambda: replay(facts))
    assert replayed.same, replayed.difference
