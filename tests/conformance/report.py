"""What a check found, and how that is told."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_SHOWN_CHARS = 160


@dataclass(frozen=True)
class Result:
    """One id: what differs, line by line, or why it was not looked at."""

    id: str
    differences: list[str] = field(default_factory=list)
    skipped: str = ""


def differs(what: str, wanted: object, got: object) -> Iterator[str]:
    """A line, where the two are not equal."""
    if wanted != got:
        yield f"{what}: expected {_shown(wanted, got)}, got {_shown(got, wanted)}"


def guarded(lines: Iterable[str]) -> list[str]:
    """The lines; an exception among them is one more, since no decoder may raise it."""
    found: list[str] = []
    try:
        found.extend(lines)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a finding and the others go on)
        found.append(f"raised {type(error).__name__}: {_shown(str(error), '')}")
    return found


def tell(results: Iterable[Result], *, verbose: bool = False) -> int:
    """Print what failed and how many did; the exit status."""
    passed = failed = skipped = 0
    for result in results:
        if result.skipped:
            skipped += 1
            if verbose:
                print(f"SKIP {result.id}: {result.skipped}")
        elif result.differences:
            failed += 1
            for line in result.differences:
                print(f"FAIL {result.id}: {line}", flush=True)
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def _shown(value: Any, other: Any) -> str:
    """A value in one line; of long texts what follows from where they part."""
    if isinstance(value, str) and isinstance(other, str) and len(value) > _SHOWN_CHARS:
        start = next((i for i, (a, b) in enumerate(zip(value, other, strict=False)) if a != b), 0)
        start = max(0, start - 20)
        return f"{value[start : start + _SHOWN_CHARS]!r} (of {len(value)} characters, from {start})"
    text = repr(value)
    return text if len(text) <= 2 * _SHOWN_CHARS else f"{text[: 2 * _SHOWN_CHARS]}…"
