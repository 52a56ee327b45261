"""Requests of every kind, asked of the types in the providers' own clients.

``python -m tests.conformance.requests``; ``docs/conformance.md`` says what it needs.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from unspool.kernel.ports import ModelRequest
from unspool.llm.http_model import HttpModel
from unspool.llm.origins import LeftOutWarning

from .formats import FORMATS
from .request_additions import ADDITIONS, Addition, without_additions
from .request_models import PACKAGES, Check, check_of
from .request_table import cases
from .request_targets import Target, targets


def main(argv: list[str] | None = None) -> int:
    """Check all bodies; the exit status: 0, 1 where one is refused, 2 for bad arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.requests", description=__doc__)
    parser.add_argument("--format", default="", choices=FORMATS)
    parser.add_argument("-v", "--verbose", action="store_true", help="also say what dialects add")
    args = parser.parse_args(argv)
    accepted = refused = 0
    used: set[Addition] = set()
    for format in [args.format] if args.format else FORMATS:
        try:
            checks = check_of(format)
        except ModuleNotFoundError:
            print(f"SKIP {format}: the client is not installed: pip install {PACKAGES[format]}")
            continue
        bodies: dict[tuple[bool, str], list[str]] = {}
        for target in targets():
            if target.model.format == format:
                for case, errors, added in checked(target, checks, bodies):
                    used |= added
                    accepted, refused = accepted + (not errors), refused + bool(errors)
                    for line in errors:
                        print(f"FAIL {target.dialect}, {target.model.name}, {case}: {line}", flush=True)
        for addition in ADDITIONS:
            if addition.format == format and addition not in used:
                refused += 1
                print(f"FAIL {format}: no body has {addition.key!r} for {', '.join(addition.dialects)}")
    if args.verbose:
        for addition in ADDITIONS:
            print(f"added {addition.format}, {', '.join(addition.dialects)}: {addition.key} ({addition.why})")
    print(f"{accepted} bodies accepted, {refused} refused")
    return 1 if refused else 0


def checked(
    target: Target, checks: Mapping[bool, Check], known: dict[tuple[bool, str], list[str]]
) -> Iterator[tuple[str, list[str], set[Addition]]]:
    """Each request of the table: its name, what is wrong with its body, and what the dialect adds to it.

    ``checks`` are those of ``check_of``, ``known`` holds what was found wrong with bodies that were seen.
    """
    for case, request in cases(target.model.format, target.model.name):
        body, added = without_additions(target.model.format, target.dialect, body_of(target.model, request))
        beta = "anthropic-beta" in target.model._more_headers(request)
        seen = beta, json.dumps(body, sort_keys=True)
        if seen not in known:
            known[seen] = checks[beta](body)
        yield case, known[seen], added


def body_of(model: HttpModel, request: ModelRequest) -> dict[str, Any]:
    """What ``model`` sends for ``request``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)
        body: dict[str, Any] = json.loads(model._body(request))
    return body


if __name__ == "__main__":
    sys.exit(main())
