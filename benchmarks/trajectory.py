"""What keeping a session costs, each figure beside that of the bare operation in the same process.

    python benchmarks/trajectory.py [--json] [--quick] [--folder DIR]

Exits with 1 when a target is missed. CPU times are those of the process, the best of several alternated
laps, except where the unit says wall time. ``benchmarks/README.md`` says what each row is.
"""

import argparse
import json
import sys
from typing import Any, NamedTuple

from laps import calibration
from stores import (
    QUICK,
    Figures,
    Fork,
    Rows,
    Sizes,
    Stored,
    appending,
    flushing,
    following,
    forking,
    growth,
    loading,
    running,
    storing,
)


class Target(NamedTuple):
    """What is promised: a figure, and the most it may be."""

    name: str
    figure: float
    bound: float
    passed: bool


def measure(sizes: Sizes, base: str) -> dict[str, Any]:
    before = calibration()
    rows, mean = appending(base, sizes)
    grown = growth(base, sizes)
    loaded, megabytes = loading(base, sizes)
    forks = forking(base, sizes)
    followed = following(base, sizes)
    stored = storing(base, sizes)
    rows |= loaded | running(base, sizes) | flushing(base, sizes)
    return {
        "sizes": sizes._asdict(),
        "mean bytes of a line": mean,
        "MB loaded": megabytes,
        "rows": rows,
        "growth, long over short": grown,
        "forks": {name: fork._asdict() for name, fork in forks.items()},
        "follower, MB": followed,
        "stored": {name: {**each._asdict(), "allowed": each.allowed()} for name, each in stored.items()},
        "calibration, µs": [before, calibration()],
        "targets": [target._asdict() for target in targets(rows, grown, forks, followed, stored, sizes)],
    }


def targets(
    rows: Rows,
    grown: Figures,
    forks: dict[str, Fork],
    followed: Figures,
    stored: dict[str, Stored],
    sizes: Sizes,
) -> list[Target]:
    def ratio(row: str) -> float:
        return rows[row]["ours"] / rows[row]["bare"]

    found = [("append, JSONL, × a bare write", ratio("append, JSONL, µs"), 3.0)]
    found.append(("append, SQLite, × a bare insert", ratio("append, SQLite, µs"), 2.0))
    for kind, times in grown.items():
        found.append((f"append at {sizes.long}, {kind}, × at {sizes.short}", times, 1.1))
    for kind in ("JSONL", "SQLite"):
        found.append((f"load and fold, {kind}, ms", rows[f"load and fold, {kind}, ms"]["ours"], 500.0))
        found.append((f"verify, {kind}, ms", rows[f"verify, {kind}, ms"]["ours"], 200.0))
    for name, fork in forks.items():
        found += [(f"{name}, ms", fork.ms, 1.0), (f"{name}, bytes", fork.size, 1024.0)]
    found.append(("a follower grows by, MB", followed["grown"], 8.0))
    for name, each in stored.items():
        found.append((f"JSONL, {name}, × allowed", each.jsonl / each.allowed(), 1.0))
        found.append((f"SQLite, {name}, × allowed", each.sqlite / each.allowed(), 1.0))
    return [Target(name, figure, bound, figure <= bound) for name, figure, bound in found]


# Measured once, elsewhere: 2 vCPU, Python 3.12, other jobs beside it. Ours are of this run.
_OTHERS = (
    ("append an event, µs", "append, JSONL, µs", "1,070", "300 (tool), 4,400 (model, turn 1,000)"),
    ("decode 10,000 events, ms", "load, JSONL, ms", "2,200", "1,740"),
    ("resume after 10,000 events, ms", "load and fold, JSONL, ms", "3,750", "-"),
    ("fork 10,000 events, ms", "fork", "19,000", "-"),
    ("bytes that a fork adds", "fork bytes", "19,600,000", "-"),
)


def report(result: dict[str, Any]) -> str:
    lines = [f"{'':40}{'ours':>10}{'bare':>10}{'× bare':>8}"]
    for name, row in result["rows"].items():
        lines.append(f"{name:40}{row['ours']:10.2f}{row['bare']:10.2f}{row['ours'] / row['bare']:8.2f}")
    lines.append(
        f"\nlines of {result['mean bytes of a line']:.0f} bytes are appended, {result['MB loaded']:.1f} MB loaded"
    )
    lines += ["", f"{'stored':40}{'unique':>10}{'JSONL':>10}{'SQLite':>10}{'allowed':>10}  (KB a turn)"]
    for name, row in result["stored"].items():
        cells = [row[key] / row["turns"] / 1024 for key in ("unique", "jsonl", "sqlite", "allowed")]
        lines.append(f"{name:40}" + "".join(f"{cell:10.2f}" for cell in cells))
    lines += ["", *_others(result), ""]
    for row in result["targets"]:
        verdict = "PASS" if row["passed"] else "FAIL"
        lines.append(f"{verdict}  {row['name']:46}{row['figure']:9.2f}  (at most {row['bound']:g})")
    before, after = result["calibration, µs"]
    lines.append(f"\ncalibration {before:.0f} µs before, {after:.0f} µs after")
    return "\n".join(lines)


def _others(result: dict[str, Any]) -> list[str]:
    """Ours beside what two frameworks need, as measured elsewhere."""
    fork = result["forks"][f"fork of {result['sizes']['long']}, JSONL"]
    ours = {name: row["ours"] for name, row in result["rows"].items()}
    ours |= {"fork": fork["ms"], "fork bytes": fork["size"]}
    lines = [f"{'beside others (measured elsewhere)':40}{'ours':>10}{'OpenHands':>12}  Inspect"]
    for name, row, openhands, inspect in _OTHERS:
        lines.append(f"{name:40}{ours[row]:10.2f}{openhands:>12}  {inspect}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--quick", action="store_true", help="few laps, short logs: to see that it works")
    parser.add_argument("--folder", default="", help="where to write, on the disk that is to be measured")
    options = parser.parse_args()
    result = measure(QUICK if options.quick else Sizes(), options.folder)
    print(json.dumps(result) if options.json else report(result))
    if not all(target["passed"] for target in result["targets"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
