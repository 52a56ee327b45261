"""The conformance kit for mailboxes: ``await check_mailbox(make)``.

A mailbox of your own passes in your tests with one line, on asyncio and on trio::

    await check_mailbox(lambda name: MyMailbox(folder / name))

Each check works in places of its own, which are closed when it is over.

Read with: ``mailbox.py`` (the promises), ``unspool.kernel.conformance`` (the pieces).
"""

import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeAlias

from anyio.lowlevel import checkpoint

from unspool.kernel.conformance import (
    MOMENTS,
    SETTLE,
    Check,
    Kit,
    Moment,
    Ran,
    Running,
    living,
    must_be_callable,
    shown,
)
from unspool.kernel.ports import Clock

from .errors import BoxClosed, BoxFull, UnknownMember
from .letters import Cause, DeadLetter, Delivery, Letter
from .mailbox import Mailbox

MakeMailbox: TypeAlias = "Callable[[str], Mailbox | Awaitable[Mailbox]]"
_METHODS = ("open", "send", "receive", "acknowledge", "rest", "aclose")
_BOX = "bob"
_LARGE = 2_000_000  # characters
_LEASE_S = 0.05
_LONG_S = 3600.0
_SETTLE_S = 0.02
_CANCELLED = ("send", "send to a full box", "receive", "acknowledge", "release", "refuse", "rest", "close")


async def check_mailbox(
    make: MakeMailbox,
    *,
    durable: bool = True,
    clock: Clock | None = None,
    timeout_s: float = 30.0,
    grace_s: float = 5.0,
    skip: Collection[str] = (),
) -> None:
    """Check that a mailbox keeps what ``Mailbox`` promises, on the event loop that this is awaited on.

    ``make`` opens the place of a name, sync or async: a new and empty one for a name it was not given before, else
    the one it was given then, also while that is open. ``durable`` is False for one that is gone when it is closed.
    ``timeout_s`` bounds one use of the mailbox, ``grace_s`` the end of a call that was told to end, both on
    ``clock``, which must be the mailbox's own where it has one. ``skip`` names checks to leave out.

    Raises:
        ConformanceError: lists each violation.
        TypeError: ``make`` is a mailbox.
        ValueError: ``skip`` names no check.
    """
    __tracebackhide__ = True
    must_be_callable(make, _METHODS, "check_mailbox")
    kit = _MailboxKit(lambda: None, clock, timeout_s, grace_s)
    kit.make = make
    await kit.carry_out(_CHECKS if durable else _TRANSIENT, skip)
    kit.conclude("mailbox")


def _letter(id: str, sender: str = "alice", to: str = _BOX, text: str = "hello") -> Letter:
    return Letter(id=id, sender=sender, to=to, text=text)


def _letters(count: int, sender: str = "alice") -> list[Letter]:
    return [_letter(f"{sender}-{number}", sender) for number in range(1, count + 1)]


def _ids(found: Sequence[Delivery | DeadLetter]) -> list[str]:
    return [each.letter.id for each in found]


