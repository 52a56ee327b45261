"""``unspool verify``: whether sessions are what was written.

Read with: ``places.py``, ``unspool.trajectory.verify``, ``unspool.trajectory.damage`` (the kinds).
"""

from rich.console import Console

from unspool.kernel.errors import LogError
from unspool.trajectory import Damage, Report, Sessions

from .output import console, write_json
from .places import Place
from .view import printable


def verify(place: Place, head: str | None, *, repair: bool, as_json: bool) -> int:
    """Say of one session that it is whole, or what is wrong with it; 1 then."""
    report = place.verify(head, repair=repair)
    _print(place.name, report, as_json=as_json)
    return 0 if report.ok else 1


def verify_all(sessions: Sessions, *, repair: bool, as_json: bool) -> int:
    """The same of every session of a store."""
    status = 0
    for info in sessions.list():
        try:
            report = sessions.verify(info.session, repair=repair)
        except LogError as error:
            unread = Damage(kind="header", message=str(error))
            report = Report(path=info.path, session=info.session, damage=(unread,))
        _print(info.session, report, as_json=as_json)
        status = status if report.ok else 1
    return status


def _print(name: str, report: Report, *, as_json: bool) -> None:
    if as_json:
        write_json(report)
        return
    out = console()
    if report.cut:
        _line(out, f"{name}: a torn last line was cut off, {report.cut} bytes")
    for damage in sorted(report.damage, key=lambda damage: (damage.line, damage.seq)):
        _line(out, f"{name}: {_where(damage)}: {damage.message}", "red")
    if report.ok:
        _line(out, f"{name}: ok, {report.records} records, head {report.head}", "green")


def _line(out: Console, text: str, style: str = "") -> None:
    out.print(" ".join(printable(text).splitlines()), style=style, soft_wrap=True)


def _where(damage: Damage) -> str:
    """``changed, fact 4, line 5, offset 120``: what is known of the place."""
    facts = (
        f"facts {damage.seq} to {damage.last}" if damage.last else f"fact {damage.seq}" if damage.seq else ""
    )
    line = f"line {damage.line}" if damage.line else ""
    offset = f"offset {damage.offset}" if damage.offset else ""
    return ", ".join([part for part in (damage.kind, facts, line, offset) if part])
