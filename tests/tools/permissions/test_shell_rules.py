"""What rules cover and deny; what passes without a word because it only reads; paths and hosts."""

import subprocess
import sys

import pytest

from unspool.tools.permissions.read_only import is_read_only
from unspool.tools.permissions.shell_commands import analyse
from unspool.tools.permissions.shell_rules import Match, allowed_by, allows, denies

COVERED: dict[str, list[str]] = {  # command: the rules that must cover it
    "git status": ["git *"],
    "git commit -m 'größe: it''s done'": ["git *"],
    'git commit -m "a; b && c | d"': ["git *"],
    "git log --pretty=format:'%h %s' -n 5": ["git *"],
    "git show HEAD~1": ["git *"],
    "git commit -m \"$(cat <<'EOF'\nFix (a); it's `done`\n\nrm $x\nEOF\n)\"": ["git *", "cat"],
    "git show HEAD@{1} -- src/a.py": ["git *"],
    "git diff main..dev -- src/a.py 2>&1": ["git diff *"],
    "git add src/*.py": ["git add *"],
    "git add -A && git commit -m x && git push": ["git *"],
    "git -c color.ui=never log": ["git *"],
    "git --no-pager log": ["git *"],
    "git push origin HEAD": ["git push *"],
    "git fetch --all; git rebase main": ["git *"],
    "git status # how is it": ["git *"],
    "git stash push -m 'a b'": ["git *"],
    "pytest -q tests/x.py": ["pytest *"],
    "pytest -q 'tests/x.py::test_a[1-b]'": ["pytest *"],
    "pytest -x -k 'a and not b' 2>&1 | tail -20": ["pytest *", "tail *"],
    "python -m pytest": ["python -m pytest"],
    "python -m pytest -q": ["python -m pytest *"],
    'python -c "print(1 | 2); x = 3"': ["python *"],
    "python3 script.py --name value": ["python3 *"],
    "npm run build": ["npm run *"],
    "npm install lodash@4.17": ["npm install *"],
    "npm test -- --watch=false": ["npm test *"],
    "npx tsc --noEmit": ["npx tsc *"],
    "CI=1 npm test": ["npm test"],
    "NODE_ENV=test npm run build": ["npm run *"],
    "make -j4 all": ["make *"],
    "cargo build --release": ["cargo build *"],
    "go test ./...": ["go test *"],
    "uv run pytest -q": ["uv run *"],
    "poetry run ruff check .": ["poetry run *"],
    "docker run --rm -it image:1 ls": ["docker *"],
    "timeout 60 pytest -q": ["pytest *"],
    "nohup make all": ["make *"],
    "env CI=1 npm test": ["npm test"],
    "time make all": ["make *"],
    "nice -n 5 make all": ["make *"],
    "bash -c 'git status && git log'": ["git *"],
    "bash -euo pipefail -c 'git status'": ["git *"],
    "eval git status": ["git *"],
    "sudo systemctl restart x": ["sudo *", "systemctl *"],
    "ls *.py | xargs grep -n foo": ["ls *", "grep *"],
    "find . -name '*.py' -exec grep -l foo {} +": ["find *", "grep *"],
    "for f in a b; do git log -- src/a; done": ["git *"],
    "for f in *.py; do echo $f; done": ["echo *"],
    "if git diff --quiet; then echo same; else echo other; fi": ["git *", "echo *"],
    "(cd src && ls -la)": ["cd *", "ls *"],
    "{ git status; git log; }": ["git *"],
    "! git diff --quiet": ["git *"],
    "x=1; git status": ["git *"],
    "v=$(git rev-parse HEAD); echo $v": ["git *", "echo *"],
    "echo $(git rev-parse HEAD)": ["git *", "echo *"],
    'echo "$HOME and ${USER:-nobody}" $?': ["echo *"],
    "echo $((1 + 2))": ["echo *"],
    "echo {} 'a'\\''b'": ["echo *"],
    "echo $'a\\tb'": ["echo *"],
    "diff <(git show a:x) <(git show b:x)": ["diff *", "git *"],
    "cat <<'EOF'\nrm -rf $(x)\nEOF": ["cat"],
    "cat <<EOF\n$HOME and $(git log)\nEOF": ["cat", "git *"],
    "grep -c x <<< 'a b'": ["grep *"],
    "git log 2>/dev/null || true": ["git *", "true"],
    "git log >/dev/null 2>&1": ["git *"],
    "git commit \\\n  -m x \\\n  --amend": ["git *"],
    "./gradlew build": ["./gradlew *"],
    "sed -i 's/a/b/g' src/x.py": ["sed *"],
    "sed -n '1,20p' a": ["sed *"],
    "awk -F: '{print $1}' a": ["awk *"],
    "tar xzf a.tgz -C out": ["tar *"],
    "curl -s https://example.com/x?y=1": ["curl *"],
    "mkdir -p a/b && touch a/b/c": ["mkdir *", "touch *"],
    "rm -rf build": ["rm -rf build"],
    "git status && ls": ["*"],
}

