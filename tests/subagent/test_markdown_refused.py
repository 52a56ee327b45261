"""Front matter that is wrong or hostile: an error that names file, line and key, and never a value."""

import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.kernel.errors import AgentError
from unspool.subagent.definition import AgentDefinition
from unspool.subagent.definition_checks import DefinitionError
from unspool.subagent.markdown import MAX_BYTES, parse_definition, read_definition

KEY = "sk-ant-api03-abcDEF1234567890abcDEF"
LEVELS = '"off", "minimal", "low", "medium", "high", "xhigh", "max"'
BOMB = "a: &a [x, x]\n" + "\n".join(f"{b}: &{b} [*{a}, *{a}]" for a, b in pairwise("abcdefghijkl"))

REFUSED: list[tuple[str, str]] = [
    # keys
    ("nme: x", "a.md:2: nme: no such key; there are background, budget, color, context,"),
    ("name: a\npermissionMode: plan", "a.md:3: permissionMode: no such key; there are"),
    ("name: a\nname: b", "a.md:3: a key that is given twice"),
    ("budget: {turns: 1,\n turns: 2}", "a.md:3: a key that is given twice"),
    ("leave_out: b\ndisallowed-tools: c", "a.md:3: disallowed-tools: the same as 'leave_out', which is given too"),
    ("effort: low\nthinking: high", "a.md:3: thinking: the same as 'effort', which is given too"),
    ("max_turns: 3\nbudget: {turns: 3}", "a.md:2: max_turns: the same as budget.turns, which is given too"),
    ("on: x", "a.md:2: a key that is not a text; put it in quotes"),
    ("1: x", "a.md:2: a key that is not a text"),
    ("? [a]\n: b", "a.md:2: a key that is not a text"),
    ("<<: {name: b}", "a.md:2: a key that is not a text"),
    # types
    ("name: 5", "a.md:2: name: expected string, got integer"),
    ("name:", "a.md:2: name: expected string, got null"),
    ("description: [a]", "a.md:2: description: expected string, got array"),
    ("description: 2024-01-31", "a.md:2: description: expected string, got date"),
    ("model: yes", "a.md:2: model: expected string, got boolean"),
    ("tools:", "a.md:2: tools: expected array, got null"),
    ("tools: [read_file, 5]", "a.md:2: tools[1]: expected string, got integer"),
    ("tools: {shell: false}", "a.md:2: tools: expected array, got object"),
    ("tools: ' , '", "a.md:2: tools: names nothing; write [] for none, or leave the key out"),
    ("thinking: on", f"a.md:2: thinking: not one of {LEVELS}"),
    ("thinking: extreme", f"a.md:2: thinking: not one of {LEVELS}"),
    ("temperature: hot", "a.md:2: temperature: expected number, got string"),
    ("temperature: yes", "a.md:2: temperature: expected number, got boolean"),
    ("temperature: .nan", "a.md:2: temperature: must be finite"),
    ("context: shared", 'a.md:2: context: not one of "none", "isolated", "fork"'),
    ("background: 'yes'", "a.md:2: background: expected boolean, got string"),
    ("mode: primary", 'a.md:2: mode: not one of "subagent", "all"'),
    ("max_turns: true", "a.md:2: max_turns: expected integer, got boolean"),
    ("max_turns: 1.5", "a.md:2: max_turns: expected integer, got number"),
    ("max_turns: 0", "a.md:2: max_turns: must be above 0 and finite (turns=0)"),
    ("name: a\nbudget: {turns: x}", "a.md:3: budget.turns: expected integer, got string"),
    ("budget: {turs: 1}", "a.md:2: budget.turs: no such key; there are turns, tool_calls, tokens, cost, seconds"),
    ("budget: {cost: .inf}", "a.md:2: budget: must be above 0 and finite (cost)"),
    ("budget: {cost: -1}\nmax_turns: 3", "a.md:2: budget: must be above 0 and finite (cost=-1)"),
    ("budget: {'a b': 1}", 'a.md:2: budget["a b"]: no such key; there are turns,'),
    ("budget: 5", "a.md:2: budget: expected object, got integer"),
    ("max_turns: " + "9" * 400, "a.md:2: max_turns: must be above 0 and finite (turns)"),
    ("max_turns: " + "9" * 5000, "a.md:2: no such number or date; put a text in quotes"),
    ("metadata: [a]", "a.md:2: metadata: expected object, got array"),
    ("metadata: {since: 2024-01-31}", "a.md:2: metadata: not JSON"),
    ("metadata: {a: [{b: .nan}]}", "a.md:2: metadata: not JSON"),
    ("metadata: {name: 2024-01-31}\nname: a", "a.md:2: metadata: not JSON"),
    ("x-size: " + "9" * 400, "a.md:2: x-size: not JSON"),
    ("x-since: 2024-02-31", "a.md:2: no such number or date"),
    # what the definition itself refuses
    ("name: my agent", "a.md: agent: name: must be 1 to 64 letters"),
    ("tools: read_file, Bash(git:*)", "a.md: agent 'a': tools[1]: not the name of a tool"),
    ("handoffs: a", "a.md: agent 'a': handoffs: an agent cannot hand over to itself"),
    ("model: ''", "a.md: agent 'a': model: the name is empty"),
    # YAML
    ("just text", "a.md:2: expected 'key: value'"),
    ("- a", "a.md:2: expected 'key: value'"),
    ("description: use it: now", "a.md:2: not YAML: a ': ' inside a value; put the value in quotes"),
    ("name: a\n\tmodel: b", "a.md:3: not YAML: a tab; indent with spaces"),
    ("description: @all", "a.md:2: not YAML: a character that no value begins with"),
    ("description: **now**", "a.md:2: not YAML: a value that begins with * or &; put it in quotes"),
    ("description: 'now", "a.md:3: not YAML: a quote that is never closed"),
    ("name: a\nmodel", "a.md:4: not YAML: a line that is not 'key: value'"),
    ("tools: [a\nname: b", "a.md:3: not YAML"),
    ("name: a\n  model: b", "a.md:3: not YAML: a ': ' inside a value"),
    ("name: a\n...\nmodel: b", "a.md:4: not YAML"),
    ("%YAML 1.1", "a.md:3: not YAML"),
    ("name: a\x00", "a.md: not YAML"),
    # hostile YAML
    ("name: &a b", "a.md:2: anchors and aliases (&, *) are not read"),
    ("name: *a", "a.md:2: anchors and aliases (&, *) are not read"),
    (BOMB, "a.md:2: anchors and aliases (&, *) are not read"),
    ("metadata: &m\n  a: *m", "a.md:2: anchors and aliases (&, *) are not read"),
    ("name: !!python/object/apply:os.system [id]", "a.md:2: tags (!) are not read"),
    ("metadata: !!python/name:os.system ''", "a.md:2: tags (!) are not read"),
    ("metadata: {a: !!binary aGk=}", "a.md:2: tags (!) are not read"),
    ("name: !<tag:x> b", "a.md:2: tags (!) are not read"),
    ("metadata: " + "[" * 20 + "]" * 20, "a.md:2: nested more than 16 levels deep"),
    ("metadata: " + "[" * 30_000, "a.md:2: nested more than 16 levels deep"),
    ("- " * 15_000, "a.md:2: nested more than 16 levels deep"),
    ("? " * 15_000, "a.md:2: nested more than 16 levels deep"),
    ("metadata: " + "{a: " * 8000, "a.md:2: nested more than 16 levels deep"),
    ("x-a: [" + "a," * 20_000 + "]", "a.md: the front matter is longer than 32768 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("front", "text"), REFUSED, ids=[f"{front[:40]!r}" for front, _ in REFUSED])
def test_refused(front: str, text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_definition(f"---\n{front}\n---\nGo.", name="a", source="a.md")
    assert str(caught.value).startswith(text)


FILES: dict[str, tuple[bytes, str]] = {
    "no front matter": (b"# Notes\n", ":1: no front matter: the first line must be '---'"),
    "an empty file": (b"", ":1: no front matter"),
    "a line before it": (b"\n---\nname: a\n---\nGo.", ":1: no front matter"),
    "another fence": (b"----\nname: a\n----\nGo.", ":1: no front matter"),
    "no end": (b"---\nname: a\nGo.", ":1: the front matter has no end: a line '---' must close it"),
    "an indented end": (b"---\nname: a\n ---\nGo.", ":1: the front matter has no end"),
    "no prompt": (b"---\nname: a\n---\n\n \n", ": no system prompt follows the front matter"),
    "not UTF-8": (b"---\nname: a\ndescription: caf\xe9\n---\nGo.", ":3: not UTF-8"),
    "UTF-16": ("---\nname: a\n---\nGo.".encode("utf-16"), ":1: not UTF-8"),
    "too large": (b"---\n---\n" + b"x" * MAX_BYTES, f": larger than {MAX_BYTES} bytes"),
    "a name that its stem cannot be": (b"---\n---\nGo.", ": agent: name: must be 1 to 64"),
}


@pytest.mark.parametrize(("data", "text"), FILES.values(), ids=FILES)
def test_files_that_are_refused(data: bytes, text: str, tmp_path: Path) -> None:
    (path := tmp_path / "my agent.md").write_bytes(data)
    with pytest.raises(DefinitionError) as caught:
        read_definition(path)
    assert str(caught.value).startswith(f"{path}{text}")


def test_a_text_without_a_name() -> None:
    with pytest.raises(DefinitionError, match="agent name is required"):
        parse_definition("---\n---\nGo.")


SECRET = "hunter2-hunter2"
LEAKS: list[str] = [
    f"nme: {SECRET}",
    f"name: '{SECRET} '",
    f"name: [{SECRET}]",
    f"thinking: {SECRET}",
    f"tools: 'a, {SECRET}('",
    f"handoffs: '{SECRET}!'",
    f"budget: {{turns: {SECRET}}}",
    f"max_turns: {SECRET}",
    f"metadata: {SECRET}",
    f"temperature: {SECRET}",
    f"name: *{SECRET}",
    f"name: &{SECRET} x",
    f"name: !{SECRET} x",
    f"name: !{SECRET}! x",
    f"name: !{SECRET}!x x",
    f"name: '{SECRET}",
    f"name: {SECRET}: {SECRET}",
    f"name: a\n{SECRET}",
    f"name: {{{SECRET}",
    f"{SECRET}",
    f"%TAG !{SECRET}! x",
    f'name: "\\q{SECRET}"',
    f"background: {SECRET}",
    f"description: use {KEY}",
    f"{KEY}: x",
    f"tools: {KEY}",
    f"model: openai/{KEY}",
    f"metadata: {{key: {KEY}}}",
    f"name: a\n---\nThe key is {KEY}.",
]


@pytest.mark.parametrize("front", LEAKS)
def test_values_are_never_told(front: str) -> None:
    with pytest.raises(AgentError) as caught:
        parse_definition(f"---\n{front}\n---\nGo.", name="a", source="a.md")
    error: BaseException | None = caught.value
    while error is not None:  # what a traceback would show
        assert SECRET not in str(error) and KEY not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.mark.parametrize(
    "front",
    [
        "x-a: [" + "a," * 16_000 + "]",
        "x-a: " + "1:" * 16_000 + "1",
        "x-a: '" + "''" * 16_000 + "'",
        "#" * 32_000,
    ],
    ids=["a long list", "base 60", "quotes", "a comment"],
)
def test_the_longest_is_read_in_bounded_time(front: str) -> None:
    began = time.process_time()
    try:
        parse_definition(f"---\n{front}\n---\nGo.", name="a")
    except DefinitionError as error:
        assert "not JSON" in str(error) or "longer" in str(error)
    assert time.process_time() - began < 10  # seconds; it takes about one


_WORDS = st.sampled_from(
    ["name", "tools", "budget", "turns", "x-a", "metadata", ": ", ":", "\n", "\n  ", "- ", "[", "]", "{", "}", ", ",
     "&a ", "*a", "!!str ", "!", "'", '"', "|", ">", "#", "%", "@", "`", "? ", "<<", "off", "1", "-0.5", ".nan", "1:30",
     "2024-01-31", "---", "...", "\t", "\x07", "\u2028", "\ufeff", "é", "~", "0x1f", "\\"]
)  # fmt: skip


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.lists(_WORDS, max_size=30).map("".join))
def test_anything_is_an_agent_or_a_definition_error(front: str) -> None:
    try:
        agent = parse_definition(f"---\n{front}\n---\nGo.", name="a", source="a.md")
    except DefinitionError as error:
        assert str(error).startswith("a.md")
    else:
        assert isinstance(agent, AgentDefinition)
