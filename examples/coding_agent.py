"""A coding agent that mends a failing test, under the permission engine, and is none the worse for a kill.

Run it: ``python examples/coding_agent.py``. It makes a small repository with a failing test in a temporary folder and lets
an agent mend it, twice: through, and with a SIGKILL in the middle of the tests, taken up from its log by another
process. Both end the same. The model is scripted and everything else is real; ``-m openai/gpt-5`` asks a real one.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import unspool as un
from unspool import llm
from unspool.kernel import ApprovalInfo, ToolExecDispatch
from unspool.llm.scripted import ScriptedModel, call
from unspool.tools import Coding, coding
from unspool.trajectory import JsonlLog, load, verify

FILES = {
    "stats.py": "def median(values):\n    middle = len(values) // 2\n    return sorted(values)[middle]\n",
    "test_stats.py": """\
import time
import unittest

from stats import median


def setUpModule():
    print("testing median", flush=True)
    time.sleep(0.5)


class Median(unittest.TestCase):
    def test_odd(self):
        self.assertEqual(median([3, 1, 2]), 2)

    def test_even(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)
""",
}
OLD = "    return sorted(values)[middle]\n"
NEW = """\
    ordered = sorted(values)
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
"""
PROMPT = "A test fails. Mend the code, not the test, and show that all tests pass."
SYSTEM = "You are a coding agent. You work in one folder with your tools; paths are relative to it."
TESTS = "python3 -m unittest -q"
SCRIPT: list[Any] = [
    ["I look at what there is.", call("c1", "glob", pattern="*.py"), call("c2", "read_file", path="stats.py")],
    ["I run the tests.", call("c3", "bash", command=TESTS)],
    ["First without the test?", call("c4", "bash", command="git add . ; rm test_stats.py")],
    ["No. The mean of the two in the middle, then.", call("c5", "edit_file", path="stats.py", old_string=OLD, new_string=NEW)],
    ["Again.", call("c6", "bash", command=TESTS)],
    ["And by hand.", call("c7", "bash", command="python3 -c 'import stats; print(stats.median([4, 1, 3, 2]))'")],
    "All tests pass: the median of an even number of values is the mean of the two in the middle.",
]  # fmt: skip
RULES = {"allow": ["Bash(python3 -m unittest *)"], "deny": ["Bash(rm *)", "Edit(test_*.py)"]}


def approve(info: ApprovalInfo) -> un.Verdict:
    """The person: lets pass what the rules leave open. A real one is shown ``info`` and asked."""
    return un.Verdict.allow(by="person")


def make_agent(folder: Path, log: JsonlLog, model: un.ChatModel) -> tuple[un.Agent, Coding]:
    """The agent, in a new session or in one that an earlier process left."""
    tools = coding(folder, leave_out=["fetch_url"])
    tools.restore(record.fact for record in log.records())  # what was read then counts as read
    hooks = un.Hooks(gate=tools.permissions("accept-edits", rules=RULES), approve=approve)
    agent = un.Agent(model, tools=tools, system=SYSTEM, hooks=hooks, log=log)
    tools.tasks.notify(agent.follow_up)
    return agent, tools


async def work(folder: Path, path: Path, model_name: str = "", die_at: str = "") -> str:
    """Run the agent, or go on with its log; killed when the call ``die_at`` has said something."""
    with JsonlLog(path) as log:
        replies = sum(message.role == "assistant" for message in log.state().messages)
        model = llm.model(model_name) if model_name else ScriptedModel(SCRIPT[replies:])
        agent, tools = make_agent(folder, log, model)

        def watch(event: un.Event) -> None:
            if isinstance(event, un.ToolExecUpdate) and event.call_id == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

        agent.subscribe(watch)
        async with tools:
            going_on = agent.state.turn is not None
            return (await (agent.continue_() if going_on else agent.run(PROMPT))).text


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def passes(folder: Path) -> bool:
    """Whether the tests pass."""
    done = subprocess.run(["python3", "-m", "unittest", "-q"], cwd=folder, capture_output=True, check=False)
    return done.returncode == 0


def told(path: Path) -> Iterator[str]:
    """The steps of a trajectory: each call, who let it pass or not, and what came of it."""
    calls: dict[str, str] = {}
    by: dict[str, str] = {}
    for fact in load(path):
        match fact:
            case un.ToolExecStart():
                what = fact.args.get("command") or fact.args.get("path") or fact.args.get("pattern", "")
                calls[fact.call_id] = f"{fact.tool} {what}"
            case ToolExecDispatch(call_id=call_id, ruling=ruling) if ruling is not None:
                by[call_id] = ruling.by
            case un.ToolExecEnd(call_id=call_id, ruling=ruling):
                decided = ruling.by if ruling is not None else by.get(call_id, "")
                code = fact.details.get("exit_code")
                result = fact.outcome if code is None else f"{fact.outcome}, exit code {code}"
                yield f"{call_id}: {calls[call_id]}: {decided}: {result}"
            case un.AgentEnd():
                yield f"end: {fact.reason}"


async def main(options: argparse.Namespace) -> None:
    if options.child:
        await work(Path(options.child), Path(options.log), die_at="c3")
        return
    with TemporaryDirectory() as temporary:
        base = Path(temporary)
        once = make_repository(base / "once")
        print("tests pass before:", passes(once))
        text = await work(once, base / "once.jsonl", options.model)
        for line in told(base / "once.jsonl"):
            print(line)
        print(text)
        print("tests pass after:", passes(once), "· trajectory sound:", verify(base / "once.jsonl").ok)
        if options.model:
            return
        twice, log = make_repository(base / "twice"), base / "twice.jsonl"
        command = [sys.executable, __file__, "--child", str(twice), "--log", str(log)]
        child = await asyncio.create_subprocess_exec(*command)
        print("killed in the middle of the tests:", await child.wait() == -signal.SIGKILL)
        again = await work(twice, log)
        for line in told(log):
            print(line)
        same = (once / "stats.py").read_bytes() == (twice / "stats.py").read_bytes()
        print("the same end:", same and again == text, "· tests pass:", passes(twice))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", "--model", default="")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("--log", default="", help=argparse.SUPPRESS)
    asyncio.run(main(parser.parse_args()))