READ_ONLY = [
    "ls", "ls -la src", "ls *.py", "pwd", "cat a > /dev/null", "cat a b 2>/dev/null", "head -5 a", "tail -n +5 a", "wc -l a",
    "cd src && ls", "git status", "git log --oneline | head -5", "git diff", "git diff main..dev -- a", "git show HEAD~1",
    "git branch", "git branch -a", "git branch --list 'x*'", "git branch --show-current", "git stash list", "git remote -v",
    "git tag -l", "git blame a", "git ls-files | wc -l", "git -C sub status", "git --no-pager log -3", "git rev-parse HEAD",
    "git config --get user.name", "git config remote.origin.url", "git reflog", 'grep -rn "a b" .', "grep -E 'a|b' x", "rg -n foo src",
    "find . -name '*.py' -type f", "find src -maxdepth 2 -print0 | xargs -0 grep -n foo", "find . -exec grep -l a {} +",
    "sort a | uniq -c | sort -rn", "sort -k2,2n a", "cut -d: -f1 a", "tr a-z A-Z < a", "diff a b", "stat a", "file a",
    "which python", "type ls", "command -v git", "echo hello", 'echo "$x" $y', "printf '%s\\n' a", "[ -f a ] && cat a",
    "test -d src || echo none", "[ \"$a\" = b ]", "sed -n '1,20p' a", "awk '{print $2}' a", "jq .a x.json", "du -sh .", "date",
    "date +%s", "tree -L 2", "true", "for i in 1 2; do echo $i; done", "if [ -f a ]; then cat a; fi", "cat <<< x", "x=1",
    "set -euo pipefail; ls", "timeout 5 cat a", "ls; pwd", "ls\npwd", "echo $(git rev-parse HEAD)", "sh -c 'ls | wc -l'",
]  # fmt: skip

NOT_READ_ONLY = [
    "rm a", "touch a", "ls > a", "sort -o a a", "sort --outp=a a", "sort -uo a a", "uniq a b", "find . -delete",
    "find . -fprint a", "find . -exec touch {} +", "git commit -m x", "git branch new", "git branch -D x", "git tag v1",
    "git diff --output=a", "git log --outpu=a", "git diff --ext-diff", "git grep -Oless a", "git grep -e -- -Oless a",
    "git -c color.ui=1 log", "git -p log", "git stash", "git stash drop", "git config user.name x", "git config -l", "git remote add a b",
    "git reflog expire --all", "git checkout a", "git $x", "git log $x", 'git log "$x"', "rg --pre x a", "rg -z a",
    "sed -i s/a/b/ x", "sed -ni p x", "sed --in-place s/a/b/ x", "sed -f s x", "awk -f p x", "awk '{print > \"a\"}' x",
    "date -s 12:00", "tree -o a", "tee a", "python x.py", "./ls", "/tmp/ls", "./env ls", "./timeout 5 ls", "curl x", "ls &", "FOO=1 ls", "PATH=x ls",
    "LD_PRELOAD=x ls", "sudo ls", "nice rm a", "[[ -f a ]]", "", "xargs rm", "env -S ls", "echo a > $x", "cat a | sh",
    "[ -f *.py ]", "[ $a = b ]", 'test "$a" "$b"', '[ -v "$a" ]', "printf -v x a", "read PATH", "export A=1", "sleep 1 & ls", "hostname x", "file -C -m x", "command rm a",
]  # fmt: skip

