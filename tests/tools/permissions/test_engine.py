"""Decisions: the whole table of modes, capabilities and places, and what beats what."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unspool.kernel.errors import ToolDefinitionError
from unspool.kernel.ports import ToolSpec
from unspool.tools.permissions import MODES, Decision, Directories, GrantStore, Permissions, Request, Rules
from unspool.tools.permissions.requests import request_of


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A workspace ``w``, and beside it: ``lib`` to read, ``out``, the host's ``state`` (to write) and ``docs``."""
    for name in ("w/src", "w/secrets", "lib", "out", "state", "docs"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("w/a.txt", "w/src/main.py", "w/.env", "w/secrets/x", "out/x", "lib/x", "docs/x"):
        (tmp_path / name).write_text("x")
    (tmp_path / "w" / "to_out").symlink_to("../out")
    return tmp_path


def engine_of(base: Path, **options: Any) -> Permissions:
    roots = Directories(
        base / "w",
        read=[base / "lib"],
        internal_write=[base / "state"],
        internal_read=[base / "docs"],
        protected=[base / "state" / "log"],
    )
    return Permissions(roots, **options)


def ask(engine: Permissions, tool: str, /, meta: Any = None, **args: Any) -> Decision:
    """The decision on a call."""
    traits = {
        name: args.pop(f"_{name}")
        for name in ("read_only", "destructive", "open_world")
        if f"_{name}" in args
    }
    spec = ToolSpec(name=tool, meta={} if meta is None else {"permission": meta}, **traits)
    return engine.decide(request_of(tool, args, spec, {"trusted"}))


PATCH = """*** Begin Patch
*** Update File: a.txt
@@
-x
+y
*** Add File: {}
+z
*** End Patch"""
MOVE = """--- a/a.txt
+++ b/src/c.txt
@@ -1 +1 @@
-x
+y
"""
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "read inside": ("read_file", {"path": "a.txt"}),
    "read the lib": ("read_file", {"path": "../lib/x"}),
    "read outside": ("read_file", {"path": "../out/x"}),
    "read by link": ("read_file", {"path": "to_out/x"}),
    "read internal": ("read_file", {"path": "../docs/x"}),
    "read a secret": ("read_file", {"path": ".env"}),
    "list": ("list_dir", {}),
    "search": ("grep", {"pattern": "x", "path": "src"}),
    "write inside": ("write_file", {"path": "src/new.py", "content": ""}),
    "edit inside": ("edit_file", {"path": "a.txt", "old": "x", "new": "y"}),
    "write the lib": ("write_file", {"path": "../lib/x", "content": ""}),
    "write outside": ("write_file", {"path": "../out/x", "content": ""}),
    "write by link": ("write_file", {"path": "to_out/x", "content": ""}),
    "write internal": ("write_file", {"path": "../state/plan.md", "content": ""}),
    "write docs": ("write_file", {"path": "../docs/x", "content": ""}),
    "write the log": ("write_file", {"path": "../state/log", "content": ""}),
    "write a secret": ("write_file", {"path": ".env", "content": ""}),
    "write a hook": ("write_file", {"path": ".git/hooks/pre-commit", "content": ""}),
    "patch": ("apply_patch", {"patch": PATCH.format("src/b")}),
    "patch outside": ("apply_patch", {"patch": PATCH.format("../out/b")}),
    "patch that moves": ("apply_patch", {"patch": MOVE}),
    "patch of what": ("apply_patch", {"patch": "?"}),
    "command": ("bash", {"command": "make build"}),
    "reading command": ("bash", {"command": "cat a.txt"}),
    "command that reads a secret": ("bash", {"command": "cat .env"}),
    "command that writes": ("bash", {"command": "make x > a.txt"}),
    "command that writes the lib": ("bash", {"command": "cp a.txt ../lib/x"}),
    "command that writes the log": ("bash", {"command": "make x > ../state/log"}),
    "command of what": ("bash", {"command": "$(x)"}),
    "program": ("python", {"code": "print(1)"}),
    "fetch": ("fetch_url", {"url": "https://example.com"}),
    "search the web": ("web_search", {"query": "x"}),
    "todo": ("todo", {"items": []}),
    "stop a task": ("task_stop", {"id": "bg-1"}),
    "agent": ("subagent", {"agent": "explore", "task": "x"}),
    "unknown": ("frobnicate", {"x": 1}),
    "no path": ("read_file", {"path": "a\0b"}),
    "path of no type": ("write_file", {"path": 3}),
}
# plan, default, accept-edits, bypass; a: allow, ?: ask, -: deny
TABLE = {
    "read inside": "aaaa",
    "read the lib": "aaaa",
    "read outside": "???a",
    "read by link": "???a",
    "read internal": "aaaa",
    "read a secret": "???a",
    "list": "aaaa",
    "search": "aaaa",
    "write inside": "-?aa",
    "edit inside": "-?aa",
    "write the lib": "----",
    "write outside": "-??a",
    "write by link": "-??a",
    "write internal": "aaaa",
    "write docs": "----",
    "write the log": "----",
    "write a secret": "-??a",
    "write a hook": "-??a",
    "patch": "-?aa",
    "patch outside": "-??a",
    "patch that moves": "-?aa",
    "patch of what": "-??a",
    "command": "-??a",
    "reading command": "-aaa",
    "command that reads a secret": "-??a",
    "command that writes": "-??a",
    "command that writes the lib": "----",
    "command that writes the log": "----",
    "command of what": "-??a",
    "program": "-??a",
    "fetch": "???a",
    "search the web": "a??a",
    "todo": "aaaa",
    "stop a task": "-aaa",
    "agent": "-aaa",
    "unknown": "-??a",
    "no path": "----",
    "path of no type": "-??a",
}
LETTERS = {"allow": "a", "ask": "?", "deny": "-"}


