"""``ask_user``: the run pauses, the person answers, and nobody else."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from unspool.kernel import Agent, Hooks, ToolContext, ToolError, ToolResult, Verdict
from unspool.kernel.conformance_tool import check_tool
from unspool.kernel.events import ApprovalRequested
from unspool.llm.scripted import ScriptedModel, call
from unspool.tools.ask_user import ask_user_tool
from unspool.trajectory import MemoryLog

pytestmark = pytest.mark.anyio
COLOURS = {"question": "Which colour?", "options": ["Red", "Blue"]}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ctx(verdict: Verdict | None) -> ToolContext:
    return cast(ToolContext, SimpleNamespace(decision=verdict))


NOTHING = "The person let the question pass without an answer: go on as you think best, or ask more exactly."
ANSWERS: dict[str, tuple[Verdict | None, str, dict[str, Any]]] = {
    "words": (
        Verdict.allow(reason=" Green, please ", by="ann"),
        "The person answered: Green, please",
        {"answer": "Green, please", "choice": None, "comment": "", "by": "ann"},
    ),
    "an option": (
        Verdict.allow(details={"choice": 2}),
        "The person chose: Blue",
        {"answer": "Blue", "choice": 2, "comment": "", "by": ""},
    ),
    "an option and words": (
        Verdict.allow(reason="but a dark one", by="ann", details={"choice": 2}),
        "The person chose: Blue\nThey added: but a dark one",
        {"answer": "Blue", "choice": 2, "comment": "but a dark one", "by": "ann"},
    ),
    "nothing": (Verdict.allow(by="ann"), NOTHING, {"answer": "", "choice": None, "comment": "", "by": "ann"}),
    "blank": (Verdict.allow(reason=" \n"), NOTHING, {"answer": "", "choice": None, "comment": "", "by": ""}),
    "nobody was asked": (None, NOTHING, {"answer": "", "choice": None, "comment": "", "by": ""}),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_answers(case: str) -> None:
    verdict, text, answer = ANSWERS[case]
    result = await ask_user_tool().execute(COLOURS, ctx(verdict))
    assert isinstance(result, ToolResult)
    assert (result.content, result.details) == (text, {"answer": answer})


@pytest.mark.parametrize("choice", [0, 3, -1, "Blue", 1.0, True, [1]])
async def test_a_choice_that_is_none(choice: object) -> None:
    with pytest.raises(ToolError, match="cannot be used: it names option"):
        await ask_user_tool().execute(COLOURS, ctx(Verdict.allow(details={"choice": choice})))


async def test_a_choice_where_there_were_no_options() -> None:
    with pytest.raises(ToolError, match="option 1 of 0"):
        await ask_user_tool().execute({"question": "Why?"}, ctx(Verdict.allow(details={"choice": 1})))


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"question": ""},
        {"question": "x" * 4001},
        {"question": "Which?", "options": ["one"]},
        {"question": "Which?", "options": ["same", "same"]},
        {"question": "Which?", "options": [str(number) for number in range(11)]},
        {"question": "Which?", "answer": "Blue"},
        {"question": "Which?", "decision": {"reason": "Blue"}},
    ],
)
def test_what_does_not_fit(args: dict[str, Any]) -> None:
    assert ask_user_tool().check_arguments(args)


async def test_the_run_pauses_with_a_preview_and_goes_on_with_the_answer() -> None:
    log = MemoryLog()
    model = ScriptedModel([[call("1", "ask_user", **COLOURS)], "Blue it is."])
    agent = Agent(model, tools=[ask_user_tool()], log=log)
    assert (await agent.run("paint")).end_reason == "paused"
    (asked,) = [fact for fact in log.facts if isinstance(fact, ApprovalRequested)]
    assert asked.previews == {"1": {"text": "Which colour?\n1. Red\n2. Blue", **COLOURS}}
    result = await agent.resume(Verdict.allow(reason="Blue", by="ann"))
    assert result.text == "Blue it is."
    assert model.requests[-1].messages[-1].text == "The person answered: Blue"


async def test_a_host_answers_inline() -> None:
    model = ScriptedModel([[call("1", "ask_user", question="Go on?")], "ok"])
    hooks = Hooks(approve=lambda info: Verdict.allow(reason="yes"))
    await Agent(model, tools=[ask_user_tool()], hooks=hooks).run("go")
    assert model.requests[-1].messages[-1].text == "The person answered: yes"


async def test_the_person_declines() -> None:
    model = ScriptedModel([[call("1", "ask_user", question="Go on?")], "ok"])
    agent = Agent(model, tools=[ask_user_tool()])
    await agent.run("go")
    await agent.resume(Verdict.deny("none of your business"))
    assert "none of your business" in model.requests[-1].messages[-1].text
    assert model.requests[-1].messages[-1].is_error


async def test_two_questions_are_asked_and_answered_together() -> None:
    calls = [call("1", "ask_user", question="One?"), call("2", "ask_user", question="Two?")]
    model = ScriptedModel([calls, "ok"])
    agent = Agent(model, tools=[ask_user_tool()])
    await agent.run("go")
    await agent.resume({"2": Verdict.allow(reason="b"), "1": Verdict.allow(reason="a")})
    assert [message.text for message in model.requests[-1].messages[-2:]] == [
        "The person answered: a",
        "The person answered: b",
    ]


async def test_it_keeps_to_the_protocol() -> None:
    await check_tool(ask_user_tool, args=[COLOURS, {"question": "Why?"}], bad_args=[{}])