DENIES: list[tuple[str, str, Match]] = [
    ("rm *", "rm -rf x", "yes"),
    ("rm *", "rm", "no"),
    ("rm", "rm", "yes"),
    ("rm", "rm x", "yes"),
    ("rm *", "git rm x", "no"),
    ("rm *", "echo rm -rf x", "no"),
    ("rm *", "echo 'a; rm x'", "no"),
    ("rm *", "grep -rn 'rm -rf' .", "no"),
    ("rm *", "rmdir x", "no"),
    ("rm *", "rm $x", "yes"),
    ("rm -rf *", "rm -rf /", "yes"),
    ("rm -rf *", "rm -fr /", "maybe"),
    ("rm -rf *", "rm -r -f /", "maybe"),
    ("rm -rf *", "rm $x", "maybe"),
    ("rm -rf *", "rm -r x", "no"),
    ("rm -rf *", "echo x | xargs rm -rf", "yes"),
    ("rm -rf *", "echo x | xargs rm", "maybe"),
    ("/bin/rm *", "rm x", "yes"),
    ("git push *", "git push origin", "yes"),
    ("git push *", "git -C a push origin", "maybe"),
    ("git push *", "git pull", "no"),
    ("git push", "git push --force", "yes"),
    ("git push --force", "git push origin --force", "maybe"),
    ("rm *", "env 'BASH_FUNC_ls%%=() { rm x; }' bash -c ls", "maybe"),
    ("rm *", "GIT_PAGER=x git log", "maybe"),
    ("rm *", "CI=1 git log", "no"),
    ("rm *", "bash rm x", "yes"),
    ("rm *", "time A=1 rm x", "yes"),
    ("rm *", "xargs -I", "maybe"),
    ("rm *", "echo a | xargs -E -I rm x", "maybe"),
    ("rm *", "bash x.sh rm", "no"),
    ("sudo *", "sudo ls", "yes"),
    ("sudo *", "env sudo ls", "yes"),
    ("*", "ls -la", "yes"),
    ("curl *", "wget x", "no"),
    ("rm *", "python -c 'print(1)'", "no"),
    ("rm *", "python -W ignore -c 'import os; os.system(\"rm x\")'", "maybe"),
    ("rm *", "[[ -f x ]]", "maybe"),
    ("rm *", "xargs -I{} grep -I {}", "no"),
    ("rm *", "echo x | xargs grep -I rm", "no"),
    ("rm *", "find . -name -exec -o -exec rm {} \\;", "yes"),
    ("rm *", "flock l rm -c y", "yes"),
    ("rm *", "su -c ls -c 'rm x'", "yes"),
    ("rm *", "echo x | xargs -I'{}' sh -c \\{\\}", "maybe"),
]


@pytest.mark.parametrize("command", COVERED)
def test_rules_cover(command: str) -> None:
    plan = analyse(command)
    assert plan.unknown == ""
    assert allowed_by(plan, COVERED[command]) in COVERED[command]


@pytest.mark.parametrize("command", READ_ONLY)
def test_only_reads(command: str) -> None:
    plan = analyse(command)
    assert (plan.unknown, is_read_only(plan)) == ("", True)


@pytest.mark.parametrize("command", NOT_READ_ONLY)
def test_does_not_only_read(command: str) -> None:
    assert not is_read_only(analyse(command))


@pytest.mark.parametrize(("pattern", "command", "match"), DENIES)
def test_denies(pattern: str, command: str, match: Match) -> None:
    assert denies(analyse(command), pattern) == match


