"""Kill a process of a team at every place there is, start it again, and see whether a letter was lost or read twice.

``python -m unspool.team.killmatrix`` runs a lead and a member in a process each, over one mailbox and one roster in
SQLite files, and kills one of them with SIGKILL: around every append to its log and every flush, and before and after
every step of the mailbox. The other process goes on; a fresh one goes on for that which died, from its log and its
box. Then each letter must be in its reader's conversation once, in order, none may be left over, no acknowledged fact
may be missing or doubled, and both must come to their ends (``killmatrix_checks.py`` has the whole list).

A case is named by its kind of log and place, ``jsonl:box.ann/acked:3``; ``--only`` runs one again. Needs ``fork``.

Read with: ``killmatrix_processes.py``, ``killmatrix_plan.py``, ``unspool.subagent.killmatrix`` (a tree).
"""

from collections.abc import Sequence
from typing import Final

from unspool.trajectory.killmatrix import Matrix, run_matrix

from .killmatrix_processes import TeamCourse, course_of, try_case, warm_up

MATRIX: Final[Matrix[TeamCourse]] = Matrix(
    "Kill processes of a team everywhere, and go on for them.", warm_up, course_of, try_case
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the matrix, print what came of it; 0 where everything has passed."""
    return run_matrix(MATRIX, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
