"""Whether a search of a directory would read what a rule is about."""

import os
from collections import deque
from collections.abc import Iterator, Sequence

from unspool.tools.files.sweep import IGNORED

from .directories import Directories
from .path_patterns import PathPattern, path_pattern
from .paths import Place, fold
from .rule_syntax import Rule
from .sensitive import BUILT_IN
from .tool_shapes import Depth

_MAX_ENTRIES = 5000  # looked at for one search


def found_below(
    rules: Sequence[Rule], place: Place, roots: Directories, depth: Depth
) -> Iterator[tuple[Rule, str]]:
    """Rules about reading that match something below a directory, as far down as is read, and what they match.

    In a directory too large to look through, every rule of the host and its users counts as matching something.
    """
    about = [(rule, path_pattern(rule.pattern)) for rule in rules if rule.kind == "read" and rule.pattern]
    about = [(rule, pattern) for rule, pattern in about if pattern.may_match_below(place, roots)]
    if not about or not os.path.isdir(place.real):
        return
    named = {pattern.name: rule for rule, pattern in about if pattern.name is not None}
    globs = [(rule, pattern) for rule, pattern in about if pattern.name is None]
    waiting, seen = deque([place.real]), 0
    while waiting:
        for inner, is_dir in _entries(waiting.popleft()):
            name = os.path.basename(inner)
            if name.startswith(".") and depth == "visible":
                continue
            seen += 1
            if seen > _MAX_ENTRIES:
                yield from _too_large(about)
                return
            met = [named.get(fold(name)), *(rule for rule, pattern in globs if pattern.meets(inner, roots))]
            yield from ((rule, roots.shown(Place(inner, inner, inner))) for rule in met if rule is not None)
            if is_dir and not (depth == "most" and name in IGNORED):
                waiting.append(inner)


def _too_large(about: list[tuple[Rule, PathPattern]]) -> Iterator[tuple[Rule, str]]:
    for rule, _ in about:
        if rule.source != BUILT_IN:
            yield rule, "more than can be looked through"


def _entries(directory: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(directory) as entries:
            return sorted((entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError:
        return []  # gone, or not readable: a search can't read it either
