"""Which sources a trajectory is made over: the standard library, installed packages and this project."""

import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
_LIBRARY = Path(sysconfig.get_path("stdlib"))
_LARGEST = 90_000  # bytes; longer files are tables and generated code
_SKIPPED = {"__pycache__", "node_modules", "data", "_vendor"}


class Source(NamedTuple):
    """A file or a folder, and what it is called in the copy."""

    name: str
    path: Path


def library(*names: str) -> list[Source]:
    """Packages or modules of the standard library; ``test/…`` are its tests.

    Raises:
        FileNotFoundError: this Python came without it (some distributions leave the tests out).
    """
    found = []
    for name in names:
        path = _LIBRARY / name
        if not path.exists():
            raise FileNotFoundError(f"this Python has no {path}: run the benchmark with a complete one")
        found.append(Source(name, path))
    return found


def installed(*names: str) -> list[Source]:
    """Packages that are installed here.

    Raises:
        FileNotFoundError: one is not.
    """
    found = []
    for name in names:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise FileNotFoundError(f"{name} is not installed: pip install {name}")
        found.append(Source(name, Path(spec.origin).parent))
    return found


def project(*names: str) -> list[Source]:
    """Folders of this project."""
    return [Source(name, PROJECT / name) for name in names]


def files_of(source: Source) -> list[tuple[str, Path]]:
    """Name in the copy and path of each source file, in order."""
    if source.path.is_file():
        return [(source.name, source.path)]
    paths = [(path.relative_to(source.path), path) for path in sorted(source.path.rglob("*"))]
    return [
        (f"{source.name}/{name}", path)
        for name, path in paths
        if path.suffix in {".py", ".md"} and not _SKIPPED.intersection(name.parts) and _is_source(path)
    ]


def _is_source(path: Path) -> bool:
    """Whether a person may have written it, in UTF-8."""
    if path.stat().st_size > _LARGEST:
        return False
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True
