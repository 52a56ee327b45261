"""How letters leave: counted, kept from going back and forth for ever, with errors that a model can act on.

Read with: ``mailbox.py``, ``guards.py``.
"""

from collections.abc import Callable, Iterable

from unspool.kernel.ports import Clock

from .errors import BoxClosed, BoxFull, TeamError, UnknownMember
from .guards import PairGuard
from .ids import notice_id
from .kinds import HOST, MESSAGE, PING_PONG
from .letters import Letter
from .limits import TeamLimits
from .mailbox import Mailbox


class Post:
    """Sends the letters of a team's members and of its host."""

    def __init__(
        self,
        mailbox: Mailbox,
        clock: Clock,
        limits: TeamLimits,
        *,
        lead: Callable[[], str],
        changed: Callable[[], None],
    ) -> None:
        self.mailbox = mailbox
        self.clock = clock
        self.pairs = PairGuard(limits.per_pair)
        self.sent = 0
        self.ping_pong = False  # whether a letter was ever refused for it
        self._limits = limits
        self._lead = lead
        self._changed = changed

    async def send(self, letter: Letter, *, wait_s: float | None = 0.0) -> bool:
        """Send a letter; False where it was sent before.

        Raises:
            UnknownMember: there is no such member; the message lists those there are.
            BoxClosed, BoxFull: as ``Mailbox.send``.
            TeamError: the team has sent as many letters as it may, or the two go back and forth.
        """
        if self._limits.messages is not None and self.sent >= self._limits.messages:
            raise TeamError("the team has sent as many messages as it may: finish with what you have")
        personal = letter.kind == MESSAGE and letter.sender != HOST
        if personal and not self.pairs.may_send(letter.sender, letter.to):
            await self._refuse(letter)
        try:
            new = await self.mailbox.send(letter, wait_s=wait_s)
        except UnknownMember:
            raise await self._unknown(letter.to) from None
        if new:
            self.sent += 1
            if personal:
                self.pairs.sent(letter.sender, letter.to)
            else:
                self.pairs.happened(letter.to)
            self._changed()
        return new

    async def tell(self, letter: Letter) -> bool:
        """Send what the team has to say about a member; whether it reached somebody who can read it."""
        if not letter.to or letter.to in (letter.sender, HOST):
            return False
        try:
            await self.mailbox.send(letter)
        except (UnknownMember, BoxClosed, BoxFull):
            return False
        self._changed()
        return True

    async def tell_each(self, letters: Iterable[Letter]) -> None:
        """``tell``, one after another."""
        for letter in letters:
            await self.tell(letter)

    async def _refuse(self, letter: Letter) -> None:
        """Refuse a letter that goes back and forth; the lead hears of it once.

        Raises:
            TeamError: always.
        """
        self.ping_pong = True
        lead, limit = self._lead(), self._limits.per_pair
        if self.pairs.trip(letter.sender, letter.to) and lead not in (letter.sender, letter.to):
            text = f"{letter.sender} and {letter.to} have answered each other {limit} times with nothing else done."
            await self.tell(
                Letter(
                    id=notice_id(letter.id, PING_PONG, str(limit)),
                    sender=letter.sender,
                    to=lead,
                    text=text,
                    kind=PING_PONG,
                    sent_at=self.clock.time(),
                )
            )
        raise TeamError(
            f"not sent: you and {letter.to} have answered each other {limit} times with nothing else done. "
            "Do the work, or end your turn."
        )

    async def _unknown(self, name: str) -> UnknownMember:
        names = [box.name for box in await self.mailbox.boxes() if box.state != "closed"]
        there = f"there are {', '.join(names)}" if names else "there is none"
        return UnknownMember(f"there is no member {name[:80]!r}; {there}")
