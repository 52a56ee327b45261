"""The parts of the documentation that are made from the code are up to date."""

import runpy
from pathlib import Path

GENERATE = Path(__file__).parent.parent / "docs" / "generate.py"


def test_generated_parts_are_up_to_date() -> None:
    outdated = runpy.run_path(str(GENERATE))["outdated"]
    assert outdated(write=False) == [], "run: python docs/generate.py"
