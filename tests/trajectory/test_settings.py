"""The settings a session was under, made again from its log."""

import msgspec
import pytest

from unspool import Agent, AgentState, CallOptions, Limits, LogError, fold, tool
from unspool.kernel.ports import SystemBlock
from unspool.llm.scripted import ScriptedModel
from unspool.trajectory import MemoryLog, RecordedSettings, recorded_settings


@tool(read_only=True)
def look(path: str, deep: bool = False) -> str:
    """Look at a file."""
    return path


def test_the_settings_come_back_as_they_were() -> None:
    system = (SystemBlock(text="Be brief."), SystemBlock(text="Be kind.", cache="1h"))
    options = CallOptions(thinking="low", temperature=0.5, stop=("END",), extra={"top_k": [1, 2.0, None]})
    limits, log = Limits(turns=7, cost=0.5), MemoryLog()
    agent = Agent(
        ScriptedModel(["hi"], name="scripted/x"),
        tools=[look],
        system=system,
        options=options,
        limits=limits,
        log=log,
    )
    agent.run_sync("hello")
    assert recorded_settings(fold(log.facts)) == RecordedSettings(
        model="scripted/x", system=system, options=options, limits=limits, tools=(look.spec,)
    )


def test_the_newest_settings_count() -> None:
    log = MemoryLog()
    agent = Agent(ScriptedModel(["hi", "ho"], name="scripted/x"), system="one", tools=[look], log=log)
    agent.run_sync("hello")
    agent.configure(model=ScriptedModel(["ho"], name="scripted/y"), system="", tools=[], thinking="high")
    agent.run_sync("again")
    assert recorded_settings(fold(log.facts)) == RecordedSettings(
        model="scripted/y", options=CallOptions(thinking="high")
    )


def test_a_session_without_a_run_has_those_of_a_new_one() -> None:
    assert recorded_settings(AgentState()) == RecordedSettings()


@pytest.mark.parametrize(
    ("blobs", "kind"),
    [({}, "missing_blob"), ({"h": [{"text": 1}]}, "undecodable"), ({"h": {}}, "undecodable")],
)
def test_what_is_not_there_is_told(blobs: dict[str, object], kind: str) -> None:
    state = msgspec.structs.replace(AgentState(), session="s", system="h", blobs=blobs)
    with pytest.raises(LogError) as caught:
        recorded_settings(state)
    assert (caught.value.details["kind"], caught.value.details["hash"]) == (kind, "h")
