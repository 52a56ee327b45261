"""What goes to the store, what is left, and that it can be read there."""

from pathlib import Path
from typing import Any

import pytest

from unspool.context.marks import mark_of
from unspool.context.offloading import OffloadToolResults
from unspool.kernel import AgentMessage, Image, LogError, Message, Text, ToolCall, ToolSpec
from unspool.kernel.messages import assistant_message
from unspool.tools import file_tools
from unspool.trajectory.blobs import FolderBlobs

from .scoping import Scope
from .working import done, kinds, turn, work_of

pytestmark = pytest.mark.anyio
View = list[AgentMessage]
LARGE = "".join(f"line {n} of the output\n" for n in range(1, 1001))  # 22,893 characters, some 5,700 tokens


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(str(tmp_path / "blobs"))


def outputs(*texts: str) -> View:
    return [message for n, text in enumerate(texts) for message in turn(n, "bash", text, command=str(n))]


CASES: dict[str, tuple[View, dict[str, Any], int, list[int]]] = {
    "old and large": (outputs(LARGE, "ok", "ok", "ok"), {"keep": 0}, 99_999, [1]),
    "not the newest": (outputs(LARGE, LARGE, LARGE, LARGE), {}, 99_999, [1, 3]),
    "none": (outputs(LARGE, LARGE), {}, 99_999, []),
    "not the turn under way": (outputs(LARGE, LARGE), {"keep": 0}, 99_999, [1]),
    "but whatever takes more than a fourth": (outputs(LARGE, LARGE), {}, 20_000, [1, 3]),
    "not the small ones": (outputs("x" * 7_000, "ok", "ok"), {"keep": 0}, 99_999, []),
    "smaller ones too": (outputs("x" * 7_000, "ok", "ok"), {"keep": 0, "min_tokens": 1000}, 99_999, [1]),
    "errors too": ([*turn(1, "bash", LARGE, is_error=True), *outputs("ok")], {"keep": 0}, 99_999, [1]),
}


@pytest.mark.parametrize(("view", "options", "target", "offloaded"), CASES.values(), ids=CASES)
async def test_which(
    blobs: FolderBlobs, view: View, options: dict[str, Any], target: int, offloaded: list[int]
) -> None:
    after = await done(OffloadToolResults(blobs, **options), work_of(view, target=target))
    assert kinds(after or ()) == dict.fromkeys(offloaded, "offloaded")
    if after is not None:
        assert await done(OffloadToolResults(blobs, **options), work_of(after, target=target)) is None


async def test_what_is_left(blobs: FolderBlobs) -> None:
    view = outputs(LARGE, "ok")
    scope = Scope(tools=[ToolSpec(name="read_file")])
    after = await done(OffloadToolResults(blobs, keep=0, head=60, tail=50), work_of(view, scope=scope))
    assert after is not None
    digest = mark_of(after[1])["blob"]
    left_out, way = "996 lines, 22,805 characters left out here", "read_file opens it as blob"
    assert after[1].text == (
        "line 1 of the output\nline 2 of the output\n"
        f"[… {left_out}; {way}:{digest}, by offset and limit …]\n"
        "line 999 of the output\nline 1000 of the output\n"
    )
    bare = await done(OffloadToolResults(blobs, keep=0, head=60, tail=50), work_of(view))
    assert bare is not None and f"{left_out}; stored as blob:{digest} …]" in bare[1].text
    assert mark_of(after[1]) == {
        "kind": "offloaded",
        "of": "",
        "blob": digest,
        "bytes": 22_893,
        "lines": 1000,
        "characters": 22_893,
    }
    assert blobs.get(digest).decode() == LARGE


async def test_one_endless_line(blobs: FolderBlobs) -> None:
    view = outputs("x" * 100_000, "ok")
    after = await done(OffloadToolResults(blobs, keep=0, head=60, tail=50), work_of(view))
    assert after is not None
    first, line, last = after[1].text.split("\n")
    assert (first, last) == ("x" * 60, "x" * 50) and "1 line, 99,890 characters left out" in line


async def test_other_blocks_stay(blobs: FolderBlobs) -> None:
    call, image = ToolCall(id="c", name="look"), Image(data="aQ==", mime_type="image/png")
    result = Message(
        role="tool", content=(image, Text(LARGE), Text("end")), tool_call_id="c", tool_name="look"
    )
    after = await done(
        OffloadToolResults(blobs, keep=0), work_of([assistant_message("", call), result, *outputs("ok")])
    )
    assert after is not None and isinstance(new := after[1], Message)
    assert [type(block) for block in new.content] == [Image, Text] and new.text.endswith("\nend")
    assert blobs.get(mark_of(new)["blob"]).decode() == f"{LARGE}end"


async def test_read_file_opens_it(blobs: FolderBlobs, tmp_path: Path) -> None:
    after = await done(OffloadToolResults(blobs, keep=0), work_of(outputs(LARGE, "ok")))
    assert after is not None
    read_file = file_tools(tmp_path, blobs=blobs)[0]
    args = {"path": f"blob:{mark_of(after[1])['blob']}", "offset": 500, "limit": 1}

    class Context:
        cancelled = False

    shown = await read_file.execute(args, Context())  # type: ignore[arg-type]  # all that read_file looks at
    assert shown == "500\tline 500 of the output\n[lines 500-500 of 1000; next: offset=501]"


async def test_a_store_that_fails_is_told() -> None:
    class Broken:
        def put(self, data: bytes, /) -> str:
            raise LogError("log: a blob cannot be written")

        def get(self, digest: str, /) -> bytes:
            raise LogError("log: a blob is missing")

    with pytest.raises(LogError):
        await done(OffloadToolResults(Broken(), keep=0), work_of(outputs(LARGE, "ok")))


def test_wrong_settings(blobs: FolderBlobs) -> None:
    with pytest.raises(ValueError, match="below 0"):
        OffloadToolResults(blobs, keep=-1)


async def test_what_was_read_from_the_store_is_not_stored_again(blobs: FolderBlobs) -> None:
    view = [*turn(1, "read_file", LARGE, path=f"blob:{'a' * 64}"), *outputs("ok")]
    assert await done(OffloadToolResults(blobs, keep=0), work_of(view)) is None
