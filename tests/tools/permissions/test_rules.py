"""Rules as people write them, what is an error, and what each meets."""

from pathlib import Path

import pytest

from unspool.tools.permissions import Permissions, Request, Rule, RuleError, Rules, parse_rule

PARSED = {
    "Bash(git *)": ("bash", "git *"),
    "bash( make build )": ("bash", "make build"),
    "Bash(echo (x))": ("bash", "echo (x)"),
    "Bash": ("bash", ""),
    "bash": ("bash", ""),
    "Bash(*)": ("bash", ""),
    "Edit(src/**)": ("edit", "src/**"),
    "Write(src/**)": ("edit", "src/**"),
    "Read(**/*.py)": ("read", "**/*.py"),
    "Read": ("read", ""),
    "WebFetch(*.github.com)": ("webfetch", "*.github.com"),
    "Subagent(explore)": ("subagent", "explore"),
    "Subagent(ex*)": ("subagent", "ex*"),
    "read_file": ("tool", "read_file"),
    "mcp__ctx__*": ("tool", "mcp__ctx__*"),
    "*": ("tool", "*"),
}


@pytest.mark.parametrize(("text", "expected"), PARSED.items())
def test_a_rule_is_read(text: str, expected: tuple[str, str]) -> None:
    rule = parse_rule(text, "user")
    assert (rule.kind, rule.pattern) == expected
    assert (rule.text, rule.source) == (text.strip(), "user")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "Bash(",
        "Bash()",
        "Bash( )",
        "Bash)git(",
        "Bash(git) x",
        "x Bash(git)",
        "Shell(git *)",
        "Edit(../x)",
        "Read({a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b})",
        "WebFetch(https://a.com)",
        "WebFetch(a.com:80)",
        "WebFetch(a.*)",
        "Subagent(a b)",
        "two words",
        "mcp__*__x",
        "**",
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_it(text: str) -> None:
    with pytest.raises(RuleError, match="can't be read") as caught:
        parse_rule(text, "project")
    assert caught.value.details == {"rule": text, "source": "project"}


def test_empty_lists_are_no_rules() -> None:  # T252
    assert not Rules.parse(allow=[], ask=[], deny=[])
    assert not Rules()
    assert Rules.parse(deny=["x"])


def test_rules_of_several_sources_are_added_up() -> None:
    user = Rules.of({"allow": ["Bash(git *)"]}, "user")
    project = Rules.of({"deny": ["Bash(git push *)"], "ask": ["fetch_url"]}, "project")
    both = user + project
    assert [rule.source for rule in (*both.allow, *both.ask, *both.deny)] == ["user", "project", "project"]
    assert both.deny == (Rule(text="Bash(git push *)", kind="bash", pattern="git push *", source="project"),)


@pytest.mark.parametrize("given", [{"alow": ["x"]}, {"allow": "Bash"}, {"allow": [3]}])
def test_a_configuration_with_a_mistake_is_an_error(given: dict[str, list[str]]) -> None:
    with pytest.raises(RuleError):
        Rules.of(given)


def write(path: str) -> Request:
    return Request(tool="write_file", capability="write", writes=(path,))


def read(path: str) -> Request:
    return Request(tool="read_file", capability="read", reads=(path,))


def edit(path: str) -> Request:
    return Request(tool="edit_file", capability="write", writes=(path,), reads=(path,))


def fetch(url: str) -> Request:
    return Request(tool="fetch_url", capability="network", urls=(url,))


def start(agent: str) -> Request:
    return Request(tool="subagent", capability="internal", agents=(agent,))


def other(name: str) -> Request:
    return Request(tool=name, capability="unknown")


