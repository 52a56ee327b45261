"""Ways out of the sandbox, each really tried: what is outside stays unread, unchanged, unreached and alive."""

import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from unspool.kernel.errors import ToolError
from unspool.tools.files import Root
from unspool.tools.sandbox import Sandbox

from .conftest import Run, made, run_in, wait_for_end

# --- files ---


def test_the_root_is_writable_and_nothing_else_is(run: Run, root: Path, outside: Path) -> None:
    assert run("echo hi > inside && cat inside").stdout == "hi\n"
    assert (root / "inside").read_text() == "hi\n"
    for folder in (
        outside,
        outside / ".ssh",
        outside.parent,
        "/",
        "/usr",
        "/usr/bin",
        "/etc",
        "/dev",
        "/proc",
        "/root",
    ):
        done = run(f'echo bad > "{folder}/planted"')
        left = Path(folder, "planted")
        assert not left.exists(), (folder, done)
    assert run("echo bad > /usr/bin/env").returncode != 0
    assert run("rm -rf --no-preserve-root / 2>/dev/null; true").returncode == 0
    assert (outside / ".ssh" / "id").read_text() == "canary"
    assert Path("/usr/bin/env").exists()


def test_what_is_outside_is_not_read(run: Run, root: Path, outside: Path) -> None:
    secret = outside / ".ssh" / "id"
    (root / "link").symlink_to(secret)
    (root / "folder").symlink_to(outside)
    ways = [
        str(secret),
        f"{root}/../outside/.ssh/id",
        "link",
        "folder/.ssh/id",
        f"/proc/1/root{secret}",
        f"/proc/self/root{secret}",
        "/proc/1/cwd/../outside/.ssh/id",
        f"/oldroot{secret}",
        f"/newroot{secret}",
        "/etc/shadow",
        "/etc/ssl/private",
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/sys/kernel",
        "/dev/sda",
        "/dev/mem",
        "/dev/kmsg",
        "/proc/kcore",
    ]
    for way in ways:
        done = run(f'cat "{way}" || ls "{way}/"')
        assert "canary" not in done.stdout
        assert done.returncode != 0 or way.startswith("/proc/kcore"), (way, done)


def test_the_environment_is_not_inherited(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "canary")
    done = run("env; cat /proc/*/environ")
    assert "canary" not in done.stdout
    names = {line.partition("=")[0] for line in run("env").stdout.splitlines()}
    assert names == {"PATH", "HOME", "TMPDIR", "LANG", "USER", "PWD", "SHLVL", "_"}


def test_descriptors_are_not_inherited(run: Run, outside: Path) -> None:
    with open(outside / ".ssh" / "id") as held:
        os.set_inheritable(held.fileno(), True)
        done = run("ls -l /proc/self/fd; cat <&" + str(held.fileno()))
    assert "canary" not in done.stdout
    assert ".ssh" not in done.stdout


def test_a_link_left_behind_is_not_followed_by_the_file_tools(run: Run, root: Path, outside: Path) -> None:
    run(f'ln -s "{outside}/.ssh/id" id; ln -s "{outside}" out')
    confined = Root(root)
    for path in ("id", "out/.ssh/id"):
        with pytest.raises(ToolError, match="outside the root"):
            confined.open_file(path)


# --- network ---


@pytest.fixture
def listener() -> Iterator[tuple[socket.socket, list[str]]]:
    """A server on the loopback, and one on an abstract Unix socket of the same number; who has called."""
    called: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
        port = tcp.getsockname()[1]
        local.bind(f"\0unspool-test-{port}")
        local.listen()

        def serve(server: socket.socket, name: str) -> None:
            while True:
                connection, _ = server.accept()
                with connection:
                    if connection.recv(3) == b"end":
                        return
                    called.append(name)

        threads = [
            threading.Thread(target=serve, args=(server, name))
            for server, name in ((tcp, "tcp"), (local, "unix"))
        ]
        for thread in threads:
            thread.start()
        yield tcp, called
        for address, kind in ((tcp.getsockname(), socket.AF_INET), (local.getsockname(), socket.AF_UNIX)):
            with socket.socket(kind) as end:
                end.connect(address)
                end.send(b"end")
        for thread in threads:
            thread.join()


CALL = """import socket
for kind, address in ((socket.AF_INET, ("127.0.0.1", {0})), (socket.AF_UNIX, "\\0unspool-test-{0}")):
    try:
        with socket.socket(kind) as s:
            s.connect(address)
            s.send(b"hi!")
    except OSError as error:
        print(type(error).__name__)
"""


def test_no_network_and_no_abstract_sockets(
    run: Run, root: Path, listener: tuple[socket.socket, list[str]]
) -> None:
    server, called = listener
    script = CALL.format(server.getsockname()[1])
    assert run(script).stdout == "ConnectionRefusedError\nConnectionRefusedError\n"
    assert called == []
    assert run("ls /sys/class/net; tail -n +3 /proc/net/dev | cut -d: -f1").stdout.split() == ["lo"]
    opened = run_in(made(root, network=True), script, cwd=root)
    assert opened.stdout == "", "with the network, the same script comes through"


# --- processes and the kernel ---


