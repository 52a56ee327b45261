"""Writes the parts of the documentation that are made from the code.

python docs/generate.py           writes docs/events.schema.json, docs/api/ and the marked parts of docs/*.md
python docs/generate.py --check   writes nothing; status 1 where something is out of date
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, get_args

from unspool.kernel import (
    AgentContext,
    Fact,
    Limits,
    LoopConfig,
    ModelRequest,
    Retry,
    StreamEnd,
    StreamEvent,
    ToolContext,
    ToolSpec,
    agent_loop,
)
from unspool.kernel.codec import event_schema
from unspool.kernel.events import KnownFact, Signal
from unspool.llm import PRESETS, AnthropicDialect, ChatDialect, GeminiDialect, ResponsesDialect
from unspool.llm.scripted import ScriptedModel, call
from unspool.trajectory.memory import MemoryLog

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

from reference import PACKAGES, page  # stands beside this file

HEADER = ("seq", "time", "run_id", "sub")
FORMATS = {
    ChatDialect: "chat",
    ResponsesDialect: "Responses",
    AnthropicDialect: "Messages",
    GeminiDialect: "generateContent",
}


def first_sentence(doc: str | None) -> str:
    """The summary of a docstring, on one line."""
    paragraph = " ".join((doc or "").strip().split("\n\n")[0].split())
    return paragraph.replace("|", "\\|")


def event_table() -> str:
    """A row for each kind of event: its tag, whether it is a fact, what it carries and says."""
    rows = ["| event | kind | carries | meaning |", "|---|---|---|---|"]
    for kind, classes in (("fact", get_args(KnownFact)), ("signal", get_args(Signal))):
        for cls in classes:
            fields = ", ".join(f"`{name}`" for name in cls.__struct_fields__ if name not in HEADER)
            tag = cls.__struct_config__.tag
            rows.append(f"| `{tag}` | {kind} | {fields} | {first_sentence(cls.__doc__)} |")
    return "\n".join(rows)


def limits_table() -> str:
    """The defaults of ``Limits`` and ``Retry``."""
    rows = ["| setting | default |", "|---|---|"]
    for value in (Limits(), Retry()):
        for name in value.__struct_fields__:
            rows.append(f"| `{type(value).__name__}.{name}` | {getattr(value, name)} |")
    return "\n".join(rows)


class _Timeline(list[str]):
    """Mermaid lines of what happened, in the order in which it did."""

    def say(self, line: str) -> None:
        self.append(f"    {line}")


class _Log(MemoryLog):
    def __init__(self, timeline: _Timeline) -> None:
        super().__init__()
        self.timeline = timeline

    def append(self, fact: Fact, /) -> None:
        super().append(fact)
        self.timeline.say(f"Loop->>Log: {type(fact).__struct_config__.tag}")


class _Model(ScriptedModel):
    timeline: _Timeline

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[StreamEvent, None]:
        self.timeline.say("Loop->>Model: request")
        async for event in super().stream(request):
            if isinstance(event, StreamEnd):
                self.timeline.say("Model-->>Loop: reply")
            yield event


class _Tool:
    spec = ToolSpec(name="look", description="looks")
    timeline: _Timeline

    async def execute(self, args: Any, ctx: ToolContext, /) -> object:
        self.timeline.say("Loop->>Tool: execute")
        self.timeline.say("Tool-->>Loop: result")
        return "seen"


async def _play(timeline: _Timeline) -> None:
    model, tool = _Model([[call("c1", "look")], "done"]), _Tool()
    model.timeline = tool.timeline = timeline
    config = LoopConfig(model=model, log=_Log(timeline))
    async with agent_loop("go", AgentContext(tools=[tool]), config) as run:
        async for event in run:
            timeline.say(f"Loop-->>Consumer: {type(event).__struct_config__.tag}")
            timeline.say("Consumer->>Loop: next")


def sequence_diagram() -> str:
    """One turn with one tool call, as it really went."""
    timeline = _Timeline()
    asyncio.run(_play(timeline))
    start = next(n for n, line in enumerate(timeline) if "Log: turn_start" in line)
    end = next(n for n, line in enumerate(timeline) if "Consumer: turn_end" in line) + 1
    people = [f"    participant {name}" for name in ("Consumer", "Loop", "Log", "Model", "Tool")]
    return "\n".join(["```mermaid", "sequenceDiagram", *people, *timeline[start:end], "```"])


def presets_table() -> str:
    """A row for each provider that is known by name."""
    rows = ["| name | format | base URL, or the variable that sets another | key |", "|---|---|---|---|"]
    for name, preset in PRESETS.items():
        url = f"`{preset.base_url}`, " if isinstance(preset.base_url, str) and preset.base_url else ""
        keys = " or ".join(f"`{variable}`" for variable in preset.key_variables)
        keys += "" if preset.needs_key else ", if the server wants one"
        rows.append(f"| `{name}` | {FORMATS[type(preset.dialect)]} | {url}`{preset.url_variable}` | {keys} |")
    return "\n".join(rows)


def with_parts(path: Path, parts: dict[str, str]) -> str:
    """The text of a file with what stands between the marks of each part made anew."""
    text = path.read_text(encoding="utf-8")
    for name, part in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, _, rest = text.partition(begin)
        _, mark, after = rest.partition(end)
        if not mark:
            raise ValueError(f"{path.name}: the marks of the part {name!r} are missing")
        text = f"{before}{begin}\n{part}\n{end}{after}"
    return text


def outdated(write: bool) -> list[str]:
    """The names of the files that are, or were, out of date."""
    design, models, schema = DOCS / "design.md", DOCS / "models.md", DOCS / "events.schema.json"
    of_design = {"events": event_table(), "limits": limits_table(), "turn": sequence_diagram()}
    pages = {DOCS / "api" / f"{package}.md": page(package) for package in PACKAGES}
    wanted = {
        **pages,
        design: with_parts(design, of_design),
        models: with_parts(models, {"presets": presets_table()}),
        schema: json.dumps(event_schema(), indent=1, ensure_ascii=False) + "\n",
    }
    old = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    if write:
        for path in old:
            path.write_text(wanted[path], encoding="utf-8")
    return [path.name for path in old]


if __name__ == "__main__":
    check = "--check" in sys.argv[1:]
    names = outdated(write=not check)
    print(("out of date: " if check else "written: ") + (", ".join(names) or "nothing"))
    sys.exit(1 if check and names else 0)
