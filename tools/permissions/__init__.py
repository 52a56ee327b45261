"""The permission engine: rules, modes and grants that decide on calls of tools."""

from .commands import only_reads
from .decision import Decision, Finding
from .directories import Directories
from .engine import PLAN_TOOLS, Permissions
from .grants import Grants
from .hosts import HostPattern, canonical_host, host_of
from .modes import MODES, Mode, parse_mode
from .requests import Request
from .rule_syntax import Rule, RuleError, parse_rule
from .rules import Rules
from .scopes import Scope
from .sensitive import SENSITIVE
from .store import GrantStore, StoreError

__all__ = [
    "MODES",
    "PLAN_TOOLS",
    "SENSITIVE",
    "Decision",
    "Directories",
    "Finding",
    "GrantStore",
    "Grants",
    "HostPattern",
    "Mode",
    "Permissions",
    "Request",
    "Rule",
    "RuleError",
    "Rules",
    "Scope",
    "StoreError",
    "canonical_host",
    "host_of",
    "only_reads",
    "parse_mode",
    "parse_rule",
]
