"""Context managers: what a model sees of a long conversation, and the measures of how well that is chosen.

    agent = Agent("anthropic/claude-sonnet-4-5", context=context.default())

Read with: ``presets.py`` (ready to use), ``engine.py`` (how they work), ``work.py`` (a strategy of your own).
"""

if __name__ != "unspool.context":
    raise ImportError("context/ is not a top-level package: import unspool.context")

from .clearing import ClearToolResults
from .duplicates import CollapseDuplicateReads
from .economy import Prices
from .encodings import EncodingMissingError, load_encoding, open_encoding
from .engine import Engine
from .estimate import Estimate
from .extract import ExtractiveSummary
from .keeping import KeepTokens, KeepTurns
from .meter import RunMeter, measure
from .metrics import Call, CallMetrics, RunMetrics
from .naming import manager_named, manager_of
from .offloading import OffloadToolResults
from .presets import default, keep_tokens, keep_turns, none
from .priorities import ReduceByPriority
from .provider import DropCompacted
from .session_memory import SessionMemory
from .squeezing import Squeeze
from .summary import SummaryCheckpoint
from .tokens import MessageTokens, TextCounter
from .trimming import TrimText
from .work import Budget, Rewrite, Strategy, Work

__all__ = [
    "Budget",
    "Call",
    "CallMetrics",
    "ClearToolResults",
    "CollapseDuplicateReads",
    "DropCompacted",
    "EncodingMissingError",
    "Engine",
    "Estimate",
    "ExtractiveSummary",
    "KeepTokens",
    "KeepTurns",
    "MessageTokens",
    "OffloadToolResults",
    "Prices",
    "ReduceByPriority",
    "Rewrite",
    "RunMeter",
    "RunMetrics",
    "SessionMemory",
    "Squeeze",
    "Strategy",
    "SummaryCheckpoint",
    "TextCounter",
    "TrimText",
    "Work",
    "default",
    "keep_tokens",
    "keep_turns",
    "load_encoding",
    "manager_named",
    "manager_of",
    "measure",
    "none",
    "open_encoding",
]
