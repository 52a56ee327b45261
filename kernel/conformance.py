"""What the conformance kits share: named checks over foreign code, and one error that tells all faults.

1. Foreign code runs in a task of its own and within a limit: it can neither end nor hold up the kit.
2. A check is left out when one that it needs has found something: one fault is told once.
3. Time is the given clock's. A task that is left behind counts only when it outlives the grace time.

Read with: ``conformance_tool.py``, ``conformance_model.py``, ``conformance_context.py`` (the kits), ``spawn.py``.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

from anyio import get_running_tasks
from anyio.lowlevel import checkpoint

from .clock import SystemClock
from .errors import describe
from .ports import Clock
from .spawn import current_backend

Living: TypeAlias = dict[int, Any]  # coroutines by their ids: while they are held, no id is used again
SETTLE = 100  # rounds of the event loop in which a task that has been told to end does end
_SHOWN = 300  # characters of a foreign value that a violation repeats


class Violation(NamedTuple):
    """One thing that does not hold: the check's name, what was expected, what came, what to do."""

    check: str
    expected: str
    got: str
    advice: str


class ConformanceError(AssertionError):
    """Raised by the kits: everything that does not hold, in ``violations``."""

    def __init__(self, subject: str, violations: Sequence[Violation]) -> None:
        self.subject = subject
        self.violations = tuple(violations)
        count = "1 violation" if len(violations) == 1 else f"{len(violations)} violations"
        super().__init__("\n".join([f"{subject}: {count}", *(_lines(found) for found in violations)]))

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks that failed, each once."""
        return tuple(dict.fromkeys(violation.check for violation in self.violations))


def _lines(found: Violation) -> str:
    return (
        f"\n{found.check}\n  expected: {found.expected}\n  got:      {found.got}\n  to do:    {found.advice}"
    )


class Ran(NamedTuple):
    """What came of foreign code. ``late``: it did not end in time and was given up."""

    value: Any = None
    error: BaseException | None = None
    late: bool = False

    @property
    def failure(self) -> str:
        """What went wrong, in words; empty when nothing did."""
        if self.late:
            return "it did not end in time"
        return "" if self.error is None else f"it raised {raised(self.error)}"


def raised(error: BaseException) -> str:
    """An error as a violation shows it."""
    return f"{type(error).__name__}: {describe(error)}"


def shown(value: object) -> str:
    """A foreign value as a violation shows it."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 (foreign code, and all that is lost is a description)
        text = f"<{type(value).__qualname__}>"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def attempt(fn: Callable[..., Any], *args: Any) -> Ran:
    """What synchronous foreign code comes to."""
    try:
        return Ran(fn(*args))
    except Exception as error:  # noqa: BLE001 (whatever it raises is what came of it)
        return Ran(error=error)


class Moment(NamedTuple):
    """When to cancel: after rounds of the event loop, and then so many seconds."""

    rounds: int
    seconds: float = 0.0


MOMENTS = (Moment(1), Moment(3), Moment(10), Moment(10, 0.05))  # the last, so that threads have begun


