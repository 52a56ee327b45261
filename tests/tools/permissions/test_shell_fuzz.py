"""Random command lines, with bash as the judge: whenever a canary program ran, the analysis must not have ruled it out.

bash runs only what the analysis calls harmless: in a directory of its own, with a PATH of a few
programs, closed input, and a time limit. ``UNSPOOL_FUZZ=20000`` makes it longer.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from unspool.tools.permissions.read_only import is_read_only
from unspool.tools.permissions.shell_commands import analyse
from unspool.tools.permissions.shell_plan import ShellPlan
from unspool.tools.permissions.shell_rules import allowed_by, denies

EXAMPLES = int(os.environ.get("UNSPOOL_FUZZ", "200"))
HARMLESS = [
    "echo *",
    "echo",
    "cat *",
    "cat",
    "ls *",
    "ls",
    "true",
    "find *",
    "printf *",
    "test *",
    "[ *",
    "f",
    "a",
]
PROGRAMS = [
    "env", "xargs", "find", "timeout", "nice", "nohup", "sh", "bash", "cat", "ls", "setsid", "stdbuf", "awk", "sed", "sort", "head", "sleep",
]  # fmt: skip
BASH = shutil.which("bash")

pytestmark = pytest.mark.skipif(BASH is None, reason="bash is the judge")


class Judge:
    """Runs command lines in bash and tells whether the canary ran."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mark = directory / "ran"
        programs = directory / "bin"
        programs.mkdir()
        for name in PROGRAMS:
            if found := shutil.which(name):
                (programs / name).symlink_to(found)
        canary = programs / "canary"
        canary.write_text(f"#!/bin/sh\n: > {shlex.quote(str(self._mark))}\n")
        canary.chmod(0o755)
        self._environment = {"PATH": str(programs), "HOME": str(directory / "home")}

    def canary_runs(self, command: str) -> bool:
        self._mark.unlink(missing_ok=True)
        work = self._directory / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        (work / "file").write_text("echo canary\n")
        process = subprocess.Popen(
            [str(BASH), "--noprofile", "--norc", "-c", command],
            cwd=work,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):  # what it did until now counts
                process.wait(timeout=2)
        finally:
            with contextlib.suppress(ProcessLookupError):  # all of the group has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return self._mark.exists()


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    yield Judge(tmp_path_factory.mktemp("judge"))


def rules_it_out(plan: ShellPlan) -> bool:
    """Whether anything in the analysis says that the canary doesn't run."""
    return allowed_by(plan, HARMLESS) is not None or denies(plan, "canary") == "no" or is_read_only(plan)


