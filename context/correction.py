"""What a provider's usage teaches about an estimate.

Every provider counts with a tokenizer of its own and adds what it wraps around messages. The ratio between what it
reported and what was estimated for the same request holds, nearly, for the next one.

Read with: ``tokens.py`` (estimates), ``engine.py`` (the caller).
"""

from typing import Final

from unspool.kernel.messages import Usage

LOWEST: Final = 0.25  # ratios beyond these are no measurement: a gateway's own counting, or only a part
HIGHEST: Final = 4.0


class Correction:
    """A factor for each model: the ratio of the newest plausible report.

    The newest, not a mean, because an estimate is off by what the transcript holds (code, Chinese, images), and the
    newest request holds most of what the next one will. ``ignored`` counts the reports that were not plausible.
    """

    def __init__(self) -> None:
        self.ignored = 0
        self._factors: dict[str, float] = {}

    def measured(self, model: str, estimated: int, usage: Usage) -> None:
        """Learn from a reply to a request that was estimated, as a whole and uncorrected, at ``estimated`` tokens."""
        ratio = usage.context_tokens / estimated if estimated > 0 else 0.0
        if LOWEST <= ratio <= HIGHEST:
            self._factors[model] = ratio
        else:
            self.ignored += 1

    def apply(self, model: str, estimated: int) -> int:
        """What ``model``'s provider will report, about, for what is estimated at ``estimated`` tokens: that itself
        until a report came, and 0 for 0 only."""
        factor = self._factors.get(model, 1.0)
        return max(1, round(estimated * factor)) if estimated > 0 else 0
