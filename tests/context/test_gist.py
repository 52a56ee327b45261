"""What is kept of a text that goes."""

import time

import pytest

from unspool.context.gist import gist

CASES = {
    "nothing wanted": ("text", 0, ""),
    "nothing there": ("\n \n", 80, ""),
    "the first line that is not blank": ("\n  one  \ntwo", 80, "one"),
    "no more than half for it": ("x" * 100, 20, f"{'x' * 9}…"),
    "a ticket and a commit": (
        "log\ncommit 1a2b3c4d CORE-17 fix\ncommit 5e6f7a8b9c again CORE-17",
        80,
        "log\nCORE-17, 1a2b3c4d, 5e6f7a8b9c",
    ),
    "a uuid first": (
        "rows\nABC-1 a.b/c.py 123e4567-e89b-12d3-a456-426614174000",
        80,
        "rows\n123e4567-e89b-12d3-a456-426614174000, ABC-1, a.b/c.py",
    ),
    "tests": (
        "failed\ntests/test_a.py::test_x[1-2]\ntests.core.test_b.TestIt.test_y",
        90,
        "failed\ntests/test_a.py::test_x[1-2], tests.core.test_b.TestIt.test_y",
    ),
    "paths, without lines": ("hits\nsrc/a.py:12: x\nsrc/a.py:13: y", 80, "hits\nsrc/a.py"),
    "not said twice": ("src/a.py:1: x\nsrc/b.py", 80, "src/a.py:1: x\nsrc/b.py"),
    "as many as fit": ("log\nABC-1 ABC-2 ABC-3", 18, "log\nABC-1, ABC-2"),
    "no commit: words and numbers": ("log\ndefaced 1234567 feed0 UTF-8", 80, "log"),
    "from the end of a long text": ("log\n" + "x " * 50_000 + "CORE-9", 80, "log\nCORE-9"),
}


@pytest.mark.parametrize(("text", "limit", "kept"), CASES.values(), ids=CASES)
def test_gist(text: str, limit: int, kept: str) -> None:
    assert gist(text, limit) == kept
    assert len(kept) <= limit


@pytest.mark.parametrize(
    "text", ["a" * 1_000_000, "/" * 1_000_000, "::a" * 300_000, "a.b-" * 250_000, "0a" * 500_000]
)
def test_no_text_takes_long(text: str) -> None:
    start = time.perf_counter()
    gist(text, 160)
    assert time.perf_counter() - start < 0.5
