"""What does not fit at all is shortened, all of it by the same measure."""

from typing import Any

import pytest

from unspool.context.marks import mark_of, marked
from unspool.context.squeezing import Squeeze, cap_for
from unspool.kernel import AgentMessage, Message, ToolCall, ToolSpec, user_message
from unspool.kernel.messages import assistant_message, tool_message

from .scoping import Scope
from .working import count, done, kinds, turn, work_of

pytestmark = pytest.mark.anyio
View = list[AgentMessage]
TASK = user_message("Do it.")


def parallel(*lengths: int) -> View:
    """One reply with as many calls, and results of so many characters."""
    calls = [ToolCall(id=f"c{n}", name="bash", args={"command": f"cat {n}"}) for n in range(len(lengths))]
    results = [
        tool_message(call, (f"{call.id} line\n" * (length // 8 + 1))[:length])
        for call, length in zip(calls, lengths, strict=True)
    ]
    return [TASK, assistant_message("", *calls), *results]


@pytest.mark.parametrize(
    ("sizes", "room", "cap"),
    [
        ([100], 50, 50),
        ([10, 100, 1000], 150, 70),
        ([100, 100, 100], 99, 33),
        ([5, 5, 1000], 1005, 995),
        ([7], 0, 0),
    ],
)
def test_the_cap(sizes: list[int], room: int, cap: int) -> None:
    assert cap_for(sizes, room) == cap
    assert sum([min(size, cap) for size in sizes]) <= room


VIEWS: dict[str, tuple[View, list[int]]] = {
    "one result of a megabyte": (parallel(1_000_000), [2]),
    "five results side by side": (parallel(*[100_000] * 5), [2, 3, 4, 5, 6]),
    "the large ones only": (parallel(100_000, 2_000, 100_000), [2, 4]),
    "400 calls in one turn": (parallel(*[4_000] * 400), list(range(2, 402))),
    "a long answer": ([TASK, assistant_message("a" * 200_000), user_message("go on")], [1]),
    "old results as well": ([TASK, *turn(1, "f", "x" * 200_000), *parallel(200_000)[1:]], [2, 4]),
}


@pytest.mark.parametrize(("view", "squeezed"), VIEWS.values(), ids=VIEWS)
async def test_it_fits_a_window_of_32000(view: View, squeezed: list[int]) -> None:
    levels: dict[str, Any] = {"trigger": 28_000, "target": 14_000, "overhead": 1_000}
    after = await done(Squeeze(), work_of(view, **levels))
    assert after is not None and kinds(after) == dict.fromkeys(squeezed, "squeezed")
    assert 1_000 + sum(map(count, after)) <= 28_000
    assert await done(Squeeze(), work_of(after, **levels)) is None


async def test_large_ones_get_the_same() -> None:
    after = await done(Squeeze(), work_of(parallel(*[100_000] * 5), trigger=28_000))
    assert after is not None
    sizes = [count(message) for message in after[2:]]
    assert max(sizes) - min(sizes) < 20 and 13_000 < sum(sizes) <= 14_000


async def test_what_is_said() -> None:
    after = await done(Squeeze(), work_of(parallel(100_000), trigger=1000))
    assert after is not None
    assert after[2].text.startswith("c0 line\n") and after[2].text.endswith("\nc0 line\n")
    line = next(each for each in after[2].text.split("\n") if each.startswith("["))
    shown = len(after[2].text) - len(line) - 2
    assert line == (
        f"[… {100_000 - shown:,} characters left out: too long to be shown; call bash for a smaller part to see more …]"
    )
    assert mark_of(after[2]) == {"kind": "squeezed", "of": "", "lines": 12_500, "characters": 100_000}


async def test_a_stored_text_is_named() -> None:
    view = parallel(100_000)
    result = view[2]
    assert isinstance(result, Message)
    view[2] = marked(result, result.content, "offloaded", blob="f" * 64, lines=90_000, characters=700_000)
    after = await done(
        Squeeze(), work_of(view, trigger=1000, scope=Scope(tools=[ToolSpec(name="read_file")]))
    )
    assert (
        after is not None
        and f"left out; read_file opens it as blob:{'f' * 64}, by offset and limit …]" in after[2].text
    )
    assert mark_of(after[2])["blob"] == "f" * 64 and mark_of(after[2])["characters"] == 700_000


async def test_squeezed_again_it_says_how_much_is_missing_in_all() -> None:
    once = await done(Squeeze(), work_of(parallel(100_000), trigger=4000))
    assert once is not None
    twice = await done(Squeeze(), work_of(once, trigger=1000))
    assert twice is not None and twice[2].text.count("[…") == 1
    line = next(each for each in twice[2].text.split("\n") if each.startswith("["))
    assert f"{100_000 - (len(twice[2].text) - len(line) - 2):,} characters" in line


@pytest.mark.parametrize(
    "view",
    [
        [user_message("u" * 400_000)],
        [user_message("u" * 400_000), *turn(1, "f", "x" * 100_000)],
        [TASK, *turn(1, "f", "x" * 8_000)],
    ],
    ids=["a user's text", "a result beside it", "what fits"],
)
async def test_where_it_cannot_help(view: View) -> None:
    assert await done(Squeeze(), work_of(view, trigger=28_000)) is None


@pytest.mark.parametrize("share", [0, -1, 1.5])
def test_wrong_settings(share: float) -> None:
    with pytest.raises(ValueError, match="share is a fraction"):
        Squeeze(share=share)