@pytest.mark.parametrize("name", CALLS)
def test_the_table(name: str, base: Path) -> None:
    tool, args = CALLS[name]
    got = "".join(LETTERS[ask(engine_of(base, mode=mode), tool, **args).answer] for mode in MODES)
    assert got == TABLE[name]


@pytest.mark.parametrize("name", CALLS)
def test_what_decided_is_told(name: str, base: Path) -> None:
    tool, args = CALLS[name]
    for mode in MODES:
        decision = ask(engine_of(base, mode=mode), tool, **args)
        assert decision.by
        assert decision.answer == "allow" or decision.reason
        assert tool in decision.explain()


# --- the spec's cases ------------------------------------------------------------------------------------------


def decided(decision: Decision) -> tuple[str, str]:
    return decision.answer, decision.finding.decided


def test_reading_is_allowed_and_writing_asked(base: Path) -> None:  # T229, T230
    assert decided(ask(engine_of(base), "read_file", path="a.txt")) == ("allow", "mode")
    assert decided(ask(engine_of(base), "write_file", path="a.txt")) == ("ask", "mode")


def test_a_request_may_have_a_workspace_of_its_own(base: Path) -> None:  # T231
    engine = engine_of(base)
    for workspace, path in ((base / "w", "w/a.txt"), (base / "wt", "wt/a.txt")):
        request = Request(tool="write_file", capability="write", writes=("a.txt",), workspace=str(workspace))
        place = engine.decide(request).findings[0].access.place
        assert place is not None
        assert place.real == str(base / path)


def test_outside_the_roots_a_yes_is_for_once(base: Path) -> None:  # T232, T233
    for path in ("../out/x", "to_out/x", "to_out/new"):
        decision = ask(engine_of(base), "read_file", path=path)
        assert decision.finding.outside
        assert decision.offers == {"once": "this call"}
        assert decision.scopes == ()