class _MailboxKit(Kit):
    make: MakeMailbox

    def __init__(
        self, make: Callable[[], Any], clock: Clock | None, timeout_s: float, grace_s: float
    ) -> None:
        super().__init__(make, clock, timeout_s, grace_s)
        self._opened: list[Mailbox] = []
        self._places = 0
        self._token = os.urandom(4).hex()

    # --- mailboxes and what is done with them

    def place(self) -> str:
        self._places += 1
        return f"mailbox{self._places}-{self._token}"

    async def mailbox(self, place: str = "", *, letters: Sequence[Letter] = (), capacity: int = 100) -> Any:
        """The mailbox of that place, or a new one, with the box and these letters in it."""
        mailbox = await self.must(self.fresh, partial(self.make, place or self.place()))
        self._opened.append(mailbox)
        await self.must(partial(mailbox.open, _BOX, capacity=capacity))
        for letter in letters:
            await self.must(mailbox.send, letter)
        return mailbox

    async def must(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """What ``fn(*args)`` gives."""
        ran = await self.run(fn, *args)
        if ran.error is not None:
            raise ran.error
        if ran.late:
            raise TimeoutError(f"{fn!r} did not end in time")
        return ran.value

    async def taken(self, mailbox: Mailbox, **options: Any) -> list[str]:
        """The ids of what is delivered now."""
        return _ids(await self.must(partial(mailbox.receive, _BOX, **options)))

    def same(self, got: object, wanted: object, expected: str, advice: str) -> None:
        if got != wanted:
            self.found_once(f"{expected}: {shown(wanted)}", shown(got), advice)

    async def gives(
        self, mailbox: Mailbox, ids: Sequence[str], when: str, advice: str, **options: Any
    ) -> None:
        """Say so unless those are delivered now, in that order."""
        got = await self.taken(mailbox, **options)
        self.same(got, list(ids), f"{when}, what is delivered is", advice)

    async def refuses(self, fn: Callable[[], Awaitable[Any]], error: type[Exception], when: str) -> None:
        self._refused(await self.run(fn), error, when)

    def _refused(self, ran: Ran, error: type[Exception], when: str) -> None:
        if not isinstance(ran.error, error):
            got = ran.failure or f"it gave {shown(ran.value)}"
            self.found_once(f"{when}, {error.__name__} is raised", got, f"raise {error.__name__}")

    async def ended(self, running: Running, when: str) -> Ran:
        """What a waiting call comes to now."""
        ran = await self.result(running)
        if ran.late:
            self.found_once(f"{when}, the call ends", ran.failure, "wake whoever waits, also all of several")
        return ran

    async def settled(self, *waiting: Running) -> None:
        """Calls have begun to wait."""
        for _ in range(SETTLE):
            await checkpoint()
        await self.clock.sleep(_SETTLE_S)  # those that ask a thread
        for running in waiting:
            if running.ran is not None:
                got = running.ran.failure or shown(running.ran.value)
                self.found_once("a call waits for what is not there yet", got, "see `wait_s`")

    async def let_go(self) -> None:
        for mailbox in self._opened:
            await self.must(mailbox.aclose)
        self._opened.clear()

    # --- letters

    async def sends(self) -> None:
        mailbox = await self.mailbox()
        letters = [
            Letter(
                id="ünïcode 🎈",
                sender="ålice\n",
                to=_BOX,
                text="日本語 \x00 \u2028 🎈",
                data={"ключ": ["é", None]},
            ),
            Letter(id="large", sender="bulk", to=_BOX, text="é" * _LARGE),
            Letter(
                id="all",
                sender="alice",
                to=_BOX,
                kind="own",
                summary="s",
                reply_to="ünïcode 🎈",
                sent_at=1.5,
                cause=Cause(session="s", seq=3, call_id="c"),
                data={"a": {"b": [1, 2.5, True]}},
            ),
        ]
        for letter in letters:
            accepted = await self.must(mailbox.send, letter)
            self.same(accepted, True, "`send` of a new letter gives", "return True")
        got = await self.must(mailbox.receive, _BOX)
        self.same(
            [one.letter for one in got], letters, "what is delivered is what was sent", "keep all of it"
        )
        self.same([one.attempt for one in got], [1, 1, 1], "the first attempt is", "count from 1")
        numbers = [one.number for one in got]
        self.same(numbers, sorted(set(numbers)), "the numbers of deliveries rise", "count letters by box")
        await self.gives(mailbox, [], "where all is out", "deliver what waits, once")

    async def order(self) -> None:
        mailbox = await self.mailbox()
        sent: list[str] = []
        for number in range(1, 21):
            for sender in ("alice", "carol", "dave"):
                sent.append(f"{sender}-{number}")
                await self.must(mailbox.send, _letter(sent[-1], sender))
        got: list[str] = []
        while len(got) < len(sent) and (more := await self.taken(mailbox, limit=7)):
            self.same(len(more) <= 7, True, "at most `limit` letters are delivered", "stop at the limit")
            got += more
        self.same(got, sent, "letters are delivered in order", "number them in each box")

    async def unknown(self) -> None:
        mailbox = await self.mailbox()
        to = _letter("x", to="nobody")
        await self.refuses(partial(mailbox.send, to), UnknownMember, "for a letter to nobody")
        for fn in (mailbox.receive, mailbox.close, mailbox.rest):
            await self.refuses(partial(fn, "nobody"), UnknownMember, f"`{fn.__name__}` of an unknown box")
        self.same(
            await self.must(mailbox.dead_letters), (), "what was refused is no dead letter", "just raise"
        )

    async def again(self) -> None:
        first, second = _letters(2)
        mailbox = await self.mailbox(letters=[first, second])
        advice = "keep the ids of accepted letters beyond their acknowledgement"

        async def again(when: str) -> None:
            accepted = await self.must(mailbox.send, first)
            self.same(accepted, False, f"a letter that is sent again {when} is not accepted", advice)

        await again("while it waits")
        await self.gives(mailbox, [first.id, second.id], "after a letter was sent twice", advice)
        await again("while it is out")
        await self.must(mailbox.acknowledge, _BOX, [first.id, second.id, "never heard of"])
        await again("after it was acknowledged")
        await self.gives(mailbox, [], "after all was acknowledged", advice)
        await self.must(mailbox.close, _BOX)
        await again("to a box that was closed")

    async def release(self) -> None:
        letters = _letters(4)
        mailbox = await self.mailbox(letters=letters)
        one, two, three, four = [letter.id for letter in letters]
        await self.taken(mailbox, limit=3)
        await self.must(mailbox.release, _BOX, [three, one, "never heard of", four])
        got = await self.must(mailbox.receive, _BOX)
        self.same(_ids(got), [one, three, four], "released letters are in their places", "keep their numbers")
        self.same([each.attempt for each in got], [2, 2, 1], "attempts are counted", "count deliveries")
        await self.must(mailbox.acknowledge, _BOX, [one, two])
        await self.must(mailbox.release, _BOX, [one, two, three])
        await self.gives(
            mailbox, [three], "after `release` of what was acknowledged", "only put back what is out"
        )
        await self.must(mailbox.release, _BOX, [three])
        await self.must(mailbox.acknowledge, _BOX, [three])
        await self.gives(mailbox, [], "after a letter that waits was acknowledged", "take it out of the box")

    async def lease(self) -> None:
        letters = _letters(3)
        mailbox = await self.mailbox(letters=letters)
        one, two, three = [letter.id for letter in letters]
        await self.taken(mailbox, lease_s=_LEASE_S)
        await self.must(partial(mailbox.renew, _BOX, [two, three], lease_s=_LONG_S))
        advice = "put letters back whose lease is over, and wake who waits then"
        for attempt in (2, 3):
            waiting = self.start(
                partial(mailbox.receive, _BOX, wait_s=self.timeout_s, limit=1, lease_s=_LEASE_S)
            )
            got = (await self.ended(waiting, "when a lease is over")).value or ()
            self.same(
                [(each.letter.id, each.attempt) for each in got], [(one, attempt)], "it comes again", advice
            )
        await self.must(mailbox.acknowledge, _BOX, [one])
        await self.clock.sleep(_LEASE_S * 2)
        await self.must(mailbox.release, _BOX, [three])
        await self.gives(mailbox, [three], "after `renew` and `acknowledge`", "renewed letters stay out")

    async def readers(self) -> None:
        mailbox = await self.mailbox(letters=[*_letters(3), _letter("carol-1", "carol")])
        advice = "a sender's letters are out to one reader at a time"
        await self.gives(mailbox, ["alice-1"], "to one reader", advice, limit=1, reader="a")
        await self.gives(mailbox, ["carol-1"], "to another", advice, reader="b")
        await self.must(partial(mailbox.release, _BOX, ["alice-1"], reader="b"))
        await self.gives(mailbox, [], "after another released it", advice, reader="b")
        await self.gives(mailbox, ["alice-2"], "to the same reader", advice, limit=1, reader="a")
        waiting = self.start(partial(mailbox.receive, _BOX, wait_s=None, reader="b"))
        await self.settled(waiting)
        await self.must(mailbox.acknowledge, _BOX, ["alice-1", "alice-2"])
        got = (await self.ended(waiting, "when the earlier letters are acknowledged")).value or ()
        self.same(_ids(got), ["alice-3"], "the other reader gets the next", advice)

    async def capacity(self) -> None:
        one, two, three, four, five = _letters(5)
        mailbox = await self.mailbox(letters=[one, two], capacity=2)
        await self.refuses(partial(mailbox.send, three), BoxFull, "where a box is full")
        await self.refuses(partial(mailbox.send, three, wait_s=_LEASE_S), BoxFull, "when the time is up")
        self.same(
            await self.must(mailbox.send, one), False, "a full box knows its letters", "look at ids first"
        )
        waiting = []
        for letter in (three, four, five):
            waiting.append(self.start(partial(mailbox.send, letter, wait_s=None)))
            await self.settled()
        await self.gives(mailbox, [one.id, two.id], "in a full box", "no more than `capacity` is in it")
        await self.settled(*waiting)
        await self.must(mailbox.acknowledge, _BOX, [one.id, two.id])
        for running in waiting[:2]:
            await self.ended(running, "when there is room")
        await self.settled(waiting[2])
        await self.gives(mailbox, [three.id, four.id], "after room was made", "first come, first served")
        await self.must(mailbox.close, _BOX)
        ran = await self.ended(waiting[2], "when the box is closed")
        self._refused(ran, BoxClosed, "to a sender that waits when the box is closed")

    # --- rest, close

    async def rest(self) -> None:
        first, second = _letters(2)
        mailbox = await self.mailbox(letters=[first])
        await self.must(partial(mailbox.open, "lead"))
        notice, advice = _letter("idle-1", _BOX, "lead"), "look and rest in one step"
        for when in ("waits", "is out"):
            rested = await self.must(mailbox.rest, _BOX, notice)
            self.same(rested, False, f"where a letter {when}, `rest` gives", advice)
            await self.taken(mailbox)
        await self.must(mailbox.acknowledge, _BOX, [first.id])
        self.same(await self.must(mailbox.rest, _BOX, notice), True, "of an empty box, `rest` gives", advice)
        self.same(await self._state(mailbox), "resting", "then it is", advice)
        got = _ids(await self.must(mailbox.receive, "lead"))
        self.same(got, ["idle-1"], "the notice arrives when it rests, and only then", advice)
        await self.must(mailbox.send, second)
        self.same(await self._state(mailbox), "busy", "a letter wakes it: it is", "wake the box in `send`")
        await self.gives(mailbox, [second.id], "after it woke", advice)
        await self.must(mailbox.acknowledge, _BOX, [second.id])
        await self.must(mailbox.rest, _BOX, _letter("idle-2", _BOX, "nobody"))
        dead = _ids(await self.must(mailbox.dead_letters))
        self.same(dead, ["idle-2"], "a notice to nobody is a dead letter", "keep it")

    async def _state(self, mailbox: Mailbox) -> str:
        infos = await self.must(mailbox.boxes)
        return str(next(info.state for info in infos if info.name == _BOX))

    async def close(self) -> None:
        letters = [*_letters(2), _letter("carol-1", "carol")]
        mailbox = await self.mailbox(letters=letters)
        ids = [letter.id for letter in letters]
        await self.taken(mailbox, limit=1)
        dead = await self.must(mailbox.close, _BOX, "why not")
        advice = "all that waits or is out becomes dead letters"
        self.same(_ids(dead), ids, "`close` gives what was not acknowledged", advice)
        self.same({each.reason for each in dead}, {"why not"}, "with the reason", advice)
        self.same(len(await self.must(mailbox.close, _BOX)), 0, "closing again gives", "nothing happens")
        await self.refuses(partial(mailbox.send, _letter("late")), BoxClosed, "in a closed box")
        await self.refuses(partial(mailbox.receive, _BOX), BoxClosed, "of a closed box")
        await self.refuses(partial(mailbox.rest, _BOX), BoxClosed, "of a closed box")
        self.same(_ids(await self.must(mailbox.dead_letters)), ids, "dead letters are kept, in order", advice)
        of_carol = _ids(await self.must(mailbox.dead_letters, "carol"))
        self.same(of_carol, ["carol-1"], "those of a sender are found", "look at the letter's sender")
        await self.must(partial(mailbox.open, _BOX, capacity=7))
        await self.must(mailbox.send, _letter("late"))
        await self.gives(mailbox, ["late"], "in a box that was opened again", "it begins empty")

    async def refuse(self) -> None:
        letters = _letters(3)
        mailbox = await self.mailbox(letters=letters)
        await self.taken(mailbox, limit=1)
        refused = ["alice-1", "alice-3", "never heard of"]
        dead = await self.must(partial(mailbox.refuse, _BOX, refused, reason="expired"))
        advice = "they are dead letters, and out of the box"
        self.same([(one.letter.id, one.reason) for one in dead], [("alice-1", "expired"), ("alice-3", "expired")],
                  "`refuse` gives them", advice)  # fmt: skip
        self.same(
            _ids(await self.must(mailbox.dead_letters)), ["alice-1", "alice-3"], "they are kept", advice
        )
        await self.gives(mailbox, ["alice-2"], "after letters were refused", advice)

    async def boxes(self) -> None:
        mailbox = await self.mailbox(letters=_letters(3), capacity=9)
        await self.must(partial(mailbox.open, "ann", capacity=1))
        await self.must(partial(mailbox.open, _BOX, capacity=1))
        await self.taken(mailbox, limit=1)
        infos = await self.must(mailbox.boxes)
        got = [(info.name, info.state, info.waiting, info.out, info.capacity) for info in infos]
        wanted = [("ann", "busy", 0, 0, 1), (_BOX, "busy", 2, 1, 9)]
        self.same(got, wanted, "boxes are told by name", "opening an open box changes nothing")

    # --- waiting

    async def waits(self) -> None:
        mailbox = await self.mailbox()
        self.same(await self.taken(mailbox, wait_s=_LEASE_S), [], "when the time is up", "give nothing")
        waiting = self.start(partial(mailbox.receive, _BOX, wait_s=None))
        await self.settled(waiting)
        await self.must(mailbox.send, _letter("one"))
        got = (await self.ended(waiting, "when a letter comes")).value or ()
        self.same(_ids(got), ["one"], "a reader that waits gets it", "wake it in `send`")

    async def several(self) -> None:
        mailbox = await self.mailbox()
        names = ("a", "b", "c")
        waiting = [
            self.start(partial(mailbox.receive, _BOX, limit=1, wait_s=None, reader=name)) for name in names
        ]
        await self.settled(*waiting)
        for name in names:
            await self.must(mailbox.send, _letter(name, f"sender {name}"))
        got: list[str] = []
        for running in waiting:
            got += _ids((await self.ended(running, "when there is a letter for each")).value or ())
        self.same(sorted(got), list(names), "each of several readers gets one", "wake all that can get one")

    async def closed_wakes(self) -> None:
        mailbox = await self.mailbox()
        for end in (partial(mailbox.close, _BOX), mailbox.aclose):
            await self.must(partial(mailbox.open, _BOX))
            waiting = [self.start(partial(mailbox.receive, _BOX, wait_s=None)) for _ in range(3)]
            await self.settled(*waiting)
            await self.must(end)
            for running in waiting:
                ran = await self.ended(running, "when it is closed")
                self._refused(ran, BoxClosed, "to readers that wait when it is closed")
        await self.refuses(partial(mailbox.send, _letter("x")), BoxClosed, "after `aclose`")
        await self.must(mailbox.aclose)

    async def cancelled(self) -> None:
        """Every method, cancelled at several moments, has happened or not: nothing is lost, out for nobody, or twice."""
        for moment in MOMENTS:
            for name in _CANCELLED:
                for gap in (1, 2, 3, 5) if name == "receive" and moment.rounds == 3 else (1,):
                    before = living()
                    await self._cancel(name, moment, gap)
                    await self.let_go()
                    left = await self.left_since(before)
                    if left:
                        expected = f"`{name}` that is cancelled leaves no task behind"
                        self.found_once(expected, f"still running: {', '.join(left)}", "see `finally`")

    async def _cancel(self, name: str, moment: Moment, gap: int) -> None:
        """``gap`` is how many rounds before it is cancelled the letter is sent that is waited for."""
        first, second = _letters(2)
        mailbox = await self.mailbox(
            letters=[] if name in ("send", "rest", "receive") else [first], capacity=1
        )
        if name in ("acknowledge", "release", "refuse"):
            await self.taken(mailbox, lease_s=_LONG_S)
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "send": partial(mailbox.send, first),
            "send to a full box": partial(mailbox.send, second, wait_s=None),
            "receive": partial(mailbox.receive, _BOX, wait_s=None, lease_s=_LONG_S),
            "acknowledge": partial(mailbox.acknowledge, _BOX, [first.id]),
            "release": partial(mailbox.release, _BOX, [first.id]),
            "refuse": partial(mailbox.refuse, _BOX, [first.id]),
            "rest": partial(mailbox.rest, _BOX),
            "close": partial(mailbox.close, _BOX),
        }
        running = self.start(calls[name])
        waiter = None
        if name == "receive" and gap < 3:  # another waits, too, and may be faster
            waiter = self.start(partial(mailbox.receive, _BOX, wait_s=_LEASE_S, lease_s=_LEASE_S))
        for _ in range(moment.rounds):
            await checkpoint()
        if moment.seconds:
            await self.clock.sleep(moment.seconds)
        sending = self.start(partial(mailbox.send, first)) if name == "receive" else None
        for _ in range(gap if sending is not None else 0):
            await checkpoint()
        running.cancel()
        for each in (running, sending, waiter):
            if each is not None and not await each.wait(self.grace_s):
                self.found_once(
                    f"`{name}` that is cancelled ends", "it did not end in time", "clean up quickly"
                )
                return
        await self._nothing_lost(mailbox, name, running.ran or Ran(), waiter)

    async def _nothing_lost(self, mailbox: Mailbox, name: str, ran: Ran, waiter: Running | None) -> None:
        given: set[str] = set()
        for one in (ran, (waiter.ran if waiter is not None else None) or Ran()):
            if name == "receive" and one.error is None:
                given.update(_ids(one.value or ()))
        if name == "receive" and not given:
            given.update(await self.taken(mailbox, lease_s=_LONG_S))
        elif name == "send":
            await self.must(mailbox.send, _letter("alice-1"))  # once more, as by a sender that does not know
            given.update(await self.taken(mailbox, lease_s=_LONG_S))
        elif name in ("send to a full box", "release"):
            await self.must(mailbox.release, _BOX, ["alice-1"])
            given.update(await self.taken(mailbox, lease_s=_LONG_S))
        elif name in ("acknowledge", "refuse", "close"):
            return  # gone or not, and either is right
        wanted = set() if name == "rest" else {"alice-1"}
        if given != wanted:
            got = f"{sorted(given)}, and the call {ran.failure or 'gave ' + shown(ran.value)}"
            advice = "take back what nobody has been given, or wait for the outcome"
            self.found_once(
                f"after `{name}` was cancelled, what there is to read is {sorted(wanted)}", got, advice
            )

    # --- durable places

    async def reopens(self) -> None:
        place, letters = self.place(), _letters(4)
        first = await self.mailbox(place, letters=letters)
        await self.taken(first, limit=2, lease_s=_LONG_S, reader="bob 1")
        await self.must(first.acknowledge, _BOX, ["alice-1"])
        await self.must(first.refuse, _BOX, ["alice-4"])
        await self.must(first.aclose)
        again = await self.mailbox(place)
        advice = "store letters, ids, leases and dead letters"
        self.same(
            await self.must(again.send, letters[0]), False, "ids are known when it is opened again", advice
        )
        await self.gives(again, ["alice-3"], "when it is opened again", advice, reader="bob 1")
        await self.must(partial(again.release, _BOX, reader="bob 1"))
        await self.gives(again, ["alice-2", "alice-3"], "after release of what was out", advice)
        self.same(_ids(await self.must(again.dead_letters)), ["alice-4"], "dead letters are there", advice)

    async def two(self) -> None:
        place = self.place()
        one, other = await self.mailbox(place), await self.mailbox(place)
        for sender, reader, id in ((one, other, "there"), (other, one, "back")):
            waiting = self.start(partial(reader.receive, _BOX, wait_s=None))
            await self.settled(waiting)
            await self.must(sender.send, _letter(id))
            got = (await self.ended(waiting, "when a letter is sent through another")).value or ()
            self.same(_ids(got), [id], "two mailboxes of a place are one", "look for what others stored")
            await self.must(sender.send, _letter(f"{id} again"))
            await self.gives(sender, [], "to another mailbox object", "it reads under a name of its own")
            await self.gives(reader, [f"{id} again"], "to the same mailbox object", "it is the same reader")
            await self.must(reader.acknowledge, _BOX, [id, f"{id} again"])
            await self.gives(sender, [], "after the other acknowledged it", "store that, too")
        waiting = self.start(partial(one.receive, _BOX, wait_s=None))
        await self.settled(waiting)
        await self.must(other.close, _BOX)
        ran = await self.ended(waiting, "when it is closed through another")
        self._refused(ran, BoxClosed, "to a reader that waits when it is closed through another")


