"""What a team may come to.

Read with: ``guards.py`` (who watches it), ``team.py``.
"""

import math

from msgspec import Struct


class TeamLimits(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The bounds of a team; None is no limit.

    ``members`` counts those that have not ended, the lead included. ``depth`` is how many levels of members may
    be spawned by members. ``concurrency`` is how many run at once; one that waits for messages does not run.
    ``tokens`` (prompts and answers, cached or not), ``cost`` (US dollars) and ``seconds`` are of the whole team since
    it was opened, ``messages`` counts letters. ``per_pair`` is how often two members may answer each other
    with nothing else happening. ``failures`` is how many failed runs in a row end a member.

    Raises:
        ValueError: a limit is not above 0 and finite.
    """

    members: int = 32
    depth: int = 3
    concurrency: int = 8
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    messages: int | None = 10_000
    per_pair: int | None = 20
    failures: int = 3

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"team limits: must be above 0 and finite ({name}={value!r})")
