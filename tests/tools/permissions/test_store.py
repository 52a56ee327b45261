"""Grants in a file: sorted, private, whole, and shared between processes."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from unspool.tools.permissions import GrantStore, Scope, StoreError

A = Scope("write", "write_file", "/w/a", "write_file a")
B = Scope("write", "write_file", "/w/b", "write_file b")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "grants.json"


def test_grants_come_back_in_order(path: Path) -> None:  # T257
    GrantStore(path).add([B, A])
    assert GrantStore(path).grants() == (A, B)
    targets = [entry["target"] for entry in json.loads(path.read_text())["grants"]]
    assert targets == ["/w/a", "/w/b"]


def test_a_missing_file_holds_none_and_is_not_made(path: Path) -> None:
    assert GrantStore(path).grants() == ()
    assert not path.parent.exists()


def test_only_the_owner_can_read_it(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"version": 1, "grants": []}')
    path.chmod(0o666)
    GrantStore(path).add([A])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_grant_is_taken_back(path: Path) -> None:
    store = GrantStore(path)
    store.add([A, B])
    store.remove(A.key)
    store.remove("no such key")
    assert not store.has(A.key)
    assert store.has(B.key)


def test_what_another_adds_counts_at_once(path: Path) -> None:
    one, other = GrantStore(path), GrantStore(path)
    assert not one.has(A.key)
    other.add([A])
    assert one.has(A.key)
    other.remove(A.key)
    assert not one.has(A.key)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"grants": []}',
        '{"version": 2, "grants": []}',
        '{"version": 1, "grants": [{}]}',
        "\ufeff{}",
    ],
)
def test_a_damaged_file_is_an_error_and_stays_as_it_is(path: Path, text: str) -> None:
    path.parent.mkdir()
    store = GrantStore(path)
    path.write_text(text)
    with pytest.raises(StoreError, match="damaged"):
        GrantStore(path)
    with pytest.raises(StoreError, match="damaged"):
        store.has(A.key)
    with pytest.raises(StoreError, match="damaged"):
        store.add([A])
    assert path.read_text() == text


def test_what_cannot_be_written_is_an_error(path: Path) -> None:
    path.parent.write_text("a file where the directory should be")
    with pytest.raises(StoreError, match=r"can't be (stored|read)"):
        GrantStore(path).add([A])


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = GrantStore(path)
    store.add([A])

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        store.add([B])
    monkeypatch.undo()
    assert GrantStore(path).grants() == (A,)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["grants.json", "grants.json.lock"]


def test_threads_lose_nothing(path: Path) -> None:
    scopes = [Scope("write", "t", f"/w/{n:02}", "t") for n in range(16)]
    threads = [Thread(target=GrantStore(path).add, args=([scope],)) for scope in scopes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(GrantStore(path).grants()) == scopes


_ADD = """
import sys
from unspool.tools.permissions import GrantStore, Scope
store = GrantStore(sys.argv[1])
for n in range(20):
    store.add([Scope("write", "t", f"/{sys.argv[2]}/{n}", "t")])
"""


def test_processes_lose_nothing(path: Path) -> None:
    command = [sys.executable, "-c", _ADD, str(path)]
    running = [subprocess.Popen([*command, name]) for name in ("one", "other")]
    assert [process.wait(60) for process in running] == [0, 0]
    assert len(GrantStore(path).grants()) == 40
