"""Event logs: where the facts of a session are kept."""

if __name__ != "unspool.trajectory":
    raise ImportError("trajectory/ is not a top-level package: import unspool.trajectory")

from .blobs import FolderBlobs
from .conformance import check_log
from .damage import Damage, DamageKind
from .differences import Difference, FieldDiff
from .durability import BUFFERED, EACH_FLUSH, Durability, group
from .forking import fork_log
from .head import Head
from .header import Header, Parent
from .jsonl import JsonlLog
from .jsonl_sessions import JsonlSessions
from .loading import follow, iter_facts, iter_records, load, load_records
from .memory import MemoryLog
from .points import before_message, before_run
from .rebuild import RecordedRequest, request_at, requests
from .replay import Replayed, replay
from .runs import RunInfo, runs
from .sessions import SessionHandle, SessionInfo, Sessions
from .settings import RecordedSettings, recorded_settings
from .sqlite import SqliteLog
from .sqlite_sessions import SqliteSessions
from .transcript import Written, transcript
from .verify import Report, Salvaged, salvage, verify

__all__ = [
    "BUFFERED",
    "EACH_FLUSH",
    "Damage",
    "DamageKind",
    "Difference",
    "Durability",
    "FieldDiff",
    "FolderBlobs",
    "Head",
    "Header",
    "JsonlLog",
    "JsonlSessions",
    "MemoryLog",
    "Parent",
    "RecordedRequest",
    "RecordedSettings",
    "Replayed",
    "Report",
    "RunInfo",
    "Salvaged",
    "SessionHandle",
    "SessionInfo",
    "Sessions",
    "SqliteLog",
    "SqliteSessions",
    "Written",
    "before_message",
    "before_run",
    "check_log",
    "follow",
    "fork_log",
    "group",
    "iter_facts",
    "iter_records",
    "load",
    "load_records",
    "recorded_settings",
    "replay",
    "request_at",
    "requests",
    "runs",
    "salvage",
    "transcript",
    "verify",
]
