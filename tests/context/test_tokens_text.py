"""Counters of text: the same as tiktoken's where they say so, bounded always."""

import itertools

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from unspool.context import bpe
from unspool.context.bpe import Encoding, Ranks, merged
from unspool.context.encodings import EncodingMissingError, load_encoding
from unspool.context.estimate import Estimate
from unspool.context.text_sample import text_sample
from unspool.context.tokens import TextCounter

from .rank_files import PATTERN, RANKS

# without unassigned characters, of which each Unicode table thinks differently
_CHARACTERS = st.one_of(
    st.sampled_from("aAbBhtein 019\n\r\t.,=/<|>'_-é中か\u0301\u2028😀"),
    st.characters(exclude_categories=["Cs", "Cn", "Co"]),
)
TEXTS = st.text(_CHARACTERS, max_size=60)
TINY = Encoding("tiny", Ranks(PATTERN, dict(RANKS)))
ESTIMATE = Estimate()
PROSE = "The quick brown fox jumps over the lazy dog, twice a day, and then it rests.\n"
CODE = "def area(self, width: int) -> int:\n    return self.height * width  # of 12\n"

COUNTERS = [pytest.param(counter, id=counter.name) for counter in (TINY, ESTIMATE)]


@given(TEXTS)
def test_a_small_encoding_counts_as_tiktoken_does(text: str) -> None:
    reference = tiktoken.Encoding(
        "tiny", pat_str=PATTERN, mergeable_ranks=dict(RANKS), special_tokens={"<|end|>": 1000}
    )
    assert TINY.count(text) == len(reference.encode_ordinary(text))


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_the_real_encodings_count_as_tiktoken_does(name: str) -> None:
    try:
        ours = load_encoding(name)
    except EncodingMissingError as error:
        pytest.skip(f"{name}: its file is not on this machine ({error.details['file']})")
    assert isinstance(ours, Encoding)
    ranks = ours._pieces._ranks
    reference = tiktoken.Encoding(
        name, pat_str=ours._split.__self__.pattern, mergeable_ranks=ranks, special_tokens={}
    )
    for text in (
        PROSE * 20,
        CODE * 20,
        "中文和日本語、한국어 и русский\n" * 9,
        "<|endoftext|>",
        "a" * 200,
        " " * 99,
    ):
        assert ours.count(text) == len(reference.encode_ordinary(text))

    @given(TEXTS)
    def check(text: str) -> None:
        assert ours.count(text) == len(reference.encode_ordinary(text))

    check()


@pytest.mark.parametrize(
    ("data", "tokens"),
    [
        (b"a", 1),
        (b"ab", 1),
        (b"ababab", 2),
        (b"xyz", 3),
        (b"thing", 2),
        (b"athe", 2),
        (b"=======", 3),
        (b"aaa", 2),
    ],
)
def test_pieces_are_merged_by_rank(data: bytes, tokens: int) -> None:
    assert merged(data, dict(RANKS)) == tokens


def test_what_looks_like_a_special_token_is_text() -> None:
    assert TINY.count("<|end|>") == 7


def test_remembering_pieces_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe, "_KEPT_PIECES", 10)
    counter = Encoding("tiny", Ranks(PATTERN, dict(RANKS)))
    words = ["".join(letters) for letters in itertools.product("xyz", repeat=4)]
    assert [counter.count(word) for word in words] == [4] * len(words)
    assert len(counter._pieces) <= 10
    assert counter.count("z" * 65) == 65
    assert "z" * 65 not in counter._pieces


@pytest.mark.parametrize("counter", COUNTERS)
def test_nothing_is_no_token_and_all_else_is_some(counter: TextCounter) -> None:
    assert counter.count("") == 0
    assert [counter.count(text) for text in ("a", " ", "\n", "\ud800", "\0", "?")] == [
        1,
        1,
        1,
        *[counter.count("\ufffd")],
        1,
        1,
    ]
    assert counter.count("\ufffd") >= 1


@pytest.mark.parametrize("counter", COUNTERS)
@given(text=st.text(max_size=200))
def test_a_count_is_never_absurd(counter: TextCounter, text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    assert counter.count(text) == counter.count(text)
    assert min(1, size) <= counter.count(text) <= max(size, 0)
    if counter is ESTIMATE:
        assert counter.count(text) >= int(size / 12)


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("text", [PROSE, CODE, "中文 ", "🙂\n"])
def test_a_long_text_counts_like_its_parts(counter: TextCounter, text: str) -> None:
    part = text * (10_000 // len(text))
    assert counter.count(part * 50) == pytest.approx(50 * counter.count(part), rel=0.05)


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("text", ["a", " ", "\n", "=", "xq", "\ud800", "中", "é?", "x y"], ids=ascii)
def test_a_text_without_end_is_counted_by_parts(counter: TextCounter, text: str) -> None:
    long = text * (1_000_000 // len(text))
    assert len(text_sample(long, bpe.LIMIT)) <= bpe.LIMIT
    assert 1 <= counter.count(long) <= len(long.encode("utf-8", "surrogatepass"))


def test_merging_is_bounded() -> None:
    merges: list[int] = []

    class Watched(dict[bytes, int]):
        def get(self, key: bytes, default: int) -> int:  # type: ignore[override]  # as it is called
            merges.append(1)
            return super().get(key, default)

    random = "".join(chr(ord("b") + (place * place + place // 7) % 25) for place in range(16_000))
    counter = Encoding("tiny", Ranks(r"\p{L}{1,9}", Watched(RANKS)))
    assert counter.count(random) == pytest.approx(len(random), rel=0.1)
    assert len(merges) < 10_000


def test_a_sample_has_beginning_and_end() -> None:
    text = "".join(chr(0x4E00 + place) for place in range(1000))
    sample = text_sample(text, 400)
    assert (len(sample), sample[:10], sample[-10:]) == (400, text[:10], text[-10:])
    assert text_sample(text, 1000) is text


@pytest.mark.parametrize(
    ("text", "tokens"),  # by o200k_base
    [
        (PROSE, 19),
        (CODE, 23),
        ('{"id": 17, "name": "alpha", "tags": ["x", "y"], "score": 0.25}', 29),
        ("-rw-r--r-- 1 root root  3285 Nov 30 06:35 breaker.py\n", 24),
        ("# Title\n\nSome *Markdown* with a [link](https://example.com/a/b).\n", 19),
        ("上下文管理器决定模型看到什么，旧的工具结果会先被清除。", 19),
        ("コンテキスト管理はモデルが何を見るかを決めます。", 16),
        ("Менеджер контекста решает, что видит модель.", 14),
        ("कॉन्टेक्स्ट मैनेजर तय करता है कि मॉडल क्या देखता है।", 19),
        ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", 43),
        ("TWFuIGlzIGRpc3Rpbmd1aXNoZWQsIG5vdCBvbmx5IGJ5IGhpcyByZWFzb24=", 36),
    ],
)
def test_the_estimate_is_near(text: str, tokens: int) -> None:
    assert ESTIMATE.count(text * 5) == pytest.approx(tokens * 5, rel=0.2)
