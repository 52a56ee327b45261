"""What a sandboxed command may use up, set by a shell in front of it.

The limits are set inside the sandbox: there, processes are counted for it alone, not with all others of
the same user.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

_REFUSED = 126  # the exit code of a shell for a command that can't be run


class SandboxLimits(Struct, frozen=True, kw_only=True):
    """Bounds of one command; None leaves a bound to the host.

    ``processes`` are those and the threads that run at a time; Linux does not count them for root.
    ``memory_bytes`` is the address space of each process: programs that reserve much more than they use
    (Node, Java, Go) need a large value or None. ``file_bytes`` bounds each file, ``cpu_s`` each process,
    ``tmp_bytes`` what ``/tmp`` and ``/dev/shm`` may hold of the host's memory, each.
    """

    processes: int | None = 1024
    memory_bytes: int | None = None
    file_bytes: int | None = 4 << 30
    cpu_s: int | None = None
    tmp_bytes: int = 512 << 20


def limited(argv: Sequence[str], limits: SandboxLimits) -> list[str]:
    """``argv`` behind a shell that sets the limits and becomes it; it exits with 126 where one can't be set."""
    steps = [*_steps(limits), 'exec "$@"']
    return ["/bin/sh", "-c", f"{{ {' && '.join(steps)}; }} || exit {_REFUSED}", "sh", *argv]


def _steps(limits: SandboxLimits) -> Iterator[str]:
    yield _step("-c", 0)
    if limits.processes is not None:  # most shells call it -u, dash and busybox -p
        yield f"{{ {_step('-u', limits.processes)} || {_step('-p', limits.processes)}; }} 2>/dev/null"
    if limits.memory_bytes is not None:
        yield _step("-v", limits.memory_bytes // 1024)
    if limits.file_bytes is not None:
        yield _step("-f", limits.file_bytes // 512)
    if limits.cpu_s is not None:
        yield _step("-t", limits.cpu_s)


def _step(option: str, value: int) -> str:
    """Sets a limit; one of the host that is lower already can't be raised, and is fine."""
    return f'{{ ulimit {option} {value} 2>/dev/null || [ "$(ulimit -H {option})" -lt {value} ]; }}'
