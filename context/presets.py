"""Context managers that are ready to use.

``default`` keeps a long session going; ``keep_turns`` and ``keep_tokens`` show only the newest part; ``none``
shows everything. Each is for one conversation: make one for each agent.

Read with: ``engine.py``.
"""

from unspool.kernel.ports import BlobStore, ChatModel, window_of

from .clearing import ClearToolResults
from .duplicates import CollapseDuplicateReads
from .economy import Prices
from .engine import Engine
from .extract import ExtractiveSummary
from .keeping import KeepTokens, KeepTurns
from .offloading import OffloadToolResults
from .priorities import ReduceByPriority
from .provider import DropCompacted
from .session_memory import SessionMemory
from .squeezing import Squeeze
from .summary import SummaryCheckpoint
from .tokens import TextCounter
from .trimming import TrimText
from .work import Strategy

_PRICES = Prices()
_SLACK = 0.5  # of what is kept: how far it may grow before it is cut again


def default(
    model: ChatModel | None = None,
    *,
    window: int = 0,
    reserve: int = 0,
    target: float = 0.25,
    blobs: BlobStore | None = None,
    memory: SessionMemory | None = None,
    summary: SummaryCheckpoint | None = None,
    prices: Prices = _PRICES,
    counter: TextCounter | str = "auto",
) -> Engine:
    """The manager for long sessions with tools: cheap and harmless things first, a summary when they don't do.

    In order: what the provider has compacted itself is left out; reads that were repeated are shown once; large
    results go to ``blobs`` where there is a store for them (``read_file`` opens them there); old results are cleared,
    the least useful first; long texts are trimmed; application messages are reduced by priority. Then,
    only while the view is still far too large: the host's own notes (``memory``), a summary by the model, an extract without a
    model where that fails, and a cut through the middle of whatever is too large by itself.

    ``model`` or ``window`` give the window; without them each run's model is asked. ``summary`` has another model
    write the summaries, say, or shares the prompt's cached prefix: ``SummaryCheckpoint(share_prefix=True)``.
    """
    cheap: list[Strategy] = [DropCompacted(), CollapseDuplicateReads()]
    if blobs is not None:
        cheap.append(OffloadToolResults(blobs))
    cheap += [ClearToolResults(keep=3, min_tokens=300), TrimText(), ReduceByPriority()]
    last: list[Strategy] = [] if memory is None else [memory]
    last += [summary or SummaryCheckpoint(), ExtractiveSummary(), Squeeze()]
    return Engine(
        [*cheap, *last],
        window=window or (window_of(model) if model is not None else 0),
        reserve=reserve,
        target=target,
        prices=prices,
        counter=counter,
        name="default",
    )


def keep_turns(turns: int, *, window: int = 0, counter: TextCounter | str = "auto") -> Engine:
    """Shows the newest ``turns`` turns, a turn being a reply with its results and what was said before it.

    To keep the prefix that providers cache, it cuts rarely: down to ``turns`` once there are twice as many, or to half
    of the window when that is full.
    """
    return Engine(
        [KeepTurns(turns, commits=False), KeepTokens(0, commits=False), Squeeze(commits=False)],
        window=window,
        counter=counter,
        max_turns=2 * turns,
        name="keep_turns",
        settings={"turns": turns},
    )


def keep_tokens(tokens: int, *, window: int = 0, counter: TextCounter | str = "auto") -> Engine:
    """Shows the newest messages of ``tokens`` in all; cuts when there is half as much again, or when the window is full."""
    return Engine(
        [KeepTokens(tokens, commits=False), Squeeze(commits=False)],
        window=window,
        counter=counter,
        max_tokens=int((1 + _SLACK) * tokens),
        name="keep_tokens",
        settings={"tokens": tokens},
    )


def none(*, window: int = 0, counter: TextCounter | str = "auto") -> Engine:
    """Shows everything, and counts it."""
    return Engine([], window=window, counter=counter, name="none")
