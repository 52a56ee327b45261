"""The parts of the documentation that are made from the code are up to date."""

import re
import runpy
from pathlib import Path

import unspool
import unspool.kernel

GENERATE = Path(__file__).parent.parent / "docs" / "generate.py"


def test_generated_parts_are_up_to_date() -> None:
    outdated = runpy.run_path(str(GENERATE))["outdated"]
    assert outdated(write=False) == [], "run: python docs/generate.py"


def test_every_public_name_has_one_documented_home() -> None:
    reference = runpy.run_path(str(GENERATE.parent / "reference.py"))
    kernel = {home.name: home.module for home in reference["homes"]("kernel")}
    for package in reference["PACKAGES"]:
        assert reference["homes"](package)
    for name in set(unspool.__all__) - {"__version__"}:
        assert name in kernel, "what is public in unspool has its home in the kernel"
        assert getattr(unspool, name) is getattr(unspool.kernel, name)


def test_every_test_that_the_deviations_name_is_there() -> None:
    named = set(
        re.findall(
            r"`(?:tests/[\w/]+/)?(test_\w+)(?:\.py)?`", (GENERATE.parent / "deviations.md").read_text("utf-8")
        )
    )
    files = list(GENERATE.parents[1].joinpath("tests").rglob("test_*.py"))
    text = "\n".join(path.read_text("utf-8") for path in files)
    there = set(re.findall(r"def (test_\w+)", text)) | {path.stem for path in files}
    assert named - there == set()
