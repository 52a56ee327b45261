"""What is recorded of a decision: plain JSON, complete, and without secrets."""

import json
from pathlib import Path

import pytest

from unspool.kernel.redaction import forget_secret, hide_secret
from unspool.tools.permissions import Permissions, Request, Rules
from unspool.tools.permissions.audit import verdict_of

KEY = "sk-ant-" + "Ab1" * 12
SECRET = "correct horse battery staple"


def verdict(work: Path, request: Request, **lists: list[str]) -> dict[str, object]:
    engine = Permissions(work, rules=Rules.parse(source="user", **lists))
    given = verdict_of(engine.decide(request))
    assert json.loads(json.dumps(given.details)) == given.details
    return {"decision": given.decision, "by": given.by, "reason": given.reason, **given.details}


def test_a_question_says_what_it_is_about_and_what_each_answer_covers(tmp_path: Path) -> None:
    request = Request(tool="edit_file", capability="write", reads=("a",), writes=("a",))
    real = str(tmp_path / "a")
    assert verdict(tmp_path, request) == {
        "decision": "ask",
        "by": "mode default",
        "reason": "it writes a",
        "tool": "edit_file",
        "capability": "write",
        "mode": "default",
        "decided": "mode",
        "keys": [f"write:edit_file:{real}"],
        "paths": [
            {"access": "write", "path": "a", "real": real},
            {"access": "read", "path": "a", "real": real},
        ],
        "grants": {"once": "this call", "session": "edit_file a", "always": "edit_file a"},
    }


def test_a_rule_is_named_with_its_source(tmp_path: Path) -> None:
    request = Request(tool="fetch_url", capability="network", urls=("https://A.com/x",))
    assert verdict(tmp_path, request, allow=["WebFetch(a.com)"]) == {
        "decision": "allow",
        "by": "rule WebFetch(a.com)",
        "reason": "",
        "tool": "fetch_url",
        "capability": "network",
        "mode": "default",
        "decided": "rule",
        "keys": [],
        "rule": "WebFetch(a.com)",
        "source": "user",
        "hosts": ["a.com"],
    }


def test_a_question_has_all_its_reasons(tmp_path: Path) -> None:
    request = Request(tool="apply_patch", capability="write", writes=("a", "../b", ".env"))
    said = verdict(tmp_path, request)
    assert said["reason"] == "it writes a; ../b is outside the workspace; .env is a file to be careful with"
    assert (said["outside"], said["keys"], said["grants"]) == (True, [], {"once": "this call"})


HOSTILE: dict[str, Request] = {  # as large as a call may be
    "a command": Request(tool="bash", capability="exec", command="x" * 60_000),
    "paths outside": Request(tool="bash", capability="exec", command="cat " + " ".join(f"../f{n}" for n in range(1900))),
    "long paths": Request(tool="bash", capability="exec", command="cat " + " ".join("../" * 900 + f"{n}" for n in range(20))),
    "code": Request(tool="python", capability="exec", code="x" * 1_000_000),
    "files": Request(tool="apply_patch", capability="write", writes=tuple(f"../{'x' * 200}{n}" for n in range(200))),
    "a URL": Request(tool="fetch_url", capability="network", urls=("http:\\" + "x" * 1_000_000,)),
    "agents": Request(tool="subagent", capability="internal", agents=tuple(["x" * 1000] * 1000)),
}  # fmt: skip


@pytest.mark.parametrize("request_", HOSTILE.values(), ids=HOSTILE)
def test_what_is_recorded_of_a_large_request_is_bounded(request_: Request, tmp_path: Path) -> None:
    said = verdict(tmp_path, request_)
    assert len(json.dumps(said)) < 80_000
    assert len(str(said["reason"])) < 4000


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    writes = tuple(f"../{n}" for n in range(60))
    said = verdict(tmp_path, Request(tool="apply_patch", capability="write", writes=writes))
    assert isinstance(said["paths"], list)
    assert (len(said["paths"]), said["left_out"]) == (50, 10)


def test_half_a_secret_is_hidden_too(tmp_path: Path) -> None:
    command = "x" * 490 + " " + KEY
    assert "sk-ant" not in json.dumps(
        verdict(tmp_path, Request(tool="bash", capability="exec", command=command))
    )


def test_a_large_request_is_told_in_few_words_and_recorded_in_full(tmp_path: Path) -> None:
    request = Request(tool="apply_patch", capability="write", writes=tuple(f"f{n:02}" for n in range(30)))
    said = verdict(tmp_path, request)
    assert str(said["reason"]).endswith("it writes f04; and 25 more")
    grants, keys = said["grants"], said["keys"]
    assert isinstance(grants, dict)
    assert grants["session"].endswith("apply_patch f19, and 10 more")
    assert isinstance(keys, list)
    assert len(keys) == 30
    long = verdict(tmp_path, Request(tool="bash", capability="exec", command="x" * 5000))
    assert len(str(long["command"])) == 500


@pytest.mark.parametrize(
    "request_",
    [
        Request(tool="bash", capability="exec", command=f"deploy --key {KEY} '{SECRET}'"),
        Request(tool="python", capability="exec", code=f"key = '{KEY}' '{SECRET}'"),
        Request(tool="write_file", capability="write", writes=(f"../{KEY}/{SECRET}",)),
        Request(tool="fetch_url", capability="network", urls=(f"https:/\\{KEY}.{SECRET}",)),
    ],
    ids=lambda request: request.tool,
)
def test_secrets_are_hidden(request_: Request, tmp_path: Path) -> None:
    hide_secret(SECRET)
    try:
        text = json.dumps(verdict(tmp_path, request_))
    finally:
        forget_secret(SECRET)
    assert KEY not in text
    assert SECRET not in text
    assert "redacted" in text


def test_a_decision_is_explained_part_by_part(tmp_path: Path) -> None:
    engine = Permissions(tmp_path, rules=Rules.parse(allow=["Edit(src/**)"]))
    request = Request(tool="apply_patch", capability="write", writes=("src/a", "b"))
    assert engine.explain(request) == (
        "ask: apply_patch (mode default)\n  allow: write src/a: rule Edit(src/**)\n  ask: write b: it writes b"
    )