def test_a_stored_grant_does_not_beat_plan_mode_or_a_deny_rule(base: Path) -> None:  # T234
    store = GrantStore(base / "grants.json")
    engine = engine_of(base, store=store)
    store.add(ask(engine, "write_file", path="a.txt").scopes)
    assert decided(ask(engine, "write_file", path="a.txt")) == ("allow", "grant")
    engine.mode = "plan"
    assert decided(ask(engine, "write_file", path="a.txt")) == ("deny", "mode")
    denying = engine_of(base, store=store, rules=Rules.parse(deny=["Edit(a.txt)"]))
    assert decided(ask(denying, "write_file", path="a.txt")) == ("deny", "rule")


def test_internal_tools_in_plan_mode(base: Path) -> None:  # T235, T236, T237
    said = {"capability": "internal"}
    engine = engine_of(base, mode="plan")
    assert decided(ask(engine, "remember", meta=said)) == ("deny", "mode")
    listed = engine_of(base, mode="plan", plan_tools={"remember", "write_file"})
    assert decided(ask(listed, "remember", meta=said)) == ("allow", "mode")
    assert decided(ask(listed, "write_file", path="a.txt")) == ("deny", "mode")


def test_the_host_may_let_things_pass_in_plan_mode(base: Path) -> None:  # T238, T239, T240, T241
    def allows(request: Request) -> bool:
        return request.writes == ("plan.md",) or request.command == "make docs"

    hooked, plain = engine_of(base, mode="plan", plan_allows=allows), engine_of(base, mode="plan")
    assert decided(ask(hooked, "bash", command="make docs")) == ("allow", "hook")
    assert decided(ask(hooked, "write_file", path="plan.md")) == ("allow", "hook")
    assert ask(hooked, "write_file", path="a.txt").answer == "deny"
    assert ask(hooked, "bash", command="make all").answer == "deny"
    assert ask(plain, "write_file", path="plan.md").answer == "deny"
    assert ask(plain, "bash", command="make docs").answer == "deny"


def test_the_hook_of_plan_mode_does_not_beat_a_deny_rule(base: Path) -> None:
    rules = Rules.parse(deny=["Edit(plan.md)"])
    engine = engine_of(base, mode="plan", plan_allows=lambda request: True, rules=rules)
    assert decided(ask(engine, "write_file", path="plan.md")) == ("deny", "rule")
    assert decided(ask(engine, "write_file", path="../lib/x")) == ("deny", "roots")


def test_reading_outside_is_asked_in_plan_mode_too(base: Path) -> None:  # T242
    assert ask(engine_of(base, mode="plan"), "read_file", path="../out/x").answer == "ask"


def test_a_tool_says_what_it_is(base: Path) -> None:  # T243
    decision = ask(engine_of(base), "custom_lookup", meta={"capability": "read", "key": "custom"})
    assert decision.answer == "allow"
    assert decision.finding.scope is not None
    assert decision.finding.scope.key == "custom:custom_lookup:"


def test_places_of_the_host(base: Path) -> None:  # T244 - T247
    engine = engine_of(base)
    assert decided(ask(engine, "read_file", path="../docs/x")) == ("allow", "internal")
    assert decided(ask(engine, "write_file", path="../state/plan.md")) == ("allow", "internal")
    assert decided(ask(engine, "read_file", path="../state/plan.md")) == ("allow", "internal")
    assert decided(ask(engine, "write_file", path="../docs/x")) == ("deny", "roots")
    assert not ask(engine, "read_file", path="../docs/x").finding.outside


def test_rules_hold_in_the_places_of_the_host(base: Path) -> None:  # T248
    engine = engine_of(
        base, rules=Rules.parse(deny=[f"Read({base}/docs/**)"], ask=[f"Edit({base}/state/p*)"])
    )
    assert decided(ask(engine, "read_file", path="../docs/x")) == ("deny", "rule")
    assert decided(ask(engine, "write_file", path="../state/plan.md")) == ("ask", "rule")