def _check(
    name: str, run: Callable[[_MailboxKit], Awaitable[None]], needs: tuple[str, ...] = ("order",)
) -> Check[_MailboxKit]:
    async def and_let_go(kit: _MailboxKit) -> None:
        try:
            await run(kit)
        finally:
            await kit.let_go()

    return Check(name, and_let_go, needs)


_CHECKS: tuple[Check[_MailboxKit], ...] = (
    _check("sends", _MailboxKit.sends, ()),
    _check("order", _MailboxKit.order, ("sends",)),
    _check("unknown", _MailboxKit.unknown, ("sends",)),
    _check("again", _MailboxKit.again),
    _check("release", _MailboxKit.release),
    _check("lease", _MailboxKit.lease),
    _check("readers", _MailboxKit.readers),
    _check("capacity", _MailboxKit.capacity),
    _check("rest", _MailboxKit.rest),
    _check("close", _MailboxKit.close),
    _check("refuse", _MailboxKit.refuse),
    _check("boxes", _MailboxKit.boxes),
    _check("waits", _MailboxKit.waits),
    _check("several", _MailboxKit.several, ("waits",)),
    _check("closed_wakes", _MailboxKit.closed_wakes, ("waits", "close")),
    _check("cancelled", _MailboxKit.cancelled, ("waits", "capacity", "release", "refuse", "rest", "close")),
    _check("reopens", _MailboxKit.reopens, ("release", "refuse")),
    _check("two", _MailboxKit.two, ("reopens", "waits", "close")),
)
_LASTING = ("reopens", "two")
_TRANSIENT = tuple(check for check in _CHECKS if check.name not in _LASTING)
"""For a mailbox that is gone when it is closed."""
