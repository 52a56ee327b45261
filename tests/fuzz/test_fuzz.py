"""A small part of the fuzzing, the same each time; ``python -m tests.fuzz`` does as much as there is time for."""

import random
import re
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given, settings

from . import answers, seeds
from .checks import check_cut, check_endless, check_said
from .formats import decoders
from .inputs import all_seeds, changed, name_of, run

DECODERS = decoders()
NAMES = sorted({name_of(data) for data in all_seeds()})
_NUMBERS = re.compile(rb'(?<=_)1(?=")|(?<=index": )\d+')
STREAMS = [
    (format, number)
    for format in DECODERS
    for number, body in enumerate(seeds.ANSWERS[format])
    if body[:1] not in (b"{", b"[")
]


@pytest.mark.parametrize("name", NAMES)
def test_what_must_hold_for_every_seed_and_some_mutations(name: str) -> None:
    rng = random.Random(name)
    pool = [data for data in all_seeds() if name_of(data) == name]
    for data in pool:
        run(data)
    for _ in range(100):
        run(changed(rng.choice(pool), rng))


def check_written(case: tuple[str, answers.Said, bytes, list[int]]) -> None:
    """What is said is what is read, and a part of it never."""
    format, said, line_end, places = case
    body = answers.written(format, said, line_end)
    check_said(DECODERS[format], body, places, "".join(said.texts), [tuple(call) for call in said.calls])
    for place in places:
        check_cut(DECODERS[format], body, place % (len(body) + 1))


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(answers.WRITTEN)
def test_what_is_said_is_what_is_read(case: tuple[str, answers.Said, bytes, list[int]]) -> None:
    check_written(case)


@pytest.mark.parametrize("format", DECODERS)
def test_a_part_of_an_answer_is_never_a_success(format: str) -> None:
    for body in seeds.ANSWERS[format]:
        for place in range(0, len(body), 11):
            check_cut(DECODERS[format], body, place)


def endless(body: bytes, number: int, *, alike: bool) -> Iterator[bytes]:
    """A stream that repeats its event ``number`` for ever, its ids and indexes alike or counted up."""
    events = [event + b"\n\n" for event in body.split(b"\n\n") if event]
    yield from events[:number]
    for n in count(1):
        yield events[number] if alike else _NUMBERS.sub(b"%d" % n, events[number])


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "counted"])
@pytest.mark.parametrize(("format", "number"), STREAMS)
def test_a_server_that_never_stops_is_left(format: str, number: int, alike: bool) -> None:
    body = seeds.ANSWERS[format][number]
    for event in range(body.count(b"\n\n")):
        check_endless(DECODERS[format], endless(body, event, alike=alike), 100_000)
