"""The four modes, and what each says of a call that no rule, grant or place has decided.

============  ======  =============  =====
capability    plan    default        accept-edits
============  ======  =============  =====
read          allow   allow          allow
internal      deny    allow          allow
write         deny    ask            allow
exec          deny    ask            ask
network       ask     ask            ask
unknown       deny    ask            ask
============  ======  =============  =====

``bypass`` allows them all. A shell command that only reads is a read in ``default`` and ``accept-edits``. In
``plan``, a search on the network whose host the tool chooses, not the model, is a read.
"""

from typing import Final, Literal, TypeAlias, get_args

from unspool.kernel.errors import AgentError

Mode: TypeAlias = Literal["plan", "default", "accept-edits", "bypass"]
"""How much may happen without a person."""
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
Capability: TypeAlias = Literal["read", "write", "exec", "network", "internal", "unknown"]
"""What a call is able to do; ``internal`` changes nothing outside the agent."""
CAPABILITIES: Final[tuple[Capability, ...]] = get_args(Capability)
Answer: TypeAlias = Literal["allow", "ask", "deny"]

_TABLE: Final[dict[Mode, dict[Capability, Answer]]] = {
    "plan": {"read": "allow", "network": "ask"},
    "default": {"read": "allow", "internal": "allow"},
    "accept-edits": {"read": "allow", "internal": "allow", "write": "allow"},
    "bypass": dict.fromkeys(CAPABILITIES, "allow"),
}
_OTHERWISE: Final[dict[Mode, Answer]] = {
    "plan": "deny",
    "default": "ask",
    "accept-edits": "ask",
    "bypass": "allow",
}


def parse_mode(text: str) -> Mode:
    """The mode of that name, whatever its case; spaces, ``-`` and ``_`` do not count.

    Raises:
        AgentError: there is no such mode.
    """
    for mode in MODES:
        if _plain(mode) == _plain(text):
            return mode
    raise AgentError("permissions: no such mode", mode=text, modes=list(MODES))


def mode_answer(mode: Mode, capability: Capability) -> Answer:
    """What the table says."""
    return _TABLE[mode].get(capability, _OTHERWISE[mode])


def _plain(text: str) -> str:
    return "".join(char for char in text.casefold() if char not in "-_ ")
