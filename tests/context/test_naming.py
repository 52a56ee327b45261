"""Context managers by name, and as they describe themselves."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from unspool.context import (
    ClearToolResults,
    Engine,
    KeepTurns,
    SummaryCheckpoint,
    TrimText,
    default,
    keep_tokens,
    keep_turns,
    manager_named,
    manager_of,
    none,
)


class Blobs:
    """A store that keeps nothing."""

    def put(self, data: bytes, /) -> str:
        return sha256(data).hexdigest()

    def get(self, digest: str, /) -> bytes:
        raise AssertionError("nothing is read")


def described(manager: object) -> Any:
    assert isinstance(manager, Engine)
    return msgspec.json.decode(msgspec.json.encode(manager.describe()))


@pytest.mark.parametrize(
    ("spec", "manager"),
    [
        ("none", none(window=9_000)),
        ("default", default(window=9_000)),
        ("keep_turns:10", keep_turns(10, window=9_000)),
        ("keep_tokens:2000", keep_tokens(2_000, window=9_000)),
    ],
)
def test_presets_have_names(spec: str, manager: Engine) -> None:
    assert described(manager_named(spec, window=9_000)) == described(manager)


def test_clearing_alone_is_one_strategy() -> None:
    (only,) = described(manager_named("clear:5"))["strategies"]
    assert (only["strategy"], only["keep"]) == ("clear_tool_results", 5)


def test_a_factory_gives_a_manager() -> None:
    assert described(manager_named("unspool.context.presets:none")) == described(none())


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("", "no such manager: '', there are none, default"),
        ("newest", "no such manager: 'newest'"),
        ("newest:", "no such manager: 'newest:'"),
        ("keep_turns:-1", "keep_turns takes a number"),
        ("default:1", "default takes no number"),
        ("unspool.context:nothing", "has no attribute 'nothing'"),
        ("unspool.context:keep_turns", "missing 1 required positional argument"),
    ],
)
def test_what_is_none_is_an_error(spec: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"^context: ") as raised:
        manager_named(spec)
    assert told in str(raised.value)


MADE: dict[str, Callable[[], Engine]] = {
    "none": lambda: none(),
    "default": lambda: default(window=9_000, reserve=500, target=0.4),
    "default with a store": lambda: default(blobs=Blobs()),
    "default with another summary": lambda: default(
        summary=SummaryCheckpoint(share_prefix=True, focus="ids")
    ),
    "keep_turns": lambda: keep_turns(4),
    "keep_tokens": lambda: keep_tokens(400, window=9_000),
    "strategies of one's own choice": lambda: Engine(
        [ClearToolResults(keep=7), TrimText(commits=False)], target=0.3
    ),
    "with settings": lambda: Engine([KeepTurns(3)], name="mine", settings={"for": "tests"}),
}


@pytest.mark.parametrize("name", MADE)
def test_a_manager_is_made_again_from_its_description(name: str) -> None:
    said = described(MADE[name]())
    assert described(manager_of(said, blobs=Blobs())) == said


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"manager": "newest"},
        {"manager": "engine", "strategies": [{"strategy": "drop_images"}]},
        {"manager": "default", "window": 0},
        {**described(none()), "of": "later"} | {"strategies": "what is this"},
    ],
)
def test_what_is_not_from_here_is_not_made_again(description: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="cannot be made again from its description"):
        manager_of(description)
