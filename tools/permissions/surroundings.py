"""What around a command decides which code it runs: the repository that git finds, the directories of programs."""

import os
from collections.abc import Iterable

from . import commands
from .directories import Directories
from .paths import locate, resolve
from .shell_plan import ShellPlan

_MAX_LEVELS = 100


def strange_repository(plan: ShellPlan, cwd: str) -> str:
    """What git takes for a repository in a line that starts in ``cwd``, though it is not named ``.git``; else empty.

    Its settings, which name programs, are files like any other in the workspace.
    """
    if not commands.runs_git(plan):
        return ""
    places = (resolve(directory) for directory in commands.directories(plan, cwd)[0])
    return next(filter(None, map(_bare_repository, places)), "")


def _bare_repository(directory: str) -> str:
    for _ in range(_MAX_LEVELS):
        if os.path.lexists(os.path.join(directory, ".git")):
            return ""
        if all(os.path.lexists(os.path.join(directory, name)) for name in ("HEAD", "objects", "refs")):
            return directory
        above = os.path.dirname(directory)
        if above == directory:
            return ""
        directory = above
    return ""


def program_inside(programs: Iterable[str], roots: Directories, cwd: str, path: str) -> str:
    """The first of some programs that would be found where the roots may be written; empty where none is.

    ``path`` is the ``PATH`` of the shell; ``""`` for that of this process.
    """
    places = (path or os.environ.get("PATH", os.defpath)).split(os.pathsep)
    return next((name for name in programs if _is_inside(name, places, roots, cwd)), "")


def _is_inside(name: str, path: list[str], roots: Directories, cwd: str) -> bool:
    for directory in path:
        found = os.path.join(cwd, directory, name)
        if os.path.lexists(found):
            return roots.for_writing(locate(os.path.dirname(found), cwd, alike=False)) != "outside"
    return False
