"""What other projects' context policies would send, run through their own code in an environment of their own.

``views_of_peer`` gives a script of ``peers/context/`` the transcripts and makes views of what it tells. The
scripts say which defaults they run.

Read with: ``context_tasks.py`` (the transcripts), ``context_price.py``, ``context_demands.py`` (what views are judged by).
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from context_price import SideCall, fixed_tokens
from context_tasks import Task

from unspool.kernel import Message, Text, ToolCall

PEERS: Mapping[str, tuple[str, str]] = {  # name → script, what it runs
    "OpenHands, default agent": ("openhands_views.py", "default"),
    "OpenHands, settings": ("openhands_views.py", "settings"),
    "Inspect, auto": ("inspect_views.py", "auto"),
    "Inspect, edit": ("inspect_views.py", "edit"),
    "Inspect, trim": ("inspect_views.py", "trim"),
}
_SCRIPTS = Path(__file__).parent / "peers" / "context"
_JOBS = 2


class PeerRun(NamedTuple):
    """A transcript under a peer's policy: the view of each model call, and the calls of its summariser.

    ``failed`` is the error with which the peer would have ended the run; then there are views up to there only.
    """

    task: str
    views: list[list[Message]]
    side_calls: list[SideCall]
    failed: str
    version: str


def run_peer(python: Path, name: str, tasks: Sequence[Task], window: int) -> list[PeerRun]:
    """The runs of peer ``name`` over ``tasks``. ``python`` is the interpreter of the peers' environment.

    Raises:
        RuntimeError: the script failed; with what it said.
    """
    script, what = PEERS[name]
    command = [str(python), str(_SCRIPTS / script), what, "--window", str(window)]
    with ThreadPoolExecutor(_JOBS) as pool:
        parts = [tasks[start::_JOBS] for start in range(_JOBS)]
        told = [line for lines in pool.map(lambda part: _told(command, part), parts) for line in lines]
    by_name = {run["name"]: run for run in told}
    return [_run(task, by_name[task.name]) for task in tasks]


def _told(command: Sequence[str], tasks: Sequence[Task]) -> list[dict[str, Any]]:
    given = "".join([json.dumps(_for_peer(task)) + "\n" for task in tasks])
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{Path(command[1]).name} failed:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]


def _for_peer(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "fixed": fixed_tokens(task.system, task.tools),
        "messages": [
            {
                "role": message.role,
                "text": message.text,
                "calls": [
                    {"id": call.id, "name": call.name, "args": call.args} for call in message.tool_calls
                ],
                "call_id": message.tool_call_id,
                "name": message.tool_name,
            }
            for message in task.messages
        ],
    }


def _run(task: Task, told: Mapping[str, Any]) -> PeerRun:
    made: dict[str, Message] = {}  # a replacement that stays is one object in all views

    def message(item: Any) -> Message:
        if isinstance(item, int):
            return task.messages[item]
        key = json.dumps(item, sort_keys=True)
        if key not in made:
            made[key] = _replacement(item)
        return made[key]

    views = [[message(item) for item in request["view"]] for request in told["requests"]]
    return PeerRun(task.name, views, list(_side_calls(told)), told["failed"], told["version"])


def _side_calls(told: Mapping[str, Any]) -> Iterator[SideCall]:
    for request in told["requests"]:
        for given, answered in request["side"]:
            yield SideCall(given, answered)


def _replacement(item: Mapping[str, Any]) -> Message:
    calls = [ToolCall(id=call["id"], name=call["name"], args=call["args"]) for call in item.get("calls", ())]
    return Message(
        role=item["role"],
        content=(Text(item["text"]), *calls),
        tool_call_id=item.get("call_id", ""),
        tool_name=item.get("name", ""),
    )