SPELLINGS = [
    "canary",
    "'canary'",
    "can''ary",
    "\\canary",
    "$'\\x63anary'",
    '"can"ary',
    "./../bin/canary",
    "canary a",
]
WRAPS: list[Callable[[str], str]] = [
    lambda c: f"echo a; {c}",
    lambda c: f"echo a\n{c}",
    lambda c: f"echo a & {c}",
    lambda c: f"{c} | cat",
    lambda c: f"true && {c}",
    lambda c: f"({c})",
    lambda c: f"{{ {c}; }}",
    lambda c: f"! {c}",
    lambda c: f"echo $({c})",
    lambda c: f'echo "a$({c})b"',
    lambda c: f"echo `{c}`",
    lambda c: f"cat <({c})",
    lambda c: f"cat <<E\n$({c})\nE",
    lambda c: f"cat <<'E'\na\nE\n{c}",
    lambda c: f"cat <<< $({c})",
    lambda c: f"x=$({c})",
    lambda c: f"echo ${{x:-$({c})}}",
    lambda c: f"if true; then {c}; fi",
    lambda c: f"for i in a; do {c}; done",
    lambda c: f"while {c}; do break; done",
    lambda c: f"case a in a) {c};; esac",
    lambda c: f"f() {{ {c}; }}; f",
    lambda c: f"echo a # b\n{c}",
    lambda c: f"echo a \\\n; {c}",
    lambda c: f"sh -c {shlex.quote(c)}",
    lambda c: f"bash -ec {shlex.quote(c)}",
    lambda c: f"eval {shlex.quote(c)}",
    lambda c: f"trap {shlex.quote(c)} EXIT",
    lambda c: f"echo {shlex.quote(c)} | sh",
    lambda c: f"env A=1 sh -c {shlex.quote(c)}",
    lambda c: f"find . -maxdepth 0 -exec sh -c {shlex.quote(c)} \\;",
    lambda c: f"echo a | xargs -n 1 bash -c {shlex.quote(c)}",
    lambda c: f"timeout 5 nice bash -c {shlex.quote(c)}",
    lambda c: f"[[ -n $({c}) ]]",
    lambda c: f"echo $(( $({c}) ))",
    lambda c: f"time {c}",
    lambda c: f"A=1 {c}" if c.isalpha() else f"command eval {shlex.quote(c)}",
    lambda c: f"{c} > file 2>&1",
    lambda c: f"awk 'BEGIN {{ system(\"canary\") }}'; : {shlex.quote(c)}",
    lambda c: f"a='b[$({c.split()[0]})]'; echo $((a))",
]
PIECES = [  # the plain ones weigh more
    *["canary"] * 6, *[" "] * 12, *["echo "] * 4, *["\n", ";", "|", "&&"] * 2,
    "canary", "echo", "echo a", "true", "cat", "ls", "f", "a", " ", "\n", ";", "&", "&&", "\\", "$(",
    ")", "`", "'", "\"", "$'", "$\"", "{", "}", "(", "<<E\n", "\nE\n", "<<'E'\n", "<<-E\n", "<<<", "#",
    "x=", "$x", "${x", "${x:-", ":", "env ", "xargs ", "sh -c ", "bash -c ", "eval ", "find . -exec ",
    "\\;", ">", "<", ">&", "2>&1", "<(", ">(", "if ", "then ", "fi", "for i in a; do ", "do ", "done",
    "while ", "case a in a) ", ";;", "esac", "f() { ", "function f ", "[[ ", "]]", "((", "))", "$((",
    "\t", "\r", "!", "[ ", "]", "*", "?", "~", "=", "-v ", "test ", "printf ", "a[", "command ",
    "builtin ", "exec ", "time ", "coproc ", "trap ", "EXIT", ",", "..", "\\\n", "\\\\", "@(", "$", "1",
    "-c ", "-I{} ", "{}", "+", "-", "--", "alias ", "\u00a0", "|", "||",
]  # fmt: skip
MARKS = "\n;&|()<>`'\"\\$ {}#=~*?[]!@,\t"
WORDS = [
    "\"$(cat <<'E'\ncanary\nE\n)\"",
    "\"$(cat <<'E'\na\nE\n canary)\"",
    "a", "-n", "canary", "'canary'", "'a; canary'", "'$(canary)'", "'`canary`'", '"canary $x"', '"a; canary"', '"\\$(canary)"', "\\;",
    "\\$(canary)", "a\\ canary", "$x", "${x}", "${x:-canary}", "$'canary\\n'", "$'a\\'canary'", "{}", "{canary,a}", "*", "#canary", "a#canary",
    "=canary", "x=canary", "~/canary", "./canary", "2>&1", ">file", "> canary", "< file", "<<< canary", "$((1+2))", '"$x"canary', "'a'\\''canary'",
    "{a..b}", "!", "--", "&canary", "|canary", "a\\", "$", "'\n'", '"\n"',
]  # fmt: skip
JOINTS = [
    "; ",
    "\n",
    " && ",
    " || ",
    " | ",
    " # ",
    " \\\n ",
    "; : ",
    " <<E\ncanary\nE\n",
    " <<'E'\n$(canary)\nE\n",
    " ; true ",
]
HEADS = [
    "echo",
    "printf %s",
    "cat",
    "ls",
    "true",
    "[ a =",
    "test",
    "x=1 true",
    "find . -name",
    "f",
    "(echo a); echo",
    "x=canary; echo",
]


@st.composite
def nearly_right(draw: st.DrawFn) -> str:
    """Harmless commands with the canary as text, then one or two characters put in or taken out."""
    command = ""
    for _ in range(draw(st.integers(1, 3))):
        words = draw(st.lists(st.sampled_from(WORDS), max_size=4))
        command += " ".join([draw(st.sampled_from(HEADS)), *words]) + draw(st.sampled_from(JOINTS))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(command)))
        command = (
            command[:at]
            + draw(st.sampled_from(MARKS) | st.just(""))
            + command[at + draw(st.integers(0, 1)) :]
        )
    return command


@st.composite
def nested(draw: st.DrawFn) -> str:
    command = draw(st.sampled_from(SPELLINGS))
    for wrap in draw(st.lists(st.sampled_from(WRAPS), max_size=5)):
        command = wrap(command)
    return command