class Running:
    """Foreign code in a task of its own."""

    def __init__(self, clock: Clock, fn: Callable[[], Awaitable[Any]]) -> None:
        backend = current_backend()
        self._clock = clock
        self._fn = fn
        self._waker = backend.waker()
        self.ran: Ran | None = None
        self._job = backend.spawn(self._work)

    async def _work(self) -> None:
        try:
            self.ran = Ran(await self._fn())
        except BaseException as error:  # noqa: BLE001 (whatever it raises is what came of it)
            self.ran = Ran(error=error)
        finally:
            self._waker.set()

    def poke(self) -> None:
        """Have ``wait`` look at its condition."""
        self._waker.set()

    def cancel(self) -> None:
        self._job.cancel()

    async def wait(self, limit_s: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Whether it ended, or ``until`` came true, within ``limit_s`` seconds."""
        over = False

        def expire() -> None:
            nonlocal over
            over = True
            self._waker.set()

        stop_timer = self._clock.call_later(limit_s, expire)
        waited = False
        try:
            while self.ran is None and not until() and not over:
                await self._waker.wait()
            waited = True
        finally:
            stop_timer()
            if not waited:
                self.cancel()  # the kit itself was cancelled
        return self.ran is not None or until()


KitT = TypeVar("KitT", bound="Kit")


class Check(NamedTuple, Generic[KitT]):
    """A row of a kit: it is left out when one of those it ``needs`` has found something."""

    name: str
    run: Callable[[KitT], Awaitable[None]]
    needs: tuple[str, ...] = ()


class Kit:
    """One use of a kit: how it runs foreign code, and what it has found.

    ``timeout_s`` bounds one whole use of the foreign code, ``grace_s`` its ending once it was told to
    end. Foreign code that does not end then is left to the event loop.
    """

    def __init__(
        self, make: Callable[[], Any], clock: Clock | None, timeout_s: float, grace_s: float
    ) -> None:
        self._make = make
        self.clock: Clock = clock or SystemClock()
        self.timeout_s = timeout_s
        self.grace_s = grace_s
        self.violations: list[Violation] = []
        self._check = ""
        self._broken: BaseException | None = None

    async def fresh(self, make: Callable[[], Any] | None = None) -> Any:
        """A new instance of what is checked, or of what ``make`` gives."""
        made = (make or self._make)()
        return await made if isawaitable(made) else made

    def found(self, expected: str, got: str, advice: str) -> None:
        """Something does not hold; a check says so about one thing only once."""
        violation = Violation(self._check, expected, got, advice)
        if violation not in self.violations:
            self.violations.append(violation)

    def found_once(self, expected: str, got: str, advice: str) -> None:
        """The same, unless this check has found something already."""
        if all(violation.check != self._check for violation in self.violations):
            self.found(expected, got, advice)

    async def run(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Ran:
        """What ``fn(*args)`` comes to within ``timeout_s``."""
        return await self.result(self.start(partial(fn, *args)))

    def start(self, fn: Callable[[], Awaitable[Any]]) -> Running:
        return Running(self.clock, fn)

    async def result(self, running: Running, limit_s: float | None = None) -> Ran:
        """What it comes to in time; late, it is cancelled and given the grace time."""
        if await running.wait(self.timeout_s if limit_s is None else limit_s):
            return running.ran or Ran()
        running.cancel()
        await running.wait(self.grace_s)
        return Ran(late=True)

    async def run_cancelled(
        self, fn: Callable[[], Awaitable[Any]], moment: Moment, tell: Callable[[], None] = lambda: None
    ) -> Ran | None:
        """What ``fn`` comes to when it is cancelled at a moment; None when it ended before.

        ``tell`` is called first.
        """
        running = self.start(fn)
        for _ in range(moment.rounds):
            await checkpoint()
        if moment.seconds:
            await self.clock.sleep(moment.seconds)
        if running.ran is not None:
            return None
        tell()
        running.cancel()
        return running.ran or Ran() if await running.wait(self.grace_s) else Ran(late=True)

    async def left_since(self, before: Living) -> list[str]:
        """Tasks that were not there ``before`` (see ``living``) and do not end by themselves."""
        rounds, pause_s = SETTLE, self.grace_s / 20
        for _ in range(20):
            for _ in range(rounds):
                if not _names(before):
                    return []
                await checkpoint()
            await self.clock.sleep(pause_s)
        for _ in range(rounds):
            await checkpoint()
        return _names(before)

    async def carry_out(self, checks: Sequence[Check[Self]], skip: Collection[str]) -> None:
        """Run the checks.

        Raises:
            ValueError: ``skip`` names a check that there is not.
        """
        unknown = set(skip) - {check.name for check in checks}
        if unknown:
            names = ", ".join(check.name for check in checks)
            raise ValueError(f"no such check: {', '.join(sorted(unknown))}; there are {names}")
        failed: set[str] = set()
        for check in checks:
            if check.name in skip:
                continue
            if failed.intersection(check.needs):
                failed.add(check.name)  # what needs this one is left out too
                continue
            before = len(self.violations)
            await self._carry_out(check)
            if len(self.violations) > before:
                failed.add(check.name)

    async def _carry_out(self, check: Check[Self]) -> None:
        self._check = check.name
        try:
            await check.run(self)
        except Exception as error:  # noqa: BLE001 (told with the rest, and raised as their cause)
            self._broken = self._broken or error
            self.found("the check can be carried out", raised(error), "see the traceback of the cause above")

    def conclude(self, subject: str) -> None:
        """Tell what was found.

        Raises:
            ConformanceError: anything was.
        """
        __tracebackhide__ = True
        if self.violations:
            raise ConformanceError(subject, self.violations) from self._broken


def living() -> Living:
    """The tasks of this event loop, to be compared later."""
    coroutines = [task.coro for task in get_running_tasks()]
    return {id(coroutine): coroutine for coroutine in coroutines}


def _names(before: Living) -> list[str]:
    tasks = [task for task in get_running_tasks() if id(task.coro) not in before]
    return [getattr(task.coro, "__qualname__", None) or str(task.name) for task in tasks]


def must_be_callable(make: object, attributes: Collection[str], kit: str) -> None:
    """Refuse an instance where a maker of instances is asked for.

    Raises:
        TypeError: it is one.
    """
    is_instance = not isinstance(make, type) and all(hasattr(make, name) for name in attributes)
    if is_instance or not callable(make):
        raise TypeError(f"{kit}: expected a callable that gives an instance: {kit}(lambda: it, …)")


def as_list(given: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One set of arguments, or several, as a list."""
    return [given] if isinstance(given, Mapping) else list(given)