def test_a_place_of_the_host_in_the_workspace_is_asked_about(base: Path) -> None:  # T249
    roots = Directories(base / "w", internal_write=[base / "w" / ".agent"])
    assert decided(ask(Permissions(roots), "write_file", path=".agent/x")) == ("ask", "mode")


def test_plan_mode_lets_the_host_write_and_search(base: Path) -> None:  # T250, T251
    engine = engine_of(base, mode="plan")
    assert decided(ask(engine, "write_file", path="../state/plan.md")) == ("allow", "mode")
    assert decided(ask(engine, "web_search", query="x")) == ("allow", "mode")
    assert ask(engine, "fetch_url", url="https://a.com").answer == "ask"  # a host that the model chooses
    ruled = engine_of(base, mode="plan", rules=Rules.parse(allow=["WebFetch(a.com)"]))
    assert ask(ruled, "fetch_url", url="https://a.com").answer == "allow"


# --- what lowers nothing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "meta", "args", "capability"),
    [
        ("write_file", {"capability": "read"}, {"path": "a"}, "write"),
        ("bash", {"capability": "internal"}, {"command": "ls"}, "exec"),
        ("read_file", {"capability": "exec"}, {"path": "a"}, "exec"),
        ("own", {"capability": "read", "path_args": ["file"]}, {"file": "a"}, "read"),
        ("own", {"capability": "read", "path_args": ["file"]}, {"file": ["a", "b"]}, "read"),
        ("own", {"capability": "read", "path_args": ["file"]}, {"file": 3}, "unknown"),
        ("own", {"capability": "read", "path_args": ["file"]}, {}, "unknown"),
        ("own", {"path_args": ["file"]}, {"file": "a"}, "unknown"),
        ("own", {"capability": "write", "path_args": ["file"]}, {"file": "a"}, "write"),
        ("own", {"capability": "read", "command_arg": "run"}, {"run": "ls"}, "exec"),
        ("own", {"capability": "read", "host_arg": "to"}, {"to": "a.com"}, "network"),
        ("own", {"capability": "read"}, {"_read_only": False}, "unknown"),
        ("own", {"capability": "read"}, {"_destructive": True}, "unknown"),
        ("own", {"capability": "internal"}, {}, "internal"),
        ("own", None, {"path": "a", "_read_only": True}, "unknown"),
        ("mcp__other__x", None, {"_read_only": True, "_open_world": False}, "unknown"),
        ("mcp__trusted__x", None, {"_read_only": True, "_open_world": False}, "read"),
        ("mcp__trusted__x", None, {"_read_only": True}, "network"),
        ("mcp__trusted__x", None, {"_read_only": True, "_destructive": True}, "unknown"),
        ("mcp__trusted__x", None, {}, "unknown"),
        ("mcp__trusted__x", {"capability": "read"}, {}, "read"),
        ("mcp__other__x", {"capability": "read"}, {}, "unknown"),
        ("mcp__x", {"capability": "read"}, {}, "unknown"),
    ],
)
def test_a_label_never_lowers_what_is_shown(
    tool: str, meta: Any, args: dict[str, Any], capability: str, base: Path
) -> None:
    assert ask(engine_of(base), tool, meta, **args).request.capability == capability


@pytest.mark.parametrize(
    "meta",
    [
        "read",
        {"capability": "reed"},
        {"path": "x"},
        {"path_args": "file"},
        {"host_arg": 3},
        {"capability": []},
    ],
)
def test_a_label_with_a_mistake_is_an_error(meta: Any, base: Path) -> None:
    with pytest.raises(ToolDefinitionError, match="permissions"):
        ask(engine_of(base), "own", meta)


def test_a_destructive_tool_is_allowed_by_its_name_only(base: Path) -> None:
    for rule, answer in (("mcp__x__*", "ask"), ("mcp__x__drop", "allow")):
        engine = engine_of(base, rules=Rules.parse(allow=[rule]))
        assert ask(engine, "mcp__x__drop", _destructive=True).answer == answer