MEETS = [
    # rule, request, whether an allow rule allows it, whether a deny rule denies it
    ("Edit(src/**)", write("src/main.go"), True, True),  # T254
    ("Write(src/**)", edit("src/main.go"), True, True),
    ("Edit(src/**)", write("lib/main.go"), False, False),
    ("Read(src/**)", write("src/main.go"), False, False),
    ("Read(src/**)", edit("src/main.go"), False, True),  # an edit shows what it finds
    ("WebFetch(*.github.com)", fetch("https://api.github.com/x"), True, True),  # T254, T256
    ("WebFetch(*.github.com)", fetch("https://github.com/x"), True, True),
    ("WebFetch(github.com)", fetch("https://api.github.com/x"), False, False),
    ("WebFetch(github.com)", fetch("https://GITHUB.com.:8443/x"), True, True),
    ("WebFetch(github.com)", fetch("github.com"), True, True),
    ("WebFetch(127.0.0.1)", fetch("http://2130706433/"), True, True),
    ("WebFetch", fetch("https://a.com"), True, True),
    ("Subagent(explore)", start("explore"), True, True),
    ("Subagent(ex*)", start("Explore"), True, True),
    ("Subagent(explore)", start("explorer"), True, False),  # agents may be started without a rule
    ("mcp__ctx__*", other("mcp__ctx__search"), True, True),  # T256
    ("mcp__ctx__*", other("mcp__ctx2__search"), False, False),
    ("mcp__ctx__find", other("mcp__ctx__search"), False, False),
    ("MCP__CTX__SEARCH", other("mcp__ctx__search"), True, True),
    ("write_file", write("a"), True, True),
    ("*", write("a"), True, True),
]


@pytest.mark.parametrize(("rule", "request_", "allows", "denies"), MEETS)
def test_what_a_rule_meets(rule: str, request_: Request, allows: bool, denies: bool, tmp_path: Path) -> None:
    allowing = Permissions(tmp_path, rules=Rules.parse(allow=[rule]))
    denying = Permissions(tmp_path, rules=Rules.parse(deny=[rule]), mode="bypass")
    assert (allowing.decide(request_).answer == "allow") is allows
    assert (denying.decide(request_).answer == "deny") is denies


def test_a_url_without_a_plain_host_is_asked_where_a_host_is_forbidden(tmp_path: Path) -> None:
    request = fetch("http://good.com\\@evil.org/")
    denying = Permissions(tmp_path, rules=Rules.parse(deny=["WebFetch(evil.org)"]), mode="bypass")
    assert denying.decide(request).answer == "ask"
    allowing = Permissions(tmp_path, rules=Rules.parse(allow=["WebFetch(good.com)"]))
    assert allowing.decide(request).answer == "ask"


@pytest.mark.parametrize(
    ("rules", "answer", "by"),
    [
        (Rules.parse(allow=["write_file"]), "allow", "rule write_file"),
        (Rules.parse(allow=["write_file"], ask=["Edit(a)"]), "ask", "rule Edit(a)"),
        (Rules.parse(allow=["write_file"], ask=["Edit(a)"], deny=["Write(*)"]), "deny", "rule Write(*)"),
    ],
)
def test_deny_beats_ask_beats_allow(rules: Rules, answer: str, by: str, tmp_path: Path) -> None:
    decision = Permissions(tmp_path, rules=rules).decide(write("a"))
    assert (decision.answer, decision.by) == (answer, by)


def test_each_path_needs_its_own_allowance(tmp_path: Path) -> None:
    rules = Rules.parse(allow=["Edit(src/**)", "Edit(lib/**)"], deny=["Edit(src/gen/**)"])
    engine = Permissions(tmp_path, rules=rules)

    def patch(*paths: str) -> str:
        return engine.decide(Request(tool="apply_patch", capability="write", writes=paths)).answer

    assert patch("src/a", "lib/b") == "allow"
    assert patch("src/a", "doc/b") == "ask"
    assert patch("src/a", "src/gen/b") == "deny"


def test_an_allow_rule_looks_at_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "link").symlink_to("../other")
    engine = Permissions(tmp_path, rules=Rules.parse(allow=["Edit(src/**)"]))
    assert engine.decide(write("src/link")).answer == "ask"


@pytest.mark.parametrize("written", ["link/x", "real/x", "real/../link/x", "link/./x"])
@pytest.mark.parametrize(
    "rule", ["Edit(link/**)", "Edit(real/**)", "Edit(link)", "Edit(real/x)", "Edit(link/x)"]
)
def test_a_deny_rule_holds_for_every_name_of_a_place(rule: str, written: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    engine = Permissions(tmp_path, rules=Rules.parse(deny=[rule]), mode="bypass")
    assert engine.decide(write(written)).answer == "deny"


def test_a_rule_in_the_manner_of_others_is_refused_with_ours() -> None:
    with pytest.raises(RuleError, match=r"written with a blank: rm \*"):
        parse_rule("Bash(rm:*)")
