"""What the model layer costs, each figure beside that of a bare client in the same run.

    python benchmarks/llm.py [--json] [--quick] [--sdks VENV]

Exits with 1 when a target is missed. CPU times of the process, the best of several laps that take turns.
``VENV`` is a virtual environment with the providers' SDKs; ``$BENCH_VENVS/sdk`` where it is not given.
``benchmarks/README.md`` says what each row is.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from laps import calibration
from llm_decode import decoding
from llm_loop import looping
from llm_requests import building

Rows = dict[str, dict[str, float]]


class Sizes(NamedTuple):
    laps: int = 25
    events: int = 2000
    turns: int = 100
    messages: int = 1000


_QUICK = Sizes(laps=1, events=200, turns=5, messages=100)


class Target(NamedTuple):
    """What is promised: a figure, and the least or the most it may be."""

    name: str
    figure: float
    bound: float
    least: bool
    passed: bool


def measure(sizes: Sizes, python: Path) -> dict[str, Any]:
    before = calibration()
    decoded, skipped = decoding(sizes.laps, sizes.events, python)
    loop = looping(max(2, sizes.laps // 5), sizes.turns)
    built = building(sizes.laps, sizes.messages)
    rows = {**decoded, f"tool loop of {sizes.turns} turns, ms": loop, **built}
    return {
        "sizes": sizes._asdict(),
        "rows": rows,
        "without an SDK": skipped,
        "calibration, µs": [before, calibration()],
        "targets": [target._asdict() for target in targets(decoded, loop, built, sizes)],
    }


def targets(decoded: Rows, loop: dict[str, float], built: Rows, sizes: Sizes) -> list[Target]:
    found: list[Target] = []

    def note(name: str, figure: float, bound: float, *, least: bool = False) -> None:
        found.append(Target(name, figure, bound, least, figure >= bound if least else figure <= bound))

    for name, row in decoded.items():
        if name.startswith("openai-chat") and "bursts" not in name:
            note(f"{name[:-4]}, rate × bare", row["bare"] / row["ours"], 0.65, least=True)
            if "sdk" in row:
                note(f"{name[:-4]}, rate × SDK", row["sdk"] / row["ours"], 8.0, least=True)
    note(f"tool loop of {sizes.turns} turns, × bare", loop["ours"] / loop["bare"], 4.0)
    for name, row in built.items():
        note(f"{name[:-4]}, one new × all new", row["ours"] / row["bare"], 0.1)
    return found


def report(result: dict[str, Any]) -> str:
    lines = [f"{'':44}{'ours':>10}{'bare':>10}{'SDK':>10}{'× bare':>8}"]
    for name, row in result["rows"].items():
        sdk = f"{row['sdk']:10.2f}" if "sdk" in row else " " * 10
        times = row["ours"] / row["bare"]
        lines.append(f"{name:44}{row['ours']:10.3f}{row['bare']:10.3f}{sdk}{times:8.2f}")
    lines += [f"{name}: {reason}" for name, reason in result["without an SDK"].items()]
    lines.append("")
    for row in result["targets"]:
        verdict, bound = "PASS" if row["passed"] else "FAIL", "at least" if row["least"] else "at most"
        lines.append(f"{verdict}  {row['name']:48}{row['figure']:9.2f}  ({bound} {row['bound']:g})")
    before, after = result["calibration, µs"]
    lines.append(f"\ncalibration {before:.0f} µs before, {after:.0f} µs after")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--quick", action="store_true", help="few laps, short streams: to see that it works")
    default = Path(os.environ.get("BENCH_VENVS", ".cache/venvs")) / "sdk"
    parser.add_argument("--sdks", type=Path, default=default, help="virtual environment with the SDKs")
    options = parser.parse_args()
    result = measure(_QUICK if options.quick else Sizes(), options.sdks / "bin" / "python")
    print(json.dumps(result) if options.json else report(result))
    if not all(target["passed"] for target in result["targets"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