@pytest.mark.parametrize(  # T255
    ("pattern", "command", "covered"),
    [
        ("git *", "git status", True),
        ("git *", "git", False),
        ("make build", "make build test", True),
        ("npm install", "npm install lodash", True),
        ("npm install", "npm ci", False),
        ("npm install *", "npm install", False),
        ("echo *", "echo ok && rm -rf /", False),
        ("python *", "python -c 'a | b'", True),
        ("git", "github", False),
        ("git status", "git  status", True),
        ("git status", "git 'status'", True),
        ("git * --stat", "git log --stat", True),
        ("git * --stat", "git --stat", False),
        ("ls *", "/bin/ls -la", False),
        ("ls *", "./ls -la", False),
        ("*", "ls", True),
        ("", "ls", False),
        ("git *", "git log $x", False),
        ("git *", 'git log "$x"', False),
        ("git *", 'git log "src/$x"', True),
        ("git *", "git log src/$x", False),
        ("git *", "git log *", False),
        ("git *", "git log ~/x", True),
        ("git *", "GIT_DIR=x git log", False),
        ("git *", "FOO=1 git log", False),
        ("git *", "git log > x", False),
        ("git *", "git log | head", False),
        ("git *", "sudo git log", False),
        ("sudo *", "sudo git log", False),
        ("sudo *", "sudo -s", False),
        ("git *", "git log &", False),
        ("git *", "echo a | xargs git log", False),
        ("make *", "env -C /tmp make all", False),
        ("npm *", "npm_config_script_shell=/tmp/x npm test", False),
        ("npm *", "npm_config_script_shell=/tmp/x; npm test", False),
        ("npm *", "export x=1; npm test", False),
        ("./run *", "./run all", True),
        ("git *", "./env git status", False),
        ("git *", "/tmp/sh -c 'git status'", False),
        ("git *", "\\./nice git status", False),
        ("git *", "env PATH=/tmp git status", False),
        ("git *", "sudo PATH=/tmp git status", False),
        ("git *", "setsid -f git status", False),
        ("git *", "env -u A git status", True),
        ("git *", "git commit -m \"$(cat <<'E'\na\nE\n)\"", False),
        ("*", "git commit -m \"$(cat <<'E'\na\nE\n)\"", True),
        ("*", "git commit -m $(cat <<'E'\na\nE\n)", False),
        ("*", 'git commit -m "$(cat <<E\n$x\nE\n)"', False),
        ("*", "git commit -m \"$(cat <<'E'\na\nE\necho b\nE\n)\"", False),
    ],
)
def test_allows(pattern: str, command: str, covered: bool) -> None:
    assert allows(analyse(command), pattern) is covered


@pytest.mark.parametrize("command", ["cd /tmp && ./run all", "cd sub; bin/run all", "(cd sub); ./run all"])
def test_a_program_of_the_directory_is_not_covered_elsewhere(command: str) -> None:
    assert allowed_by(analyse(command), ["./run *", "bin/run *", "cd *"]) is None


def test_parts_that_only_read_need_no_rule_if_so_wished() -> None:
    plan = analyse("git push origin | head -5")
    assert allowed_by(plan, ["git *"]) is None
    assert allowed_by(plan, ["git *"], or_read_only=True) == "git *"
    assert allowed_by(analyse("ls | head"), ["git *"], or_read_only=True) is None


@pytest.mark.parametrize(
    ("command", "reads", "writes"),
    [
        ("cat a /etc/passwd < b", ["b", "a", "/etc/passwd"], []),
        ("cat 'a b' ~/x '~/y'", ["a b", "~/x", "./~/y"], []),
        ("grep -rn pattern src", ["src"], []),
        ("grep -e a -f /etc/x src", ["a", "/etc/x", "src"], []),
        ("cd /etc && cat passwd", ["/etc", "passwd", "/etc/passwd"], []),
        ("cd a; cd b; cat c", ["a", "b", "a/b", "c", "a/c", "b/c", "a/b/c"], []),
        ("rm -rf a b", [], ["a", "b"]),
        ("mv a b", [], ["a", "b"]),
        ("cp -r a b c", ["a", "b"], ["c"]),
        ("cp -t out a b", ["out", "a"], ["out", "a", "b"]),
        ("mkdir -p a/b; touch c", [], ["a/b", "c"]),
        ("chmod +x a", [], ["a"]),
        ("sed -i s/a/b/ x y", ["x", "y"], ["x", "y"]),
        ("sort -o out in", ["out", "in"], ["out", "in"]),
        ("echo a | tee -a b", [], ["b"]),
        ("ls > a 2>> b", [], ["a", "b"]),
        ("dd if=/dev/zero of=x", [], ["if=/dev/zero", "of=x"]),
        ("echo $(cat a)", ["a"], []),
        ("git diff --no-index /etc/passwd ../a", ["/etc/passwd", "../a"], []),
        ("curl -o a -Ob https://example.com", [], ["a", "b"]),
        ("ls -la", [], []),
    ],
)
def test_paths(command: str, reads: list[str], writes: list[str]) -> None:
    plan = analyse(command)
    assert (list(plan.reads), list(plan.writes)) == (reads, writes)


