"""tiktoken's encodings, from disk only.

tiktoken itself fetches a file that is missing and removes one that is damaged. Here nothing is fetched, written or
removed: a file is taken when its SHA-256 is the one that tiktoken expects. Ranks are read by a loop in a worker
thread, so that the event loop goes on: its largest gap is about 15 ms, where tiktoken's loading makes one of 200 ms.

Read with: ``bpe.py`` (how they count), ``counters.py`` (which one counts for a model).
"""

import importlib
import os
import tempfile
import threading
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from hashlib import sha1, sha256
from importlib.machinery import PathFinder
from io import BytesIO
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from anyio import to_thread

from unspool.kernel.errors import AgentError

from .bpe import Encoding, Ranks
from .tokens import TextCounter

_VARIABLES: Final = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")  # as tiktoken has them
_PACKAGES: Final = (  # that ship the files
    ("llama_index", "core/_static/tiktoken_cache"),
    ("litellm", "litellm_core_utils/tokenizers"),
)
_LOADER: Final = "load_tiktoken_bpe"  # what tiktoken's constructors call for their ranks
_loading = threading.Lock()
_loaded: dict[str, Encoding] = {}


class EncodingMissingError(AgentError):
    """No usable file of an encoding is on this machine; ``details`` say where it was looked for."""

    error_kind = "encoding_missing"


def load_encoding(name: str) -> TextCounter:
    """The counter of an encoding (``o200k_base``, ``cl100k_base``), loaded once for the process.

    The first time takes about 0.3 s: in an event loop use ``open_encoding``. Never touches the network.

    Raises:
        ValueError: tiktoken has no such encoding.
        EncodingMissingError: there is no file of it on disk.
    """
    with _loading:
        if name not in _loaded:
            _loaded[name] = Encoding(name, _read_ranks(name))
        return _loaded[name]


async def open_encoding(name: str) -> TextCounter:
    """``load_encoding`` in a worker thread, so that the event loop goes on. Raises what that raises."""
    if name in _loaded:
        return _loaded[name]
    return await to_thread.run_sync(load_encoding, name, abandon_on_cancel=True)


def encoding_of(model: str) -> str:
    """The encoding that fits a model (``provider/model``), or is the nearest to its own.

    >>> [encoding_of(name) for name in ("openai/gpt-4o-mini", "openai/gpt-4-turbo", "anthropic/claude")]
    ['o200k_base', 'cl100k_base', 'o200k_base']
    """
    name = model.rpartition("/")[2].lower()
    older = name.startswith(("gpt-4", "gpt-3.5", "gpt-35")) and not name.startswith(
        ("gpt-4o", "gpt-4.1", "gpt-4.5")
    )
    return "cl100k_base" if older or name.startswith("text-embedding-") else "o200k_base"


def _read_ranks(name: str) -> Ranks:
    """The encoding of this name, as tiktoken defines it. Takes about 0.3 s; for a worker thread.

    Raises:
        ValueError: tiktoken has no such encoding, or none that is made of one rank file.
        EncodingMissingError: there is no file of it on disk, or none that is what tiktoken expects.
    """
    # not imported with this file: an estimate does without
    constructors = importlib.import_module("tiktoken_ext.openai_public").ENCODING_CONSTRUCTORS
    constructor = constructors.get(name)
    if constructor is None or _LOADER not in constructor.__code__.co_names:
        raise ValueError(f"encoding: tiktoken has none of this name in one file (name={name!r})")

    def load(url: str, expected_hash: str) -> dict[bytes, int]:
        return _parsed(_found(name, sha1(url.encode()).hexdigest(), expected_hash))

    # its constructor knows the pattern, the file's name and its hash; only what fetches the file is replaced
    offline: Callable[[], dict[str, Any]] = FunctionType(
        constructor.__code__, {**constructor.__globals__, _LOADER: load}
    )
    made = offline()
    return Ranks(made["pat_str"], made["mergeable_ranks"])


def _found(name: str, file_name: str, expected_hash: str) -> bytes:
    looked: list[str] = []
    unusable: list[str] = []
    for folder in _folders():
        path = folder / file_name
        looked.append(str(folder))
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        except OSError as error:
            unusable.append(f"{path}: {error.strerror}")
            continue
        if sha256(data).hexdigest() == expected_hash:
            return data
        unusable.append(f"{path}: not the file that tiktoken expects, its SHA-256 differs")
    raise EncodingMissingError(
        "encoding: no usable file of it on disk; put it into a folder that TIKTOKEN_CACHE_DIR names (tiktoken does, "
        f"by tiktoken.get_encoding({name!r}) where there is a network), or install llama-index-core, which ships it",
        encoding=name,
        file=file_name,
        looked=looked,
        unusable=unusable,
    )


def _folders() -> Iterator[Path]:
    """Where files may be, each named by the SHA-1 of its URL."""
    for variable in _VARIABLES:
        if folder := os.environ.get(variable):
            yield Path(folder)
    yield Path(tempfile.gettempdir(), "data-gym-cache")
    for package, below in _PACKAGES:
        spec = PathFinder.find_spec(package)  # finds it without importing it
        for folder in (spec and spec.submodule_search_locations) or ():
            yield Path(folder, below)


def _parsed(data: bytes) -> dict[bytes, int]:
    """Ranks from lines of base64, blank and a number. A loop, not one call in C: each step may let go of the
    interpreter, so that an event loop in another thread goes on."""
    ranks: dict[bytes, int] = {}
    for line in BytesIO(data):
        token, _, rank = line.partition(b" ")
        if rank:
            ranks[a2b_base64(token)] = int(rank)
    return ranks
