"""A person at the terminal decides on calls that wait, while the run waits for them.

Read with: ``asking.py``, ``waiting.py``, ``resume.py`` (decisions after the run has paused).
"""

import os
import sys
from collections.abc import Mapping
from typing import Final

from anyio import to_thread

from unspool.kernel.call_states import CallState
from unspool.kernel.hooks import ApprovalInfo, Verdict

from .asking import ask_choice, ask_line, can_ask
from .view import View, printable
from .waiting import approval_lines

_WORDS: Final = {"y": "yes", "s": "yes, for this session", "a": "yes, always", "n": "no"}
_GRANTS: Final = {"y": "once", "s": "session", "a": "always"}


class Approver:
    """Shows what each call is going to do, and asks; ``Hooks.approve`` of the command's runs."""

    def __init__(self, view: View, *, on_stderr: bool = False) -> None:
        self._view = view
        self._on_stderr = on_stderr

    async def __call__(self, info: ApprovalInfo) -> Mapping[str, Verdict] | None:
        """The decisions; None where nobody sits there or the input ends: then the run pauses."""
        if not can_ask():
            return None
        return await to_thread.run_sync(self._ask, info, abandon_on_cancel=True)

    def _ask(self, info: ApprovalInfo) -> dict[str, Verdict] | None:
        decisions = {}
        for call in info.state.waiting_calls:
            first, *rest = approval_lines(call)
            for line in [first, *rest] if self._on_stderr else rest:  # the view has told the first
                self._tell(line)
            verdict = ask_person(call)
            if verdict is None:
                return None
            decisions[call.call.id] = verdict
        return decisions

    def _tell(self, line: str) -> None:
        if self._on_stderr:  # stdout is for events
            print(printable(line), file=sys.stderr)
        else:
            self._view.tell(line)


def ask_person(call: CallState) -> Verdict | None:
    """What the person says of one call; None where the input ends first.

    A question of the model gets its answer; a call may be granted for longer where the gate offers that.
    """
    if call.call.name == "ask_user":
        answer = ask_line(f"answer to {call.call.id} (empty to decline):")
        if answer is None:
            return None
        return Verdict.allow(by=person(), reason=answer) if answer else Verdict.deny(by=person())
    offers = call.details.get("grants")
    offered = [key for key, grant in _GRANTS.items() if grant == "once" or (offers and grant in offers)]
    if len(offered) > 1 and isinstance(offers, dict):
        print(printable(f"  s, a: also {offers['session']}"), file=sys.stderr)
    choices = [*offered, "n"]
    words = ", ".join(f"[{key}] {_WORDS[key]}" for key in choices) if len(choices) > 2 else "[y/n]"
    choice = ask_choice(f"allow {call.call.id} {call.call.name}? {words}", choices)
    if choice is None:
        return None
    if choice == "n":
        return Verdict.deny(by=person())
    grant = _GRANTS[choice]
    return Verdict.allow(by=person(), details={"grant": grant} if grant != "once" else None)


def person() -> str:
    """Whoever gives the command."""
    return os.environ.get("USER", "")
