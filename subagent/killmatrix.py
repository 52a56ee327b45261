"""Kill a tree of sessions at every place there is, go on with it, and see whether anything was lost or done twice.

``python -m unspool.subagent.killmatrix`` runs a root with children side by side, one after another, below each other
and waiting for a person, in a process of its own, and kills that with SIGKILL: before, in the middle of and after
every append to each of their logs, around every flush, before and after the effect of every tool, on both kinds of
log that are files. A fresh process goes on from the root's log. Then no acknowledged fact may be missing or doubled
in any log, no child may have run twice, no effect may have come twice, what was used must be accounted for once, and
each session must end as in a tree that nobody kills (``killmatrix_checks.py`` has the whole list).

A case is named by its log, session and place, ``jsonl:root/torn:13``; ``--only`` runs one again. Needs ``fork``.

Read with: ``killmatrix_processes.py``, ``killmatrix_plan.py``, ``unspool.trajectory.killmatrix`` (one session).
"""

from collections.abc import Sequence
from typing import Final

from unspool.trajectory.killmatrix import Matrix, run_matrix

from .killmatrix_processes import TreeCourse, course_of, try_case, warm_up

MATRIX: Final[Matrix[TreeCourse]] = Matrix(
    "Kill a tree of sessions everywhere, and go on with it.", warm_up, course_of, try_case
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the matrix, print what came of it; 0 where everything has passed."""
    return run_matrix(MATRIX, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
