"""How alike texts are, by the pairs of characters in their lines; works for any script. Pure functions."""

from collections import Counter
from collections.abc import Iterable, Sequence


def bigrams(line: str) -> list[str]:
    """Each two neighbouring characters of ``line``; a single character stands for itself."""
    return [line] if len(line) == 1 else [line[at : at + 2] for at in range(len(line) - 1)]


def count_bigrams(lines: Iterable[str]) -> Counter[str]:
    return Counter(pair for line in lines for pair in bigrams(line))


def similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """From 0 (nothing in common) to 1: the Sørensen–Dice coefficient of the bigrams of some lines."""
    left, right = count_bigrams(one), count_bigrams(other)
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 1.0