def test_processes_of_the_host_are_out_of_sight(run: Run, root: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as other:
        try:
            script = f"kill -9 {other.pid} {os.getpid()}; kill -9 -1; true"
            run(script)
            seen = run(
                "import os\nprint(*(name for name in os.listdir('/proc') if name.isdigit()))"
            ).stdout.split()
            assert other.poll() is None
            assert len(seen) <= 3
            assert max(map(int, seen)) < 10, "they are counted from 1"
        finally:
            other.kill()


CALLS = """import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
tries = {
    "mount": lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None),
    "remount": lambda: libc.mount(b"none", b"/usr", None, 32 | 4096, None),
    "umount": lambda: libc.umount2(b"/tmp", 2),
    "chroot": lambda: libc.chroot(b"/tmp"),
    "new user namespace": lambda: libc.unshare(0x10000000),
    "new mount namespace": lambda: libc.unshare(0x00020000),
    "enter a namespace": lambda: libc.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY), 0),
    "host name": lambda: libc.sethostname(b"x", 1),
    "device": lambda: libc.mknod(b"/tmp/disk", 0o60666, os.makedev(8, 0)),
    "clock": lambda: libc.clock_settime(0, ctypes.byref((ctypes.c_long * 2)(0, 0))),
    "module": lambda: libc.syscall(175, b"x", 1, b""),
    "kernel log": lambda: libc.klogctl(3, ctypes.create_string_buffer(100), 100),
    "raw socket": lambda: libc.socket(2, 3, 1),
    "bpf": lambda: libc.syscall(321, 5, ctypes.create_string_buffer(128), 128),
    "trace the host": lambda: libc.ptrace(16, {pid}, 0, 0),
    "be another": lambda: libc.setresuid(12345, 12345, 12345),
    "nice": lambda: libc.setpriority(0, 0, -10),
}
for name, call in tries.items():
    ctypes.set_errno(0)
    try:
        done = call() != -1
    except OSError:
        done = False
    if done:
        print(name)
"""


def test_privileged_calls_are_refused(run: Run) -> None:
    done = run(CALLS.replace("{pid}", str(os.getpid())))
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_no_capabilities_and_no_way_to_gain_any(run: Run) -> None:
    status = dict(
        line.split(":\t", 1) for line in run("cat /proc/self/status").stdout.splitlines() if ":\t" in line
    )
    assert {status[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    mounts = run("cat /proc/self/mounts").stdout.splitlines()
    assert all("nosuid" in line.split()[3].split(",") for line in mounts)


def test_settings_of_the_kernel_are_read_only(run: Run) -> None:
    before = Path("/proc/sys/vm/swappiness").read_text()
    script = """import os
for path in ("sys/vm/swappiness", "sys/kernel/core_pattern", "sys/kernel/hostname", "sysrq-trigger", "1/oom_score_adj"):
    try:
        os.close(os.open("/proc/" + path, os.O_WRONLY))
        print(path)
    except OSError:
        pass
"""
    assert set(run(script).stdout.split()) <= {"1/oom_score_adj"}
    assert Path("/proc/sys/vm/swappiness").read_text() == before


def test_the_terminal_is_out_of_reach(sandbox: Sandbox, root: Path) -> None:
    """TIOCSTI types into the terminal of the caller, and what is typed runs outside."""
    control, terminal = pty.openpty()
    attach = "import fcntl,os,sys,termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    attack = """import fcntl, os, termios
for way in (lambda: fcntl.ioctl(0, termios.TIOCSTI, b"x"), lambda: os.open("/dev/tty", os.O_RDWR)):
    try:
        way()
        print("typed")
    except OSError:
        print("refused")
"""
    wrapped = sandbox.wrap([sys.executable, "-c", attack])
    done = subprocess.run(
        [sys.executable, "-c", attach, *wrapped],
        stdin=terminal,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    os.close(terminal)
    os.close(control)
    assert done.stdout == "refused\nrefused\n", done


# --- nothing goes on ---

FAMILY = """
sleep 1000 &
setsid nohup sleep 1000 >/dev/null 2>&1 &
(setsid sh -c 'trap "" TERM INT HUP; sleep 1000 & sleep 1000 & wait' &)
for n in $(seq 50); do sleep 1000 & done
"""


@pytest.mark.parametrize("how", ["exit", "kill", "term"])
def test_nothing_outlives_the_command(sandbox: Sandbox, root: Path, how: str) -> None:
    reader, writer = os.pipe()
    script = FAMILY + ("echo up" if how == "exit" else "echo up; wait")
    with subprocess.Popen(
        sandbox.wrap(["bash", "-c", script]), stdout=subprocess.PIPE, pass_fds=[writer], cwd=root
    ) as process:
        os.close(writer)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        if how != "exit":
            process.send_signal({"kill": signal.SIGKILL, "term": signal.SIGTERM}[how])
        assert wait_for_end(reader) == b""
        process.wait()


def test_nothing_outlives_the_host(root: Path) -> None:
    made(root)
    host = f"""import subprocess, sys
from unspool.tools.sandbox import Sandbox
argv = Sandbox({str(root)!r}).wrap(["bash", "-c", {FAMILY + "echo up; wait"!r}])
subprocess.run(argv, pass_fds=[int(sys.argv[1])])
"""
    reader, writer = os.pipe()
    command = [sys.executable, "-c", host, str(writer)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[writer], cwd=root) as process:
        os.close(writer)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.kill()
        assert wait_for_end(reader) == b""
