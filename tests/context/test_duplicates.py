"""Which results a newer one makes superfluous."""

from typing import Any

import pytest

from unspool.context.duplicates import CollapseDuplicateReads
from unspool.context.marks import marked
from unspool.kernel import AgentMessage, Message, user_message

from .working import done, kinds, turn, work_of

pytestmark = pytest.mark.anyio
View = list[AgentMessage]


def file(*changed: int, first: int = 1, last: int = 100) -> str:
    """Lines of a file as ``read_file`` shows them, some changed."""
    lines = [f"{n}\t{'other' if n in changed else 'value'} = {n}" for n in range(first, last + 1)]
    return "\n".join([*lines, f"[lines {first}-{last} of 100]"])


def read(number: int, text: str, path: str = "a.py", **part: Any) -> View:
    return turn(number, "read_file", text, path=path, **part)


def ls(number: int, text: str) -> View:
    return turn(number, "bash", text, command="ls")


END = user_message("and now?")
CASES: dict[str, tuple[View, list[int]]] = {
    "nothing twice": ([*read(1, file()), *read(2, file(), "b.py")], []),
    "the same": ([*read(1, file()), *read(2, file())], [1]),
    "thrice": ([*read(1, file()), *read(2, file()), *read(3, file())], [1, 3]),
    "changed": ([*read(1, file(7)), *read(2, file())], [1]),
    "the same part": ([*read(1, file(), offset=1), *read(2, file(), offset=1)], [1]),
    "the same part, changed": ([*read(1, file(7), offset=1), *read(2, file(), offset=1)], [1]),
    "another part": ([*read(1, file(last=50), offset=1), *read(2, file(first=51), offset=51)], []),
    "a part, then all": ([*read(1, file(last=50), limit=50), *read(2, file())], [1]),
    "a part, then all with a line changed": ([*read(1, file(9, last=50), limit=50), *read(2, file())], [1]),
    "a part, then all that does not show it": (
        [*read(1, file(first=51), offset=51), *read(2, file(last=50))],
        [],
    ),
    "all, then a part": ([*read(1, file()), *read(2, file(last=50), limit=50)], []),
    "the same output": ([*ls(1, "x\n" * 300), *ls(2, "x\n" * 300)], [1]),
    "more output": ([*ls(1, "x\n" * 300), *ls(2, "x\n" * 300 + "y")], [1]),
    "other output of the same command": ([*ls(1, "x\n" * 300), *ls(2, "y\n" * 300)], []),
    "and back": ([*ls(1, "x\n" * 300), *ls(2, "y\n" * 300), *ls(3, "x\n" * 300)], [1]),
    "the same output of another command": ([*read(1, "x\n" * 300), *ls(2, "x\n" * 300)], []),
    "small": ([*read(1, "x = 1"), *read(2, "x = 1")], []),
    "an error is no newer read": (
        [*read(1, file()), *turn(2, "read_file", "no such file", is_error=True, path="a.py")],
        [],
    ),
    "nor is it one that goes": (
        [*turn(1, "bash", "x\n" * 300, is_error=True, command="ls"), *ls(2, "x\n" * 300)],
        [],
    ),
}


@pytest.mark.parametrize(("view", "collapsed"), CASES.values(), ids=CASES)
async def test_superfluous(view: View, collapsed: list[int]) -> None:
    after = await done(CollapseDuplicateReads(), work_of([*view, END]))
    assert kinds(after or ()) == dict.fromkeys(collapsed, "collapsed")
    if after is not None:
        assert await done(CollapseDuplicateReads(), work_of(after)) is None


@pytest.mark.parametrize(
    ("view", "line"),
    [
        (
            [*ls(1, "x\n" * 300), *ls(2, "x\n" * 300)],
            '[bash(command="ls"): the same output came again later]',
        ),
        (
            [*read(1, file(7)), *read(2, file())],
            '[read_file(path="a.py"): an older version; it was read again later]',
        ),
        (
            [*read(1, file(last=50), limit=50), *read(2, file())],
            '[read_file(path="a.py", limit=50): the newer read_file(path="a.py") shows it]',
        ),
    ],
)
async def test_what_is_said_instead(view: View, line: str) -> None:
    after = await done(CollapseDuplicateReads(), work_of([*view, END]))
    assert after is not None and after[1].text == line


async def test_what_is_shortened_shows_nothing() -> None:
    view: View = [*read(1, file()), *read(2, file()), END]
    assert isinstance(view[3], Message)
    view[3] = marked(view[3], view[3].content[:1], "offloaded")
    assert await done(CollapseDuplicateReads(), work_of(view)) is None


async def test_the_turn_under_way_stays() -> None:
    """Its results have not been seen yet; older ones go for their sake."""
    view = [*read(1, file()), *read(2, file())]
    after = await done(CollapseDuplicateReads(), work_of(view))
    assert after is not None and kinds(after) == {1: "collapsed"}


async def test_many_results_of_one_command() -> None:
    view = [message for n in range(1000) for message in ls(n, f"{n}\n" * 300)]
    assert await done(CollapseDuplicateReads(), work_of(view)) is None
