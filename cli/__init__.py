"""The ``unspool`` command; ``pip install 'unspool[cli]'`` brings what it needs.

Read with: ``app.py`` (what can be said on the command line), ``run.py`` (what is done).
"""

if __name__ != "unspool.cli":
    raise ImportError("cli/ is not a top-level package: import unspool.cli")

import sys

from .signals import INTERRUPTED, leave, quit_on_signals


def main() -> None:
    """Run the command and leave the process with its status."""
    quit_on_signals()
    try:
        from .app import app  # noqa: PLC0415 (without the extra, the reader is told what to install)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("rich", "typer"):
            raise
        sys.stderr.write(f"unspool: {error.name} is missing: pip install 'unspool[cli]'\n")
        raise SystemExit(2) from None
    try:
        app(prog_name="unspool")
    except SystemExit as error:
        if error.code == INTERRUPTED:
            leave(INTERRUPTED)
        raise
