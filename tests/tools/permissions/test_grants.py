"""What a person's yes covers: exactly that, for as long as was said, and no more."""

from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.ports import ToolSpec
from unspool.tools.permissions import Decision, Grants, GrantStore, Permissions, Scope
from unspool.tools.permissions.requests import request_of


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "w" / "sub").mkdir(parents=True)
    (tmp_path / "w" / "a.py").write_text("x")
    return tmp_path / "w"


def ask(engine: Permissions, tool: str, /, session: str = "s", **args: Any) -> Decision:
    return engine.decide(request_of(tool, args, ToolSpec(name=tool)), session=session)


def granted(work: Path, tool: str, /, **args: Any) -> tuple[Permissions, tuple[Scope, ...]]:
    """An engine with a stored grant for a call."""
    engine = Permissions(work, store=GrantStore(work.parent / "grants.json"))
    scopes = ask(engine, tool, **args).scopes
    assert scopes
    GrantStore(work.parent / "grants.json").add(scopes)
    assert ask(engine, tool, **args).finding.decided == "grant"
    return engine, scopes


PATCH = "*** Begin Patch\n*** Add File: x\n+1\n*** Add File: {}\n+1\n*** End Patch"
EXACT: dict[str, tuple[tuple[str, dict[str, Any]], list[tuple[str, dict[str, Any]]]]] = {
    # what is granted, and what is still asked
    "path": (
        ("write_file", {"path": "a.py"}),
        [
            ("write_file", {"path": "b.py"}),
            ("edit_file", {"path": "a.py"}),
            ("write_file", {"path": "sub/a.py"}),
        ],
    ),
    "command": (
        ("bash", {"command": "make build"}),
        [
            ("bash", {"command": "make  build"}),
            ("bash", {"command": "make build x"}),
            ("bash", {"command": "make build", "workdir": "sub"}),
            ("python", {"code": "make build"}),
        ],
    ),
    "program": (("python", {"code": "1"}), [("python", {"code": "2"})]),
    "host": (
        ("fetch_url", {"url": "https://a.com/x"}),
        [("fetch_url", {"url": "https://b.com/x"}), ("fetch_url", {"url": "https://x.a.com/x"})],
    ),
    "tool": (("frob", {"x": 1}), [("frob2", {"x": 1})]),
    "several": (
        ("apply_patch", {"patch": PATCH.format("y")}),
        [("apply_patch", {"patch": PATCH.format("z")}), ("write_file", {"path": "x"})],
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_grant_covers_what_was_asked_and_nothing_else(name: str, work: Path) -> None:
    (tool, args), others = EXACT[name]
    engine, _ = granted(work, tool, **args)
    for other, other_args in others:
        assert ask(engine, other, **other_args).answer == "ask", other_args


def test_a_host_is_granted_whatever_the_page(work: Path) -> None:
    engine, scopes = granted(work, "fetch_url", url="https://a.com/x")
    assert ask(engine, "fetch_url", url="http://A.com.:81/y").answer == "allow"
    assert scopes[0].text == "fetch_url a.com"


def test_a_path_is_granted_under_each_of_its_names(work: Path) -> None:
    (work / "link").symlink_to("a.py")
    engine, scopes = granted(work, "write_file", path="link")
    assert scopes[0].target == str(work / "a.py")
    assert ask(engine, "write_file", path="./sub/../a.py").answer == "allow"


def test_what_a_grant_would_cover_is_shown(work: Path) -> None:
    engine = Permissions(work)
    assert ask(engine, "write_file", path="sub/b.py").offers == {
        "once": "this call",
        "session": "write_file sub/b.py",
        "always": "write_file sub/b.py",
    }
    assert ask(engine, "bash", command="make\nbuild").offers["session"] == 'bash "make\\nbuild"'
    assert ask(engine, "bash", command="x" * 1000).offers["session"].endswith("x…")


def test_a_command_that_is_stored_is_not_shown_with_its_secrets(work: Path) -> None:
    key = "sk-ant-" + "Ab1" * 12
    _, scopes = granted(work, "bash", command=f"deploy --key {key}")
    text = (work.parent / "grants.json").read_text()
    assert key not in text
    assert "redacted" in scopes[0].text


SCOPE = Scope("write", "write_file", "/w/a", "write_file a")


@pytest.mark.parametrize("said", ["once", None, "forever", "Session", 3, ["always"]])
def test_any_other_word_is_for_once(said: object, tmp_path: Path) -> None:
    grants = Grants(GrantStore(tmp_path / "g.json"))
    kept = grants.keep("s", [SCOPE], said)
    assert (kept.lasts, kept.keys) == ("once", ())
    assert bool(kept.note) is (said not in ("once", None))
    assert grants.covers("s", SCOPE.key) == ""


def test_a_session_grant_is_the_sessions_own(tmp_path: Path) -> None:
    grants = Grants(GrantStore(tmp_path / "g.json"))
    assert grants.keep("one", [SCOPE], "session").lasts == "session"
    assert grants.covers("one", SCOPE.key) == "session"
    assert grants.covers("other", SCOPE.key) == ""
    grants.forget("one")
    assert grants.covers("one", SCOPE.key) == ""


def test_a_stored_grant_is_everybodys(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    assert Grants(GrantStore(path)).keep("one", [SCOPE], "always").lasts == "always"
    assert Grants(GrantStore(path)).covers("other", SCOPE.key) == "always"


@pytest.mark.parametrize("blocked", [True, False])
def test_what_cannot_be_stored_holds_for_the_session_and_is_told(blocked: bool, tmp_path: Path) -> None:
    store = GrantStore(tmp_path / "d" / "g.json")
    if blocked:
        (tmp_path / "d").write_text("no directory")
    kept = Grants(store if blocked else None).keep("s", [SCOPE], "always")
    assert kept.lasts == "session"
    assert kept.details["note"].startswith("it could not be stored: permissions: ")


def test_a_store_that_cannot_be_read_grants_nothing_and_is_told(work: Path) -> None:
    engine, _ = granted(work, "write_file", path="a.py")
    (work.parent / "grants.json").write_text("damaged")
    decision = ask(engine, "write_file", path="a.py")
    assert decision.answer == "ask"
    assert "damaged" in decision.store_error


def test_grants_are_bounded() -> None:
    grants = Grants()
    for n in range(300):
        grants.remember(f"s{n}", [SCOPE.key])
    assert grants.covers("s0", SCOPE.key) == ""
    assert grants.covers("s299", SCOPE.key) == "session"
