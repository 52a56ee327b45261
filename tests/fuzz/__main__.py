"""Fuzzes what reads a server's bytes for some minutes; exits with 1 when something was found.

    python -m tests.fuzz [--minutes 10] [--seed 1] [--only openai-chat] [--found DIR]

First, each kind of event is repeated until it has megabytes: the time must grow with them and no faster. Then, a
quarter of the time, Hypothesis writes good answers and cuts them (``answers.py``); the rest goes to mutations of
answers, good or bad (``mutate.py``). With ``atheris`` installed (3.0.0 has a wheel for CPython 3.11 on Linux) those
that reach new code are built upon, without it they are random. Each kind of failure is saved once, as an input
that ``--replay FILE`` runs again.
"""

import argparse
import hashlib
import importlib
import importlib.util
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis

_LONG_BYTES = 500_000
_STEP_S = 10  # no input may take longer


class Found:
    """Failures by kind: the class, and where in the code it was raised."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: set[str] = set()

    def note(self, data: bytes, error: BaseException) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        key = f"{type(error).__name__} " + " ".join(
            f"{Path(f.filename).name}:{f.lineno}" for f in frames[-3:]
        )
        if key in self._seen:
            return
        self._seen.add(key)
        file = self._folder / hashlib.sha256(data).hexdigest()[:16]
        file.write_bytes(data)
        print(f"FOUND {key}\n  {data[:300]!r}\n  saved as {file}", flush=True)


def grow() -> None:
    """Streams that are repetitive and long; the first that takes too long raises."""
    from . import seeds  # noqa: PLC0415
    from .checks import check_linear  # noqa: PLC0415
    from .test_fuzz import DECODERS, STREAMS, endless  # noqa: PLC0415

    for format, number in STREAMS:
        body = seeds.ANSWERS[format][number]
        for event in range(body.count(b"\n\n")):
            for alike in (True, False):
                stream = partial(endless, body, event, alike=alike)
                check_linear(DECODERS[format], stream, _LONG_BYTES)


def write(seconds: float, seed: int) -> None:
    """Good answers, until the time is over; the first that is not read raises."""
    from . import answers  # noqa: PLC0415
    from .test_fuzz import check_written  # noqa: PLC0415

    ends, runs = time.monotonic() + seconds, 0
    while time.monotonic() < ends:
        search = hypothesis.given(answers.WRITTEN)(check_written)
        search = hypothesis.seed(seed + runs)(search)
        hypothesis.settings(max_examples=200, deadline=None, database=None)(search)()
        runs += 1
    print(f"{runs * 200} good answers")


def fuzz(found: Found, seconds: float, only: str, seed: int) -> None:
    """Random mutations, until the time is over."""
    from .inputs import all_seeds, changed, name_of  # noqa: PLC0415  # instrumented by the caller, or not

    rng = random.Random(seed)
    pool = [data for data in all_seeds() if not only or name_of(data) == only]
    ends, runs = time.monotonic() + seconds, 0
    signal.signal(signal.SIGALRM, _too_long)
    while time.monotonic() < ends:
        data = changed(rng.choice(pool), rng)
        signal.alarm(_STEP_S)
        _one(found, data)
        signal.alarm(0)
        runs += 1
    print(f"{runs} inputs")


def fuzz_guided(found: Found, seconds: float, only: str, seed: int) -> None:
    """The same with atheris: mutations that reach new code are built upon. Does not return."""
    atheris: Any = importlib.import_module("atheris")

    with atheris.instrument_imports(include=["unspool.llm", "unspool.kernel.json_edge"]):
        from .inputs import all_seeds, changed, name_of  # noqa: PLC0415
    folder = Path(tempfile.mkdtemp())
    for number, data in enumerate(all_seeds()):
        if not only or name_of(data) == only:
            (folder / str(number)).write_bytes(data)

    def mutator(data: bytes, max_size: int, number: int) -> bytes:
        rng = random.Random(number)
        if len(data) > 2 and rng.random() < 0.7:
            return changed(data, rng)[:max_size]
        return bytes(atheris.Mutate(data, max_size))

    runs = 0

    def test(data: bytes) -> None:
        nonlocal runs
        runs += 1
        if runs % 10_000 == 0:
            print(f"{runs} inputs", flush=True)
        if not only or name_of(data) == only:
            _one(found, data)

    options = [
        f"-max_total_time={int(seconds)}",
        f"-timeout={_STEP_S}",
        "-rss_limit_mb=2048",
        f"-seed={seed}",
    ]
    options += ["-max_len=20000", "-verbosity=0", str(folder)]
    atheris.Setup([sys.argv[0], *options], test, custom_mutator=mutator)
    atheris.Fuzz()


def _one(found: Found, data: bytes) -> None:
    from .inputs import run  # noqa: PLC0415

    try:
        run(data)
    except Exception as error:  # noqa: BLE001  # whatever gets out is what is looked for
        found.note(data, error)


def _too_long(signum: int, frame: FrameType | None) -> Any:
    raise TimeoutError(f"an input took more than {_STEP_S} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", default="", help="one check: a format, sse, fault, arguments, …")
    parser.add_argument("--found", type=Path, help="where inputs that fail are kept")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", type=Path, help="run one saved input")
    # In this process: atheris ends it.
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        from .inputs import run  # noqa: PLC0415

        run(options.replay.read_bytes())
        return
    folder = options.found or Path(tempfile.mkdtemp(prefix="fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    if options.here:
        guided = importlib.util.find_spec("atheris") is not None
        print("guided by coverage" if guided else "not guided: atheris is not installed", flush=True)
        search = fuzz_guided if guided else fuzz
        search(Found(folder), options.minutes * 60, options.only, options.seed)
        return
    before = set(folder.iterdir())
    grow()
    write(0.25 * options.minutes * 60, options.seed)
    args = [f"--minutes={0.75 * options.minutes}", f"--only={options.only}", f"--seed={options.seed}"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--here", f"--found={folder}", *args], check=False
    )
    new = sorted(set(folder.iterdir()) - before)
    print(f"{len(new)} kinds of failure" + "".join(f"\n  {file}" for file in new))
    sys.exit(1 if new or done.returncode else 0)


if __name__ == "__main__":
    main()