def test_unknown_tools_may_be_refused(base: Path) -> None:
    assert ask(engine_of(base, deny_unknown=True), "frobnicate").answer == "deny"


def test_what_cannot_be_read_is_no_way_around_a_deny_rule(base: Path) -> None:
    engine = engine_of(base, mode="bypass", rules=Rules.parse(deny=["Edit(a.txt)"]))
    assert ask(engine, "apply_patch", patch="?").answer == "ask"


def test_what_cannot_be_read_is_granted_for_one_call_only(base: Path) -> None:
    assert ask(engine_of(base), "apply_patch", patch="?").offers == {"once": "this call"}


def test_the_source_of_a_rule_is_its_own(base: Path) -> None:
    rules = Rules.parse(allow=["Read"], source="user") + Rules.parse(
        allow=["Read(a.txt)", "Edit(a.txt)"], source="project"
    )
    found = ask(engine_of(base, rules=rules), "write_file", path="a.txt").finding
    assert (found.rule, found.source) == ("Edit(a.txt)", "project")


def test_the_store_is_never_written(base: Path) -> None:
    store = GrantStore(base / "w" / "grants.json")
    store.add([])
    engine = Permissions(base / "w", store=store, mode="bypass")
    for path in ("grants.json", "grants.json.lock", "./src/../grants.json"):
        assert decided(ask(engine, "write_file", path=path)) == ("deny", "protected")


def test_a_search_is_asked_where_it_would_read_what_is_kept_from_reading(base: Path) -> None:
    engine = engine_of(base, rules=Rules.parse(deny=["Read(secrets/**)"]))
    assert ask(engine, "grep", pattern="x", path="secrets").answer == "deny"
    assert ask(engine, "grep", pattern="x", path="src").answer == "allow"
    found = ask(engine, "grep", pattern="x")
    assert (found.answer, found.by) == ("ask", "rule Read(secrets/**)")
    assert found.scopes == ()
    sensitive = ask(engine_of(base), "grep", pattern="x")
    assert (sensitive.by, sensitive.scopes[0].text) == ("rule Read(.env)", "grep .")
    assert ask(engine_of(base, sensitive=()), "grep", pattern="x").answer == "allow"


def test_a_search_that_names_what_is_left_out_of_others_is_looked_at_there(base: Path) -> None:
    (base / "w" / "src" / ".venv").mkdir()
    (base / "w" / "src" / ".venv" / ".env").write_text("x")
    assert ask(engine_of(base), "grep", pattern="x", path="src").answer == "allow"
    assert ask(engine_of(base), "grep", pattern="x", path="src", glob="*.py").answer == "allow"
    assert ask(engine_of(base), "grep", pattern="x", path="src", glob=".venv/**").answer == "ask"
    assert ask(engine_of(base), "grep", pattern="x", path="src/.venv").answer == "ask"