@pytest.mark.parametrize(
    "command", ['cat "$x"', "cat *.py", "cd $x; cat a", "rm $(ls)", "ls > $x", "ls | xargs cat"]
)
def test_paths_that_are_not_said(command: str) -> None:
    assert not analyse(command).paths_known


@pytest.mark.parametrize(
    ("command", "hosts", "network"),
    [
        ("curl -s https://user@Example.com:8080/x", ["example.com"], True),
        ("wget example.com/a", ["example.com"], True),
        ("curl $x", [], True),
        ("git clone https://github.com/a/b.git", ["github.com"], True),
        ("git clone git@github.com:a/b.git", ["github.com"], True),
        ("git push", [], True),
        ("git log", [], False),
        ("ssh -p 22 me@host.example ls", ["host.example"], True),
        ("scp a me@host.example:b", ["host.example"], True),
        ("cat < /dev/tcp/example.com/80", ["example.com"], True),
        ("pip install x", [], True),
        ("ls https://example.com", [], False),
    ],
)
def test_hosts(command: str, hosts: list[str], network: bool) -> None:
    plan = analyse(command)
    assert (list(plan.hosts), plan.network) == (hosts, network)


MISSING = """
import sys
sys.modules["tree_sitter_bash"] = None
from unspool.kernel.errors import ToolDefinitionError
from unspool.tools.permissions.shell_commands import analyse
try:
    analyse("ls")
except ToolDefinitionError as error:
    print(error)
"""


def test_without_the_parser_the_error_names_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True)
    assert "pip install 'unspool[permissions]'" in done.stdout


def test_the_parser_is_loaded_by_the_first_analysis_only() -> None:
    code = "import sys, unspool.tools.permissions.shell_commands as c; a = 'tree_sitter' in sys.modules; c.analyse('ls')"
    code += "; print(a, 'tree_sitter' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_what_a_plan_says() -> None:
    plan = analyse("A=1 sudo -u me env B=2 /bin/rm -rf 'x y' $z > log 2>&1 | xargs echo")
    assert plan.unknown == ""
    assert plan.operators == {"|"}
    shown = [
        (c.name, [word.text for word in c.words], c.wrappers, c.transparent, c.more_words)
        for c in plan.commands
    ]
    rm = ["/bin/rm", "-rf", "x y", None]
    assert shown == [
        ("sudo", ["sudo", "-u", "me", "env", "B=2", *rm], (), False, False),
        ("env", ["env", "B=2", *rm], ("sudo",), True, False),
        ("rm", rm, ("sudo", "env"), False, False),
        ("xargs", ["xargs", "echo"], (), True, False),
        ("echo", ["echo"], ("xargs",), False, True),
    ]
    sudo, _, rm_command, *_ = plan.commands
    assert [(one.name, one.value.text) for one in sudo.assignments] == [("A", "1")]
    assert [one.name for one in rm_command.assignments] == ["B"]
    assert [(one.fd, one.op, one.target.text, one.writes) for one in sudo.redirects] == [
        ("", ">", "log", True),
        ("2", ">&", "1", False),
    ]


def test_a_quoted_document_as_a_word_is_its_text() -> None:
    plan = analyse("git commit -m \"$(cat <<'E'\nFix a\n\n  $x\n\nE\n)\"")
    assert plan.commands[-1].words[-1].text == "Fix a\n\n  $x"
    assert [command.name for command in plan.commands] == ["cat", "git"]
