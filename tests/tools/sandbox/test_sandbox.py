"""What a sandbox shows and runs, and what is said where there can be none."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from unspool.kernel.errors import ToolDefinitionError
from unspool.tools.sandbox import Sandbox, SandboxUnavailableError
from unspool.tools.sandbox import bubblewrap as module

from .conftest import Run, made, run_in


def test_a_command_runs_as_it_does_outside(run: Run, root: Path) -> None:
    done = run('printf "%s" "$1" ""; pwd; echo err >&2; exit 7')
    assert (done.stdout, done.stderr, done.returncode) == (f"{root}\n", "err\n", 7)
    assert run("no-such-command").returncode == 127
    assert run("kill -9 $$").returncode == 137


def test_arguments_pass_unchanged(sandbox: Sandbox, root: Path) -> None:
    args = ["", "a b", "$HOME", "'\"", "--", "ü\n*", "-c", "\\"]
    script = "import json, sys; print(json.dumps(sys.argv[1:]))"
    argv = sandbox.wrap([sys.executable, "-c", script, *args])
    assert json.loads(subprocess.run(argv, capture_output=True, check=True, cwd=root).stdout) == args


def test_it_begins_where_the_caller_is_if_that_is_visible(
    sandbox: Sandbox, root: Path, outside: Path
) -> None:
    (root / "sub").mkdir()
    assert run_in(sandbox, "pwd", cwd=root / "sub").stdout == f"{root}/sub\n"
    assert run_in(sandbox, "pwd", cwd=outside).stdout == "/tmp\n"


def test_tmp_is_empty_for_each_command(run: Run) -> None:
    run("echo x > /tmp/x")
    assert run("cat /tmp/x").returncode != 0


def test_this_python_and_its_packages_are_there(run: Run, root: Path) -> None:
    done = run("import msgspec, sys; print(sys.prefix)")
    assert done.stdout == f"{sys.prefix}\n", done
    assert not os.access(root, os.X_OK) or run(f'touch "{sys.prefix}/x"').returncode != 0
    if not sys.prefix.startswith("/usr"):
        assert run_in(made(root, python=False), f'ls "{sys.prefix}"', cwd=root).returncode != 0


@pytest.mark.parametrize(
    "name", ["plain", "with space", "ünïcødé 日本", "quo'te\"", "new\nline", "-dash", "a$b;c"]
)
def test_roots_of_any_name(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    root.mkdir()
    assert run_in(made(root), "echo x > f", cwd=root).returncode == 0
    assert (root / "f").read_text() == "x\n"


def test_of_two_places_the_inner_one_decides(tmp_path: Path) -> None:
    for name in ("w/r/w2", "w/plain", "shown/inner", "w/hidden"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "w" / ".env").write_text("secret")
    (tmp_path / "w" / "hidden" / "key").write_text("secret")
    top = tmp_path / "w"
    sandbox = made(
        top,
        top / "r" / "w2",
        readable=[top / "r", tmp_path / "shown"],
        writable=[tmp_path / "shown" / "inner"],
        hidden=[top / ".env", top / "hidden"],
    )
    script = (
        "for d in . r r/w2 plain hidden ../shown ../shown/inner; do touch $d/x 2>/dev/null && echo $d; done"
    )
    assert run_in(sandbox, script, cwd=top).stdout.split() == [".", "r/w2", "plain", "../shown/inner"]
    assert "secret" not in run_in(sandbox, "cat .env hidden/*; ls hidden", cwd=top).stdout
    assert (top / ".env").read_text() == "secret"
    assert run_in(sandbox, "mv r gone || rm .env", cwd=top).returncode != 0, "a mount stays where it is"


def test_a_path_that_was_exchanged_is_not_shown(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "w" / "a" / "r").mkdir(parents=True)
    sandbox = made(tmp_path / "w", readable=[tmp_path / "w" / "a" / "r"])
    attack = f'mv a b; mkdir a; ln -s "{outside}/.ssh" a/r'
    assert run_in(sandbox, attack, cwd=tmp_path / "w").returncode == 0
    with pytest.raises(ToolDefinitionError, match="moved or exchanged"):
        sandbox.wrap(["true"])


def test_a_root_may_be_named_by_a_link(tmp_path: Path, root: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    sandbox = made(tmp_path / "link")
    assert sandbox.roots == (str(root),)
    assert run_in(sandbox, "touch x && pwd", cwd=tmp_path / "link").stdout == f"{root}\n"


def test_more_environment(root: Path) -> None:
    sandbox = made(root, env={"GREETING": "a b\nc", "PATH": "/usr/bin"})
    assert run_in(sandbox, 'echo "$GREETING $PATH"', cwd=root).stdout == "a b\nc /usr/bin\n"


WRONG: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "no root": ([], {}, "needs roots"),
    "a missing root": (["missing"], {}, "no such path"),
    "the whole disk": (["/"], {}, "can't be made writable"),
    "the system": (["/usr/local"], {}, "can't be made writable"),
    "processes": (["/proc"], {}, "can't be made writable"),
    "a file": (["file"], {}, "directories"),
    "all readable": (["."], {"readable": ["/"]}, "can't be made readable"),
    "a missing path": (["."], {"hidden": ["missing"]}, "no such path"),
}


@pytest.mark.parametrize("case", WRONG)
def test_paths_that_cannot_be_had(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roots, options, why = WRONG[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ToolDefinitionError, match=why):
        Sandbox(roots, **options)


def test_an_empty_command(sandbox: Sandbox) -> None:
    with pytest.raises(ToolDefinitionError, match="no command"):
        sandbox.wrap([])


# --- where there can be none ---


def fake_bwrap(folder: Path, script: str) -> Path:
    path = folder / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_no_bwrap(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_installed", lambda: iter(()))
    with pytest.raises(SandboxUnavailableError, match=r"pip install 'unspool\[sandbox\]'"):
        Sandbox(root)
    with pytest.raises(SandboxUnavailableError, match="no usable program"):
        Sandbox(root, bwrap="/no/such/bwrap")


def test_not_linux(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SandboxUnavailableError, match="it needs Linux"):
        Sandbox(root)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("bwrap: setting up uid map: Permission denied", "AppArmor"),
        ("bwrap: No permissions to create a new namespace", "forbids user namespaces"),
        ("bwrap: Creating new namespace failed: Operation not permitted", "seccomp profile"),
        ("bwrap: Unknown option --size", "too old"),
        ("something else", "something else"),
    ],
)
def test_a_kernel_that_forbids_it(root: Path, outside: Path, said: str, hint: str) -> None:
    program = fake_bwrap(outside, f'[ "$1" = --help ] || {{ echo "{said}" >&2; exit 1; }}')
    with pytest.raises(SandboxUnavailableError, match=hint):
        Sandbox(root, bwrap=program)


def test_a_program_that_sandboxed_code_could_change_is_not_used(root: Path) -> None:
    with pytest.raises(SandboxUnavailableError, match="no usable program"):
        Sandbox(root, bwrap=fake_bwrap(root, "exit 0"))


def test_the_second_program_is_tried(root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    works = made(root)._bwrap.path
    broken = str(fake_bwrap(outside, "exit 1"))
    monkeypatch.setattr(module, "_installed", lambda: iter((broken, works)))
    assert works in Sandbox(root).wrap(["true"])


def test_it_may_stop_working(root: Path, outside: Path) -> None:
    program = shutil.copy(fake_bwrap(outside, f'exec {made(root)._bwrap.path} "$@"'), outside / "mine")
    sandbox = Sandbox(root, bwrap=program)
    sandbox.check()
    Path(program).write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(SandboxUnavailableError, match="exit code 3"):
        sandbox.check()