RUNNERS = [
    "env", "timeout", "timeout 2", "nice", "nohup", "setsid", "stdbuf", "xargs", "echo file | xargs", "find .", "find . -maxdepth 0",
    "sh", "bash", "sh -c", "bash -c", "command", "builtin", "exec", "time", "eval", "trap", "awk", "sed", "sed -n", "sort", "test", "printf",
    "[", "!", "echo canary |", "echo canary | xargs", "cat file | xargs",
]  # fmt: skip
OPTIONS = [
    "canary", "canary", "canary", "'canary'", "-c", "-exec", "-execdir", "-name", "-o", "-e", "-i", "-I{}", "-I", "{}", "-n", "1", "2",
    "--", "\\;", "+", "-v", "-S", "-k", "-s", "KILL", "-u", "A=1", "-a", "-p", "-x", "-", "-l", "-L1", "-P", "-0", "-d", "-t", "-r", "file",
    "'1e canary'", "'s/.*/canary/e'", "'s/a/b/'", "p", "'BEGIN{system(\"canary\")}'", "'{print}'", "-f", "-F", "-iname", "-print", "-delete",
    "env", "sh", "bash", "nice", "timeout", "xargs", "command", "exec", "eval", "echo", "EXIT", "-prune", "!", "-newer", "-printf", "-size",
    "--signal=KILL", "--signal", "--compress-program=canary", "-vx", "'a[$(canary)]'", "]", "=", "-z", "-ec", "-euo", "pipefail", "+e", "-oL",
    "-10", "-nr", "-w", "-fprint", "-ok", "-size", "(", "\\(", "\\)", "-type", "f", "-or", "-not", "-fc", "$x", '"$x"', "x=canary;", "x=-c;",
]  # fmt: skip


@st.composite
def wrapped(draw: st.DrawFn) -> str:
    """Wrappers with options in any order."""
    return " ".join([draw(st.sampled_from(RUNNERS)), *draw(st.lists(st.sampled_from(OPTIONS), max_size=7))])


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_judge_sees_the_canary(judge: Judge, spelling: str) -> None:
    assert judge.canary_runs(spelling)
    assert not judge.canary_runs(f"echo {shlex.quote(spelling)}")


@pytest.mark.parametrize("wrap", range(len(WRAPS)))
def test_the_judge_sees_it_through_each_trick(judge: Judge, wrap: int) -> None:
    command = WRAPS[wrap]("canary")
    assert judge.canary_runs(command)
    assert not rules_it_out(analyse(command))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(command=nested())
def test_nested_tricks_are_seen(judge: Judge, command: str) -> None:
    if rules_it_out(analyse(command)):
        assert not judge.canary_runs(command)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(command=nearly_right() | st.lists(st.sampled_from(PIECES), min_size=1, max_size=14).map("".join))
@example("echo a\\\n canary")
@example("echo $x'canary'")
def test_pieces_of_syntax_never_hide_it(judge: Judge, command: str) -> None:
    if rules_it_out(analyse(command)) and "canary" in command.replace("'", "").replace('"', "").replace(
        "\\", ""
    ):
        assert not judge.canary_runs(command)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(command=wrapped())
def test_options_of_wrappers_never_hide_it(judge: Judge, command: str) -> None:
    if rules_it_out(analyse(command)):
        assert not judge.canary_runs(command)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_any_text_is_analysed(text: str) -> None:
    plan = analyse(text)
    assert plan.text == text
    assert denies(plan, "canary *") in ("yes", "maybe", "no")


HUGE = {
    "blanks": " " * 60_000,
    "lines": "\n" * 60_000,
    "words": "a " * 30_000,
    "commands": "a;" * 30_000,
    "open braces": "{a" * 30_000,
    "brackets": "[" * 60_000,
    "closed brackets": "[a" * 30_000 + "]",
    "dollars": "$" * 60_000,
    "quotes": "'a'" * 20_000,
    "parentheses": "(" * 30_000 + ")" * 30_000,
    "spaced parentheses": "( " * 20_000 + ") " * 20_000,
    "substitutions": "$(" * 45 + "a " * 10_000 + ")" * 45,
    "many substitutions": "$(a)" * 15_000,
    "backticks": "`a`" * 20_000,
    "documents": "a <<E\nb\nE\n" * 6_000,
    "open documents": "a <<E\n" * 9_000,
    "wrappers": "env " * 15_000,
    "shells": "sh -c " * 10_000,
    "finds": "find . " + "-exec a \\; " * 5_000,
    "sed": "sed '" + " " * 60_000 + "'",
    "sed addresses": "sed '" + "/a" * 30_000 + "'",
    "url": "curl " + "a." * 30_000,
    "redirects": "> a " * 15_000,
    "assignments": "a=" * 30_000,
    "ifs": "if " * 20_000,
    "cd": "cd a;" * 13_000,
    "numbers": "$((" + "1" * 60_000,
    "not ascii": "é" * 30_000,
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_time_is_bounded(name: str) -> None:
    start = time.process_time()
    analyse(HUGE[name])
    assert time.process_time() - start < 5
