"""Taking times on a machine that is not ours alone: alternated laps, of which the best counts."""

import asyncio
import gc
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Coroutine
from typing import Any

Job = Callable[[], Coroutine[Any, Any, Any]]
Timer = Callable[[], float]


def lap(job: Job, timer: Timer = time.process_time) -> float:
    """Seconds of one lap, without starting the event loop."""

    async def timed() -> float:
        gc.collect()
        start = timer()
        await job()
        return timer() - start

    return asyncio.run(timed())


def best(jobs: dict[str, Job], laps: int, timer: Timer = time.process_time) -> dict[str, float]:
    """Seconds of the best lap of each job; laps alternate, so that all meet the same machine."""
    found = dict.fromkeys(jobs, float("inf"))
    for _ in range(laps):
        for name, job in jobs.items():
            found[name] = min(found[name], lap(job, timer))
    return found


def scaled(seconds: dict[str, float], factor: float) -> dict[str, float]:
    return {name: value * factor for name, value in seconds.items()}


def peak_kb(job: Job) -> float:
    """KB of Python objects alive at the worst moment of ``job``, beyond those before it."""

    async def traced() -> float:
        gc.collect()
        tracemalloc.start()
        await job()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak / 1024

    return asyncio.run(traced())


def calibration() -> float:
    """µs of CPU for a fixed piece of pure Python: how fast this machine is now."""
    found = float("inf")
    for _ in range(9):
        start = time.process_time()
        table: dict[int, str] = {}
        for number in range(4000):
            table[number & 127] = str(number) + table.get(number & 63, "")[:3]
        found = min(found, time.process_time() - start)
    return found * 1e6


_IMPORT = """
import sys, time
start = time.process_time()
for name in sys.argv[1].split(","): __import__(name)
print(time.process_time() - start)
"""


def import_time(laps: int) -> dict[str, float]:
    """ms of CPU to import unspool, and its foundations alone, in a fresh interpreter."""
    found = {"ours": float("inf"), "bare": float("inf")}
    foundations = "asyncio,anyio,msgspec"
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(laps + 1):  # the first writes the bytecode
        for name, modules in (("bare", foundations), ("ours", f"{foundations},unspool")):
            command = [sys.executable, "-c", _IMPORT, modules]
            out = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout
            found[name] = min(found[name], float(out) * 1e3)
    return found
