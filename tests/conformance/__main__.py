"""``python -m tests.conformance``; see the package."""

import argparse
import sys
from pathlib import Path

from . import bugcases, corpus
from .formats import FORMATS
from .report import tell


def main(argv: list[str] | None = None) -> int:
    """Check a folder and say what differs; the exit status: 0, 1 where anything does, 2 for bad arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--bugcases", action="store_true", help="DIR holds cases.jsonl, not exchanges")
    parser.add_argument("--only", default="", metavar="ID")
    parser.add_argument("--format", default="", choices=FORMATS)
    parser.add_argument("-v", "--verbose", action="store_true", help="also say what is skipped, and why")
    args = parser.parse_args(argv)
    if not args.folder.is_dir():
        parser.error(f"no such folder: {args.folder}")
    check = bugcases.run if args.bugcases else corpus.run
    return tell(check(args.folder, only=args.only, format=args.format), verbose=args.verbose)


if __name__ == "__main__":
    sys.exit(main())