def test_a_large_directory_is_asked_about_where_a_rule_forbids_something(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unspool.tools.permissions.searching._MAX_ENTRIES", 0)
    engine = engine_of(base, rules=Rules.parse(deny=["Read(never)"]))
    assert ask(engine, "grep", pattern="x").answer == "ask"
    assert ask(engine_of(base), "grep", pattern="x").answer == "allow"  # what is built in is not worth it


def test_the_mode_changes_at_once_and_a_wrong_one_changes_nothing(base: Path) -> None:
    engine = engine_of(base)
    engine.mode = "Accept Edits"
    assert ask(engine, "write_file", path="a.txt").answer == "allow"
    with pytest.raises(Exception, match="no such mode"):
        engine.mode = "yolo"
    assert engine.mode == "accept-edits"


# --- properties ------------------------------------------------------------------------------------------------

RULES = st.sampled_from(
    [
        "Edit(src/**)",
        "Edit(**)",
        "Edit(to_out/**)",
        "Edit(a.txt)",
        "Read(*.py)",
        "Read(.env)",
        "Read(~/.ssh/**)",
        "WebFetch(*.example.com)",
        "WebFetch(*)",
        "Bash(make *)",
        "Bash(*)",
        "Bash(cat *)",
        "Subagent(ex*)",
        "write_file",
        "frob*",
        "*",
    ]
)
LISTS = st.lists(RULES, max_size=4)
CASES = st.sampled_from(sorted(CALLS))
STRICT = {"allow": 0, "ask": 1, "deny": 2}
EXAMPLES = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@EXAMPLES
@given(name=CASES, mode=st.sampled_from(MODES), allow=LISTS, asks=LISTS, deny=LISTS, more=RULES)
def test_another_rule_moves_a_decision_one_way_only(
    name: str, mode: str, allow: list[str], asks: list[str], deny: list[str], more: str, base: Path
) -> None:
    tool, args = CALLS[name]

    def answer(**lists: list[str]) -> int:
        rules = Rules.of({"allow": allow, "ask": asks, "deny": deny, **lists})
        return STRICT[ask(engine_of(base, mode=mode, rules=rules), tool, **args).answer]

    before = answer()
    assert answer(deny=[*deny, more]) >= before
    assert answer(ask=[*asks, more]) >= before
    after = answer(allow=[*allow, more])
    assert after <= before
    assert before < 2 or after == 2  # no allow rule lifts a denial


@EXAMPLES
@given(
    mode=st.sampled_from(MODES),
    allow=LISTS,
    deny=LISTS,
    target=st.sampled_from(
        ["../a.txt", "../src/main.py", "../.env", "../../out/x", "../../lib/x", "../new", "main"]
    ),
    tool=st.sampled_from(["read_file", "write_file", "edit_file"]),
)
def test_a_link_is_decided_like_its_target_or_stricter(
    mode: str, allow: list[str], deny: list[str], target: str, tool: str, base: Path
) -> None:
    link = base / "w" / "links" / "link"
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    engine = engine_of(base, mode=mode, rules=Rules.parse(allow=allow, deny=deny))
    by_link = ask(engine, tool, path="links/link").answer
    direct = ask(engine, tool, path=os.path.realpath(link)).answer
    assert STRICT[by_link] >= STRICT[direct]


@EXAMPLES
@given(path=st.text(alphabet="./~ab\\\u200b\u2019 e-n.v", max_size=30))
def test_no_path_leaves_the_roots_unasked(path: str, base: Path) -> None:
    decision = ask(engine_of(base, mode="accept-edits"), "write_file", path=path)
    place = decision.findings[0].access.place
    if decision.answer == "allow":
        assert place is not None
        assert place.real.startswith((f"{base}/w", f"{base}/state/"))


def test_a_directory_has_no_default_where_the_tool_takes_it_by_another_name(base: Path) -> None:
    engine = engine_of(base)
    for tool, argument, answer in (
        ("grep", "dir", "ask"),
        ("list_dir", "folder", "ask"),
        ("list_dir", "path", "allow"),
    ):
        spec = ToolSpec(name=tool, schema={"type": "object", "properties": {argument: {"type": "string"}}})
        args = {} if argument == "path" else {argument: "/etc"}
        assert engine.decide(request_of(tool, args, spec)).answer == answer


SETTINGS = [  # of programs that run by themselves, in a workspace that is the home directory
    ".config/git/config",
    ".config/systemd/user/x.service",
    ".config/autostart/x.desktop",
    ".bash_aliases",
    ".zlogout",
    ".jq",
    ".ssh/config",
]


@pytest.mark.parametrize("path", SETTINGS)
def test_settings_that_run_programs_are_asked_about(
    path: str, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(base / "w"))
    engine = engine_of(base, mode="accept-edits")
    assert ask(engine, "write_file", path=path, content="").answer == "ask"
