"""Encodings are found on disk, checked, loaded in a thread, and never fetched."""

import importlib
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from unspool.context import encodings
from unspool.context.bpe import Ranks
from unspool.context.encodings import EncodingMissingError, encoding_of, load_encoding, open_encoding
from unspool.context.estimate import Estimate

from .rank_files import DATA, FILE_NAME, PATTERN, RANKS, tiny


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without rank files, on which nothing is loaded and ``tiny`` is an encoding."""
    monkeypatch.setattr(encodings, "_loaded", {})
    definitions = importlib.import_module("tiktoken_ext.openai_public")
    monkeypatch.setitem(definitions.ENCODING_CONSTRUCTORS, "tiny", tiny)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(encodings, "_PACKAGES", ())


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forbids sockets from its call on: an event loop needs some to begin."""

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("a socket was made")

    def forbid() -> None:
        monkeypatch.setattr(socket, "socket", refuse)
        monkeypatch.setattr(socket, "create_connection", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)

    return forbid


def put(folder: Path, data: bytes = DATA) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    path.write_bytes(data)
    return path


def test_places_in_their_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "first"))
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path / "second"))
    monkeypatch.setattr(
        encodings, "_PACKAGES", (("shipping_package", "static"), ("no_such_package", "static"))
    )
    (tmp_path / "installed" / "shipping_package").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "installed")
    with pytest.raises(EncodingMissingError) as caught:
        load_encoding("tiny")
    places = [str(Path(place).relative_to(tmp_path)) for place in caught.value.details["looked"]]
    assert places == [
        "first",
        "second",
        "temporary/data-gym-cache",
        "installed/shipping_package/static",
    ]
    for place in places:
        path = put(tmp_path / place)
        monkeypatch.setattr(encodings, "_loaded", {})
        assert load_encoding("tiny").name == "tiny"
        path.unlink()
    assert "shipping_package" not in sys.modules


def test_a_file_that_is_missing(
    offline: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(empty))
    offline()
    with pytest.raises(EncodingMissingError, match=r"TIKTOKEN_CACHE_DIR .* llama-index-core") as caught:
        load_encoding("o200k_base")
    assert caught.value.details["looked"][0] == str(empty)
    assert caught.value.details["unusable"] == []
    assert caught.value.error_kind == "encoding_missing"
    assert list(empty.iterdir()) == []


def test_a_damaged_file_is_passed_over_and_stays(
    offline: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "first"))
    damaged = put(tmp_path / "first", DATA[:-9])
    offline()
    with pytest.raises(EncodingMissingError, match="SHA-256 differs") as caught:
        load_encoding("tiny")
    assert caught.value.details["unusable"] == [
        f"{damaged}: not the file that tiktoken expects, its SHA-256 differs"
    ]
    put(tmp_path / "temporary" / "data-gym-cache")
    assert load_encoding("tiny").count("the") == 1
    assert damaged.read_bytes() == DATA[:-9]


def test_a_file_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(EncodingMissingError, match="Is a directory"):
        load_encoding("tiny")


@pytest.mark.parametrize("name", ["no_such", "gpt2", "o200k_harmony"])
def test_no_encoding_of_one_file(name: str) -> None:
    with pytest.raises(ValueError, match="tiktoken has none of this name in one file"):
        load_encoding(name)


def test_counting_makes_no_socket(
    offline: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(tmp_path)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    offline()
    assert load_encoding("tiny").count("the thing == abab 12345") == 14
    assert Estimate().count("the thing == abab 12345") == 7


@pytest.mark.anyio
async def test_an_event_loop_loads_in_a_thread(
    offline: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def read(name: str) -> Ranks:
        threads.append(threading.get_ident())
        return Ranks(PATTERN, dict(RANKS))

    monkeypatch.setattr(encodings, "_read_ranks", read)
    offline()
    first = await open_encoding("tiny")
    assert await open_encoding("tiny") is first is load_encoding("tiny")
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


@pytest.mark.anyio
async def test_an_event_loop_hears_of_a_missing_file() -> None:
    with pytest.raises(EncodingMissingError):
        await open_encoding("tiny")


def test_many_threads_load_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    started = threading.Barrier(4)

    def read(name: str) -> Ranks:
        reads.append(name)
        return Ranks(PATTERN, dict(RANKS))

    def load() -> int:
        started.wait()
        return id(load_encoding("tiny"))

    monkeypatch.setattr(encodings, "_read_ranks", read)
    with ThreadPoolExecutor(4) as pool:
        loads = [pool.submit(load) for _ in range(4)]
    assert len({load.result() for load in loads}) == 1
    assert reads == ["tiny"]


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("openai/gpt-4o-mini", "o200k_base"),
        ("openai/gpt-4.1", "o200k_base"),
        ("openai/gpt-4.5-preview", "o200k_base"),
        ("openai-responses/gpt-5.2", "o200k_base"),
        ("openai/o3", "o200k_base"),
        ("openrouter/openai/gpt-4o", "o200k_base"),
        ("openai/gpt-4", "cl100k_base"),
        ("openai/gpt-4-turbo", "cl100k_base"),
        ("azure/GPT-35-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("anthropic/claude-sonnet-5", "o200k_base"),
        ("gemini/gemini-3-pro", "o200k_base"),
        ("", "o200k_base"),
    ],
)
def test_the_encoding_of_a_model(model: str, encoding: str) -> None:
    assert encoding_of(model) == encoding
