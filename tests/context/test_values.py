"""Which of two results is worth more of its tokens."""

import pytest

from unspool.context.calls import answered
from unspool.context.values import worths
from unspool.kernel import AgentMessage

from .working import count, turn

View = list[AgentMessage]
SIZE = "x" * 4000


def reads(*paths: str, first: int = 0) -> View:
    return [m for n, path in enumerate(paths, first) for m in turn(n, "read_file", SIZE, path=path)]


# The result at index 1 is worth less than the one at index 3.
LESS: dict[str, View] = {
    "read longer ago": [*reads("a", "b")],
    "read once, the other again and again": [
        *reads("a", "b"),
        *turn(7, "grep", "x", pattern="x", path="b"),
        *turn(8, "grep", "y", pattern="y", path="b"),
    ],
    "read, an edit of the other failed": [
        *reads("a", "b"),
        *turn(8, "edit_file", "no", path="b", is_error=True),
    ],
    "read again later": [*turn(0, "read_file", SIZE, path="a"), *reads("b", first=1), *reads("a", first=2)],
    "a part, the whole read later": [
        *turn(0, "read_file", SIZE, path="a", offset=10),
        *reads("b", first=1),
        *reads("a", first=2),
    ],
    "edited later": [*reads("a", "b"), *turn(8, "edit_file", "ok", path="a", old="x", new="y")],
    "output of a command, not of a file": [
        *turn(0, "bash", SIZE, command="make"),
        *reads("b", first=1),
    ],
    "a listing, not a search": [*turn(0, "list_dir", SIZE), *turn(1, "grep", SIZE, pattern="x")],
    "large": [*turn(0, "read_file", SIZE * 9, path="a"), *turn(1, "read_file", SIZE, path="b")],
}


@pytest.mark.parametrize("view", LESS.values(), ids=LESS)
def test_less(view: View) -> None:
    worth = worths(answered(view), count)
    assert worth[1] < worth[3]


def test_a_file_keeps_while_output_fades() -> None:
    """A search that is a little newer than a file is worth less than it in the end."""
    view = [*reads("a"), *turn(1, "grep", SIZE, pattern="x")]
    later = [m for n in range(10, 40) for m in turn(n, "bash", "ok", command=f"step {n}")]
    worth = worths(answered([*view, *later]), count)
    assert worth[1] > 3 * worth[3]


def test_an_error_makes_nothing_stale() -> None:
    view = [*reads("a"), *turn(1, "read_file", "no such file", path="a", is_error=True)]
    assert worths(answered(view), count)[1] > 0.5


def test_many_results_of_one_file() -> None:
    view = reads(*["a"] * 3000)
    assert len(worths(answered(view), count)) == 3000
