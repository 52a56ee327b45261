"""What is installed: one import name, its version, its types, and no more loaded than needed."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files

import pytest

import unspool

LATER = ("httpx", "jsonschema_rs", "pydantic", "regex", "rich", "tiktoken", "trio", "typer")


def test_the_version_is_told_once() -> None:
    assert unspool.__version__ == version("unspool")


def test_types_are_shipped() -> None:
    assert files("unspool").joinpath("py.typed").is_file()


def test_public_names_are_there_once_and_sorted() -> None:
    names = unspool.__all__
    assert len(set(names)) == len(names)
    assert all(hasattr(unspool, name) for name in names)
    public = {name for name, value in vars(unspool).items() if not name.startswith("_")}
    folders = {name for name in public if hasattr(getattr(unspool, name), "__path__")}
    assert public - folders == set(names) - {"__version__"}


@pytest.mark.parametrize("folder", ["kernel", "llm", "tools", "trajectory"])
def test_each_folder_says_what_is_public(folder: str) -> None:
    module = import_module(f"unspool.{folder}")
    assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize(
    "code",
    [
        "import unspool",
        "import unspool.trajectory, unspool.llm, unspool.tools",
        "import unspool\n@unspool.tool\ndef add(a: int, b: int) -> int:\n    'Add.'\n    return a + b",
    ],
)
def test_what_is_heavy_is_loaded_by_its_first_use(code: str) -> None:
    check = f"{code}\nimport sys\nloaded = set({LATER!r}) & set(sys.modules)\nassert not loaded, loaded"
    subprocess.run([sys.executable, "-P", "-c", check], check=True)
