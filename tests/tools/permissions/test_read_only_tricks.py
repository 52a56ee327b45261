"""Command lines that look as if they only read, and do more: each is asked about, in every mode that may ask."""

from pathlib import Path

import pytest

from unspool.tools.permissions import Decision, Permissions, Request


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace ``w`` with an ordinary repository, and ``w/bare``, which git takes for one too."""
    for name in (
        "w/src",
        "w/.git/objects",
        "w/.git/refs",
        "w/bare/objects",
        "w/bare/refs",
        "w/bare/in",
        "w/bin",
        "home/.ssh",
    ):
        (tmp_path / name).mkdir(parents=True)
    for name in (
        "w/a.txt",
        "w/a2.txt",
        "w/.env",
        "w/src/main.py",
        "w/list",
        "w/.git/HEAD",
        "w/bare/HEAD",
        "w/bare/config",
    ):
        (tmp_path / name).write_text("x")
    (tmp_path / "home/.ssh/id_rsa").write_text("x")
    (tmp_path / "w/--files0-from=list").write_text("x")
    (tmp_path / "w/@list").write_text("x")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def run(base: Path, command: str, **options: object) -> Decision:
    engine = Permissions(base / "w", **options)  # type: ignore[arg-type]  # as a table gives them
    return engine.decide(Request(tool="bash", capability="exec", command=command))


TRICKS: dict[str, list[str]] = {
    "the descriptor of the shell's own state": [  # who writes there sets the environment of what runs next
        "echo x >&187",
        "echo x 1>&187",
        "echo x 1<&187",
        "printf 'a' 2>&9",
        "fd=187; echo x >&$fd",
        "fd=187; echo x 1<&$fd",
        "cat a.txt >&10-",
        "{ ls; } >&187",
    ],
    "a format that assigns": [
        "printf '%n' PATH",
        "printf 'abc%5n' PATH",
        "printf '%s%ln' a PATH",
        "printf '%%%n' PATH",
        'x=%n; printf "a$x" PATH',
    ],
    "options of awk": [
        "awk -W exec list",
        "awk -Wexec list",
        "awk --exec list",
        "awk -W e list",
        "awk -E list",
        "awk -l list 1",
        "awk --sou=list 1",
        "awk 'BEGIN{ARGV[1]=\"/etc/passwd\";ARGC=2} {print}'",
        'awk \'BEGIN{ARGV[1]="/etc/" "passwd"} 1\' a.txt',
        "awk 'BEGIN{for(k in ENVIRON) print ENVIRON[k]}'",
        "awk 'BEGIN{print PROCINFO[\"argv\"][0]}'",
        "gawk 'BEGIN{SYMTAB[\"ARGC\"]=2}'",
    ],
    "names of files from a file": [
        "sort --files0-from=list",
        "sort --files0=list",
        "wc --files0-from=list",
        "wc --files0-from list",
        "du --files=list",
        "strings @list",
        "strings -n 3 @list",
        "wc -l *list",
        "strings *list",
    ],
    "modules of jq": [
        'jq -n \'import "a" as $d {search:"/etc"}; $d\'',
        "jq -n 'include \"a\"; .'",
        "jq -f list a.txt",
        "jq -rf list a.txt",
        "jq --from-file list a.txt",
        "jq -L src . a.txt",
        "jq -n '\"a\" | modulemeta'",
    ],
    "the environment": [
        "printenv",
        "printenv SECRET",
        "env",
        "env -0",
        "env LANG=C",
        "env -u LANG",
        "set",
        "export -p",
        "declare -p",
        "declare -x",
        "jq -n env",
        "jq -n '$ENV.SECRET'",
        "ps e",
        "ps auxe",
        "ps -auxe",
        "ps auxeww",
        "ps -eo environ",
        "ps -p 1 e",
        "ps " + "ax" * 2000 + "!",
        "ps " + "ax " * 2000 + "!",
        "ps -o " + "a," * 2000 + "!",
        'cat <<< "$SECRET"',
        "cat <<< ${SECRET}",
        "cat <<EOF\n$SECRET\nEOF",
        "cat <<EOF\na ${SECRET:-x}\nEOF",
        "git config -l",
        "git config --get http.https://github.com/.extraheader",
        "git config github.token",
    ],
    "another directory": [
        "cd - && cat passwd",
        "cd -; cat a.txt",
        "cd -- -; cat a.txt",
        "cd; cat .ssh/id_rsa",
        "cd --; cat .ssh/id_rsa",
        "find . -execdir cat x {} \\;",
        "find . -execdir ls \\;",
        "find . -okdir git status \\;",
    ],
    "settings of another repository": [
        "git -C bare status",
        "git -C bare log",
        "git -C bare/in log",
        "cd bare && git status",
        "cd bare; git log -p",
        "ls && cd bare/in && ls && git diff",
        "git --git-dir=bare log",
        "git --git-dir bare --work-tree . status",
        "git --git-dir=src log",
        "timeout 5 git -C bare status",
        "sh -c 'cd bare; git status'",
    ],
    "programs that git runs": [
        "git log --show-signature",
        "git show --show-sig",
        "git log --format=%G?",
        "git log --pretty='%h %GS'",
    ],
    "a search in passing": [
        "grep -d recurse x .",
        "grep -drecurse x .",
        "grep --di=recurse x .",
        "grep --der x .",
        "diff -r . src",
        "diff -ur src .",
        "diff --rec src .",
        "git diff --no-index src .",
        "git diff --no-ind src .",
        "git grep --no-index x",
        "git grep --untracked x",
    ],
    "a second file": ["uniq a*", "uniq a[0-9].txt b", "uniq -c a*"],
    "a program that unpacks": ["file -z a.txt", "file -Z a.txt", "file --uncomp a.txt"],
    "a message catalogue": ["LANGUAGE=../x ls", "LC_ALL=/tmp/x ls", "LANG=$x ls", "env LANGUAGE=a/b ls"],
}


@pytest.mark.parametrize("mode", ["default", "accept-edits"])
@pytest.mark.parametrize("command", [command for kind in TRICKS.values() for command in kind])
def test_what_does_more_than_read_is_asked(command: str, mode: str, base: Path) -> None:
    assert run(base, command, mode=mode).answer == "ask"


LEGITIMATE = [
    "printf '%s\\n' a", "printf '100%%n\\n'", "printf '%-5s|%5d\\n' a 1", "awk -F: '{print $1}' a.txt",
    "awk -F : -v x=1 '{print x}' a.txt", "awk -v OFS=, '{$1=$1; print}' a.txt", "awk 'NR==1' a.txt a2.txt", "jq . a.txt", "jq -r .a a.txt",
    "wc -l src/*.py", "wc -l a*.txt", "sort a.txt", "strings -n 3 a.txt", "ps", "ps aux", "ps -ef", "ps -p 1", "ps -o pid,ppid,cmd -p 1", "ps axu | grep x",
    "printenv LANG", "env LANG=C ls", "set -e; ls", "cat <<'EOF'\n$SECRET\nEOF", "cat <<EOF\nno variable: \\$x\nEOF", "cat <<< x",
    "cd src && ls", "git status", "git -C src status", "cd src && git log", "git config user.name", "git config --get remote.origin.url",
    "git log --format='%h %s'", "diff a.txt a2.txt", "git diff --stat", "grep x a.txt", "uniq a.txt", "uniq -c a.txt", "file a.txt",
    "ls 2>&1", "ls >&2", "ls 1>&2", "ls 2>/dev/null", "LC_ALL=C sort a.txt", "LANG=en_US.UTF-8 ls", "TZ=Europe/Vienna date",
]  # fmt: skip


@pytest.mark.parametrize("command", LEGITIMATE)
def test_what_only_reads_is_not_asked(command: str, base: Path) -> None:
    decision = run(base, command)
    assert decision.answer == "allow", decision.explain()


def test_another_repository_is_asked_about_though_a_rule_allows_git(base: Path) -> None:
    rules = {"allow": ["Bash(git *)"]}
    assert run(base, "git status", rules=rules).answer == "allow"
    asked = run(base, "git -C bare status", rules=rules)
    assert asked.answer == "ask"
    assert "bare" in asked.reason
    assert run(base, "git --git-dir=bare status", rules=rules).answer == "ask"
    assert run(base, "git -C bare status", mode="bypass").answer == "allow"


@pytest.mark.parametrize("folder", ["{w}/bin", "bin", "", "{w}/link"])
def test_a_program_that_lies_in_the_workspace_is_not_one_of_the_system(
    folder: str, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "w/link").symlink_to("bin")
    for name in ("ls", "bin/ls"):
        (base / "w" / name).write_text("#!/bin/sh\n")
    path = folder.format(w=base / "w")
    monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
    assert run(base, "ls").answer == "ask"
    assert run(base, "timeout 5 ls").answer == "ask"
    assert run(base, "cat a.txt").answer == "allow"
    monkeypatch.setenv("PATH", f"/usr/bin:/bin:{path}")
    assert run(base, "ls").answer == "allow"
