"""Planted bugs: failing tests, looking for the cause, wrong guesses, the mend, and the tests again.

Read with: ``context_session.py`` (the habits), ``context_sources.py`` (modules with their tests).
"""

import re
from typing import NamedTuple

from context_session import Session, bash, grep
from context_workspace import Workspace

_SLIPS = (
    (" == ", " != "),
    (" is None", " is not None"),
    (" and ", " or "),
    ("[0]", "[-1]"),
    ("= True", "= False"),
    ("return not ", "return "),
)
_TRIES = 12


class Bug(NamedTuple):
    """A slip in one line: where, what is there and what was, and the commit that brought it in."""

    module: str
    test: str
    line: int
    wrong: str
    right: str
    ticket: str


def mend(session: Session, folder: str) -> None:
    """Find and mend planted bugs, one failing test module after the other."""
    bugs = plant(session, max(2, session.target // 40))
    several = session.chance(0.5)
    tickets = ", ".join(bug.ticket for bug in bugs[:3])
    session.user(
        "Tests fail since the last few commits. Find the causes and mend them, one commit each. Do not change "
        f"the tests. They came in with {tickets} and others."
    )
    session.look_around(folder)
    session.reply("Which tests are there?", bash("ls test | head -50"), bash("git log --oneline -15"))
    mended: list[tuple[str, Bug, str]] = []
    for number, bug in enumerate(bugs):
        if session.done:
            break
        failing = _mend(session, bug, session.target * (number + 1) // len(bugs))
        commit = session.commit(f"{bug.ticket}: mend {bug.module}")
        mended.append((commit, bug, failing))
        if number % 3 == 2:
            _look_back(session, mended, several)
    told = "\n".join(f"- {commit} ({bug.ticket}): {failing}" for commit, bug, failing in mended)
    session.say(f"Mended, each with the test that showed it:\n{told}")


def plant(session: Session, count: int) -> list[Bug]:
    """Commit slips that tests notice; every other commit is harmless, and the order is random."""
    workspace, rand = session.workspace, session.rand
    workspace.sh("python3 -m compileall -q test")  # they stay as they are, and are run often
    tests = sorted(str(path.relative_to(workspace.root)) for path in workspace.root.glob("test/test_*.py"))
    bugs: list[Bug] = []
    while len(bugs) < count:
        test = tests[len(bugs) % len(tests)]
        bug = _slip(session, test, {(bug.module, bug.line) for bug in bugs})
        bugs.append(bug)
        verb = rand.choice(("simplify", "tidy", "shorten", "clean up"))
        workspace.commit(f"{bug.ticket}: {verb} {bug.module}")
    rand.shuffle(bugs)
    return bugs


def _slip(session: Session, test: str, taken: set[tuple[str, int]]) -> Bug:
    """A slip in the module of ``test`` that lets it fail."""
    workspace = session.workspace
    name = test.removeprefix("test/test_").removesuffix(".py")
    module = f"{name}.py"
    candidates = [slip for slip in _slips(workspace.lines(module)) if (module, slip[0]) not in taken]
    session.rand.shuffle(candidates)
    for number, line, wrong in candidates[:_TRIES]:
        if session.anchored(module, number, wrong) is None:
            continue
        bug = Bug(module, test, number, wrong, line, workspace.ticket())
        _put(workspace, bug, wrong)
        # CPU time, which does not depend on what else runs: a slip may let a parser go round for ever
        said = workspace.sh(f"ulimit -t 2; python3 -m unittest test.test_{name} 2>&1 | tail -4")
        if "FAILED (" in said.text and session.anchored(module, number, line):
            return bug
        _put(workspace, bug, line)
    raise RuntimeError(f"no slip among {_TRIES} in {module} lets {test} fail")


def _slips(lines: list[str]) -> list[tuple[int, str, str]]:
    """Number, text and text with a slip of each line of code that can have one."""
    return [
        (number, line, line.replace(old, new, 1))
        for number, line in enumerate(lines, 1)
        for old, new in _SLIPS
        if old in line and not line.lstrip().startswith(("#", '"', ">>>", "..."))
    ]


def _put(workspace: Workspace, bug: Bug, text: str) -> None:
    lines = workspace.lines(bug.module)
    lines[bug.line - 1] = text
    (workspace.root / bug.module).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _mend(session: Session, bug: Bug, until: int) -> str:
    """Mend one bug; the id of the test that showed it. It guesses until about model call ``until``."""
    suite = bug.test.removesuffix(".py").replace("/", ".")
    said = session.reply(
        f"Running `{suite}`.", bash(f"ulimit -t 5; python3 -m unittest {suite} 2>&1 | tail -120")
    )[0].text
    failing = re.findall(r"(?:FAIL|ERROR): \w+ \(([\w.]+)\)", said)
    shown = failing[0] if failing else suite
    places = [int(number) for number in re.findall(rf'{re.escape(bug.test)}", line (\d+)', said)]
    session.look_at(bug.test, places[0] if places else 1, f"`{shown}` fails. What does it expect?")
    inside = re.findall(rf'{re.escape(bug.module)}", line (\d+)', said)
    if inside:
        session.look_at(bug.module, int(inside[-1]), "The traceback leads here.")
    else:
        session.open(bug.module, f"Now the module itself, `{bug.module}`.", whole=True)
    while session.replies < until - 8:
        session.go_back(0.2)
        _guess(session, bug, shown)
        if places:
            session.look_at(bug.test, session.rand.choice(places), "Back to what the test does.")
    commit = _cause(session, bug)
    session.look_at(bug.module, bug.line, "This is the line.")
    change = session.anchored(bug.module, bug.line, bug.right)
    if change is None:
        raise RuntimeError(f"{bug.module}: line {bug.line} cannot be told from others")
    session.edit(f"{commit} turned the condition around; I put it right.", change)
    session.reply(
        f"Does `{shown}` pass now?", bash(f"ulimit -t 5; python3 -m unittest {shown} 2>&1 | tail -30")
    )
    if session.chance(0.5):
        session.reply(
            "And the whole module?", bash(f"ulimit -t 5; python3 -m unittest {suite} 2>&1 | tail -60")
        )
    return shown


def _cause(session: Session, bug: Bug) -> str:
    """The commit that brought the bug in, from the history of the module."""
    log = f"git log --oneline -6 -- {bug.module}"
    found = session.reply(f"Who changed `{bug.module}` last?", bash(log))[0].text
    commits = [line.split()[0] for line in found.splitlines() if bug.ticket in line]
    for commit in (commits or ["HEAD"])[:1]:
        session.reply(f"{commit} ({bug.ticket}) changed it; its diff:", bash(f"git show {commit}"))
    return commits[0] if commits else "HEAD"


def _guess(session: Session, bug: Bug, shown: str) -> None:
    """A wrong guess: reading a function and its callers; at times a print in it, the test again, and back."""
    lines = session.workspace.lines(bug.module)
    spots = [
        n for n, line in enumerate(lines, 1) if re.match(r"\s+return \w+$", line) and abs(n - bug.line) > 5
    ]
    spot = session.rand.choice(spots or [len(lines) // 2])
    names = re.findall(r"def (\w+)", "\n".join(lines[:spot]))
    name = names[-1] if names else "main"
    session.reply(
        f"Perhaps `{name}`; who uses it?", grep(rf"\b{name}\b", bug.module), grep(rf"\b{name}\b", bug.test)
    )
    session.look_at(bug.module, spot, f"Is what `{name}` returns right?")
    if session.chance(0.4):
        first = max(1, spot - 10)
        session.reply("How old are these lines?", bash(f"git blame -s -L {first},{spot} {bug.module}"))
    if not spots or session.chance(0.5):
        return
    line = lines[spot - 1]
    indent = line[: len(line) - len(line.lstrip())]
    change = session.anchored(bug.module, spot, f"{indent}print('here:', {line.split()[-1]!s})\n{line}")
    if change is None:
        return
    path, old, new = change
    session.edit("A print there will tell.", change)
    session.reply("What does it print?", bash(f"ulimit -t 5; python3 -m unittest {shown} 2>&1 | tail -40"))
    session.edit("That is not it; taking the print out.", (path, new, old))


def _look_back(session: Session, mended: list[tuple[str, Bug, str]], several: bool) -> None:
    commit, bug, failing = session.rand.choice(mended)
    if several:
        session.say(f"{len(mended)} are mended, the last in {mended[-1][0]}.")
        session.user(f"Is {bug.ticket} really done? Show me that its test passes, then go on.")
    session.reply(
        f"{bug.ticket} was mended in {commit}; its test was `{failing}`.",
        bash(f"git show --stat {commit}"),
        bash(f"ulimit -t 5; python3 -m unittest -v {failing} 2>&1 | tail -20"),
    )
