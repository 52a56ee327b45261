"""What a tool says before a gate has spoken must not tell what is in a file that the model has not read."""

from pathlib import Path
from typing import Any

import pytest

from unspool import Agent, Hooks, ToolExecEnd, Verdict
from unspool.kernel import ToolUse
from unspool.llm.scripted import ScriptedModel, call
from unspool.tools import Workspace, apply_patch_tool, edit_file_tool, multi_edit_tool

SECRET = "password = hunter2\n"
NEAR = {"old_string": "password = hunter3", "new_string": "x"}
CALLS: dict[str, dict[str, Any]] = {
    "edit_file": {"path": ".env", **NEAR},
    "multi_edit": {"path": ".env", "edits": [NEAR]},
    "apply_patch": {
        "patch": "*** Begin Patch\n*** Update File: .env\n-password = hunter3\n+x\n*** End Patch\n"
    },
}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.anyio
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("decision", ["allow", "deny", "ask"])
async def test_a_failing_edit_tells_nothing_before_it_is_let_pass(
    tmp_path: Path, name: str, decision: str
) -> None:
    (tmp_path / ".env").write_text(SECRET)
    workspace = Workspace(tmp_path, read_before_write=False)
    tools = [make(workspace) for make in (edit_file_tool, multi_edit_tool, apply_patch_tool)]
    ends: list[ToolExecEnd] = []

    def gate(use: ToolUse) -> Verdict:
        return {"allow": Verdict.allow(), "deny": Verdict.deny("secret"), "ask": Verdict.ask()}[decision]

    model = ScriptedModel([[call("c1", name, **CALLS[name])], "done"])
    agent = Agent(model, tools=tools, hooks=Hooks(gate=gate))
    agent.subscribe(lambda event: ends.append(event) if isinstance(event, ToolExecEnd) else None)
    result = await agent.run("go")
    if decision == "ask":
        assert result.end_reason == "paused" and not ends
        return
    (end,) = ends
    assert end.outcome == ("error" if decision == "allow" else "denied")
    assert ("hunter2" in str(end.content)) == (decision == "allow")
