"""What counting tokens costs, and how long loading an encoding holds up an event loop.

Run ``python benchmarks/context_tokens.py``; the exact counts need a rank file on disk (``TIKTOKEN_CACHE_DIR``).
"""

import subprocess
import sys
import time
from pathlib import Path

import anyio

from unspool.context.encodings import EncodingMissingError, load_encoding, open_encoding
from unspool.context.estimate import Estimate
from unspool.context.tokens import TextCounter

_KERNEL = Path(__file__).parents[1] / "kernel"
_LAPS = 10


def cost_us(counter: TextCounter, text: str) -> float:
    """Microseconds for 1,000 tokens: the best of some laps, the first not among them."""
    tokens = counter.count(text)
    best = float("inf")
    for _ in range(_LAPS):
        start = time.perf_counter()
        counter.count(text)
        best = min(best, time.perf_counter() - start)
    return best * 1e9 / tokens


async def largest_gap_ms(name: str) -> float:
    """The longest that a task which sleeps for 1 ms waits more than that, while ``name`` is loaded."""
    gaps: list[float] = []
    async with anyio.create_task_group() as group:

        async def beat() -> None:
            while True:
                start = time.perf_counter()
                await anyio.sleep(0.001)
                gaps.append((time.perf_counter() - start) * 1e3 - 1)

        group.start_soon(beat)
        await anyio.sleep(0.05)
        gaps.clear()
        await open_encoding(name)
        group.cancel_scope.cancel()
    return max(gaps)


def main() -> None:
    if len(sys.argv) == 3:  # in a process of its own: an encoding is loaded once
        print(f"{anyio.run(largest_gap_ms, sys.argv[1], backend=sys.argv[2]):.1f}")
        return
    text = "".join(path.read_text("utf-8") for path in sorted(_KERNEL.glob("*.py")))[:16_000]
    print(f"estimate: {cost_us(Estimate(), text):.0f} µs per 1,000 tokens")
    for name in ("o200k_base", "cl100k_base"):
        try:
            exact = load_encoding(name)
        except EncodingMissingError as error:
            print(error)
            continue
        print(f"{name}: {cost_us(exact, text):.0f} µs per 1,000 tokens")
        for backend in ("asyncio", "trio"):
            command = [sys.executable, __file__, name, backend]
            gap = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
            print(f"{name}: largest gap of {backend} while loading {gap} ms")


if __name__ == "__main__":
    main()
