"""What all sessions below one root share: how many may run, how many there were, what they use together.

One ``Tree`` for each root session of the process. A child run holds a slot; while it waits for children of its own
it has given it back, so that even one slot is enough for any depth. Everything happens on the root's event loop.

Read with: ``child.py`` (who enters and leaves), ``budget.py`` (``TreeLimits``).
"""

from collections import OrderedDict
from collections.abc import Callable
from weakref import WeakValueDictionary

from unspool.kernel.limits import Limits
from unspool.kernel.messages import Usage
from unspool.kernel.spawn import Waker, current_backend
from unspool.kernel.state import AgentState

MAX_KEPT = 256  # trees of which nothing runs that one owner keeps


class Tree:
    """See the module. ``begun`` names every child run that was started; ``taken`` the sessions that have one."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.begun: set[str] = set()
        self.counted = False  # what earlier processes began is in ``begun``
        self.taken: set[str] = set()
        self.nodes: dict[str, Node] = {}
        self._running = 0
        self._line: list[object] = []  # who waits for a slot, in order
        self._sleepers: list[Waker] = []

    async def until(self, done: Callable[[], bool]) -> None:
        """Sleep until something holds that depends on this tree."""
        while not done():
            waker = current_backend().waker()
            self._sleepers.append(waker)
            try:
                await waker.wait()
            finally:
                self._sleepers.remove(waker)

    def wake(self) -> None:
        """Let those look again who sleep."""
        for waker in self._sleepers:
            waker.set()

    async def take_slot(self, slots: int, stopped: Callable[[], bool], *, first: bool = False) -> bool:
        """Wait in line for one of so many slots, in front of it with ``first``; False where it was stopped before."""
        place = object()
        self._line.insert(0 if first else len(self._line), place)
        try:
            await self.until(lambda: stopped() or (self._line[0] is place and self._running < slots))
            if stopped():
                return False
            self._running += 1
            return True
        finally:
            self._line.remove(place)
            self.wake()

    def free_slot(self) -> None:
        """Give a slot back."""
        self._running -= 1
        self.wake()


class Node:
    """A session of a tree that has children, or runs below another.

    ``base`` is what the session had used before the run that counts, ``deadline`` when its time is over, on the
    monotonic clock. ``stop`` ends its run, for the reason it is given.
    """

    def __init__(
        self,
        tree: Tree,
        session: str,
        above: "Node | None",
        state: Callable[[], AgentState],
        limits: Limits,
        *,
        base: Usage = Usage(),  # noqa: B008 (immutable)
        deadline: float | None = None,
        stop: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.tree = tree
        self.session = session
        self.above = above
        self.state = state
        self.limits = limits
        self.base = base
        self.deadline = deadline
        self.stop = stop
        self.children: list[Node] = []
        self.calls = 0  # under way in it
        self.slots = 0  # how many there are, where it needs one
        self._holds = False

    @property
    def used(self) -> Usage:
        """What the session and those below it have used since ``base``, what is not accounted yet included."""
        return self.state().total_usage - self.base + self._unaccounted

    @property
    def _unaccounted(self) -> Usage:
        return sum((child.used for child in self.children), Usage())

    def left(self) -> tuple[int | None, float | None]:
        """The tokens and the money that its run has left; None is no limit."""
        limits = self.limits
        if limits.tokens is None and limits.cost is None:
            return None, None
        used = self.state().total_run_usage + self._unaccounted
        cost = used.cost.total if used.cost else 0.0
        return (
            None if limits.tokens is None else limits.tokens - used.total_tokens,
            None if limits.cost is None else limits.cost - cost,
        )

    def check(self) -> None:
        """End the children of every session, from here up, that has used up its budget with them; its own run ends
        by its limits."""
        node: Node | None = self
        while node is not None:
            if node.children and any(amount is not None and amount <= 0 for amount in node.left()):
                for child in list(node.children):
                    child.stop("was ended: the budget of its caller is used up")
            node = node.above

    async def take_slot(self, stopped: Callable[[], bool], *, first: bool = False) -> None:
        """Wait for a slot; without one where it is stopped."""
        self._holds = await self.tree.take_slot(self.slots, stopped, first=first)

    def free_slot(self) -> None:
        """Give the slot back, if it has one."""
        if self._holds:
            self._holds = False
            self.tree.free_slot()

    def begin_waiting(self) -> None:
        """A call of it waits for children: the first gives the slot back."""
        self.calls += 1
        if self.calls == 1:
            self.free_slot()

    async def end_waiting(self, stopped: Callable[[], bool]) -> None:
        """The call goes on; the last one takes a slot again, before those that have not begun."""
        self.calls -= 1
        if not self.calls and self.slots and not self._holds:
            await self.take_slot(stopped, first=True)
        self.drop_if_idle()

    def drop_if_idle(self) -> None:
        """Forget a root of which nothing runs any more."""
        if self.above is None and not self.calls and not self.children:
            self.tree.nodes.pop(self.session, None)

    def enter(self) -> None:
        """It runs, below the one above."""
        self.tree.nodes[self.session] = self
        if self.above is not None:
            self.above.children.append(self)

    def leave(self) -> None:
        """It has ended."""
        self.free_slot()
        self.tree.nodes.pop(self.session, None)
        if self.above is not None and self in self.above.children:
            self.above.children.remove(self)
            self.above.drop_if_idle()
        self.tree.wake()


_trees: WeakValueDictionary[str, Tree] = WeakValueDictionary()  # one for all owners in a tree


class Trees:
    """The trees of one owner; the newest are kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Tree] = OrderedDict()

    def of(self, root: str) -> Tree:
        """The tree below a root session."""
        tree = _trees.get(root)
        if tree is None:
            tree = _trees[root] = Tree(root)
        self._kept[root] = tree
        self._kept.move_to_end(root)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return tree
