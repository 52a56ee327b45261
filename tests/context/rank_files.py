"""A small encoding with a rank file of its own, so that tests need none of the real ones."""

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha1, sha256
from typing import Any

URL = "https://example.invalid/tiny.tiktoken"
FILE_NAME = sha1(URL.encode()).hexdigest()
PATTERN = r"\p{L}+|\p{N}{1,3}|\s+|[^\s\p{L}\p{N}]+"
_MERGES = (
    b"ab",
    b"abab",
    b"th",
    b"the",
    b"in",
    b"ing",
    b"==",
    b"====",
    "é".encode(),
    "中".encode()[:2],
    "中".encode(),
    b"aa",
)
RANKS: Mapping[bytes, int] = {
    token: rank for rank, token in enumerate([*(bytes([byte]) for byte in range(256)), *_MERGES])
}
DATA = b"".join(b64encode(token) + b" " + str(rank).encode() + b"\n" for token, rank in RANKS.items())


def load_tiktoken_bpe(url: str, expected_hash: str) -> dict[bytes, int]:
    """Stands where tiktoken's loader stands, which fetches what is not there."""
    raise AssertionError(f"{url} would have been fetched, or removed for its hash {expected_hash}")


def tiny() -> dict[str, Any]:
    """As tiktoken's constructors are."""
    return {
        "name": "tiny",
        "pat_str": PATTERN,
        "mergeable_ranks": load_tiktoken_bpe(URL, expected_hash=sha256(DATA).hexdigest()),
        "special_tokens": {"<|end|>": 1000},
    }
