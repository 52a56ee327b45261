"""``unspool show``: a stored trajectory, read like a run.

Read with: ``view.py``, ``unspool.trajectory``.
"""

import warnings

from unspool.kernel.errors import LogError
from unspool.trajectory import iter_records

from .output import complain, console, raw_stdout, stop_output
from .signals import PIPE_CLOSED
from .view import TextView


def show_log(path: str, *, as_json: bool) -> int:
    """Print the facts of a log, up to its end or its first damage; the exit status.

    1: there is damage, which is named on stderr. 2: the file cannot be read.
    """
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _print(path, as_json=as_json)
    except LogError as error:
        complain(str(error))
        return 1 if "line" in error.details else 2
    except BrokenPipeError:
        stop_output()
        return PIPE_CLOSED
    for warning in caught:
        complain(str(warning.message))
    return 1 if caught else 0


def _print(path: str, *, as_json: bool) -> None:
    if as_json:
        out = raw_stdout()
        for record in iter_records(path):
            out.write(record.raw + b"\n")
        out.flush()
        return
    view = TextView(console(), live=False)
    for record in iter_records(path):
        view.show(record.fact)
    if not view.ended:
        view.tell("the end is missing: the run is still going on, or its process died")
