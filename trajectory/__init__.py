"""Event logs: where the facts of a session are kept."""

if __name__ != "unspool.trajectory":
    raise ImportError("trajectory/ is not a top-level package: import unspool.trajectory")

from .jsonl import JsonlLog
from .jsonl_reading import follow, iter_records, load, load_records
from .memory import MemoryLog

__all__ = ["JsonlLog", "MemoryLog", "follow", "iter_records", "load", "load_records"]
