"""The layout: each folder is one package, has its link, and is in every list that names them."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "examples", "benchmarks"}
PACKAGE = ROOT / "src" / "unspool"
CODE = {"src/unspool/__init__.py", "src/unspool/py.typed"}
BESIDE = {"tests", "examples", "benchmarks", "docs", "mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md"}
needs_links = pytest.mark.skipif(
    not (ROOT / ".git").exists(), reason="a checkout has the links, an unpacked sdist does not"
)


@pytest.fixture(scope="module")
def tool_tables() -> Any:
    """The tools' tables of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]


def test_the_folders_are_the_documented_ones() -> None:
    documented = "cli context kernel llm subagent team tools trajectory"
    assert sorted(FOLDERS) == documented.split()


@needs_links
def test_each_folder_has_its_link_and_there_is_no_other() -> None:
    links = {path.name: os.readlink(path) for path in PACKAGE.iterdir() if path.is_symlink()}
    assert links == {name: f"../../{name}" for name in FOLDERS}, "ln -s ../../NAME src/unspool/NAME"


@needs_links
def test_nothing_else_is_in_the_package() -> None:
    files = {path.name for path in PACKAGE.iterdir() if not path.is_symlink()}
    assert files - {"__pycache__"} == {"__init__.py", "py.typed"}


def test_build_lists_name_each_folder(tool_tables: Any) -> None:
    targets = tool_tables["hatch"]["build"]["targets"]
    assert set(targets["wheel"]["only-include"]) == CODE | FOLDERS
    assert set(targets["sdist"]["only-include"]) == CODE | FOLDERS | BESIDE
    assert targets["wheel"]["sources"] == {
        "src/unspool": "unspool",
        **{name: f"unspool/{name}" for name in FOLDERS},
    }


def test_check_lists_name_each_folder(tool_tables: Any) -> None:
    assert set(tool_tables["pyright"]["exclude"]) >= FOLDERS
    assert set(tool_tables["coverage"]["run"]["source"]) == {"src/unspool"} | FOLDERS
    assert set(tool_tables["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]) == FOLDERS
    layers = tool_tables["importlinter"]["contracts"][0]["layers"]
    assert {name.strip() for layer in layers for name in layer.split("|")} == {
        f"unspool.{name}" for name in FOLDERS
    }


def test_each_kernel_module_has_its_layer(tool_tables: Any) -> None:
    contract = tool_tables["importlinter"]["contracts"][1]
    layers = [name.strip() for layer in contract["layers"] for name in layer.replace(":", "|").split("|")]
    modules = {path.stem for path in (ROOT / "kernel").glob("*.py")} - {"__init__"}
    assert contract["containers"] == ["unspool.kernel"]
    assert sorted(layers) == sorted(modules)


def test_no_module_is_loaded_under_a_second_name(tmp_path: Path) -> None:
    code = (
        "import importlib, pkgutil, sys, unspool\n"
        "for module in pkgutil.walk_packages(unspool.__path__, 'unspool.'):\n"
        "    if not module.name.endswith('__main__'): importlib.import_module(module.name)\n"
        f"doubled = {FOLDERS!r} & {{name.partition('.')[0] for name in sys.modules}}\n"
        "assert not doubled, doubled\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_bare_import_is_refused_with_the_right_name(name: str) -> None:
    command = [sys.executable, "-c", f"import {name}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"ImportError: {name}/ is not a top-level package: import unspool.{name}" in done.stderr
