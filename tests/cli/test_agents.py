"""``--agents``: agents from Markdown files, each called in a session of its own beside the one that calls."""

from pathlib import Path

import pytest

from unspool import fold
from unspool.cli.places import open_store
from unspool.subagent import check_accounting, read_tree

from .driving import ChatServer, invoke  # tests/cli/, not cli/

MODEL = ["-m", "local/x", "--session", "s"]
READER = "---\nname: reader\ndescription: Reads files.\ntools: {tools}\n---\nYou read files and say what is in them.\n"
ASK = ("subagent", {"agent": "reader", "task": "Read note.txt."})


def agents(folder: Path, tools: str = "read_file") -> str:
    path = folder / "agents"
    path.mkdir()
    (path / "reader.md").write_text(READER.format(tools=tools))
    (folder / "note.txt").write_text("It rains.\n")
    return str(path)


def run(server: ChatServer, *args: str, status: int = 0) -> str:
    done = invoke("run", *MODEL, "--base-url", server.url, *args, "go", status=status)
    return done.stdout + done.stderr


def test_an_agent_is_called_in_a_session_of_its_own(elsewhere: Path, server: ChatServer) -> None:
    server.answers = [[ASK], [("read_file", {"path": "note.txt"})], "It says that it rains.", "It rains."]
    assert "It rains." in run(server, "--agents", agents(elsewhere))
    with open_store("") as sessions:
        tree = read_tree(sessions, "s")
        (child,) = tree.children
        assert (child.agent, child.end_reason, child.tool_calls) == ("reader", "stop", 1)
        assert not check_accounting(tree)
    assert "reader" not in invoke("ls").stdout
    assert "reader" in invoke("show", "--tree", "s").stdout
    for command in ("verify", "replay"):
        invoke(command, "--tree", "s")
    invoke("replay", "s", "--live-tools")


def test_a_call_of_the_agent_waits_for_a_person(elsewhere: Path, server: ChatServer) -> None:
    write = ("write_file", {"path": "a.txt", "content": "hello\n"})
    server.answers = [[ASK], [write], "Written.", "All is written."]
    told = run(
        server,
        "--tools",
        "coding",
        "--rule",
        "allow Subagent(*)",
        "--agents",
        agents(elsewhere, "write_file"),
        status=1,
    )
    assert "paused" in told and not (elsewhere / "a.txt").exists()
    done = invoke("resume", "s", "--allow", "--base-url", server.url)
    assert "All is written." in done.stdout and (elsewhere / "a.txt").read_text() == "hello\n"
    with open_store("") as sessions:
        assert fold(sessions.facts("s")).end_reason == "stop"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--agents", "nowhere"), "nowhere cannot be read"),
        (("--agents", "."), "there are no definitions"),
        (("--agents", "agents", "--log", "a.jsonl"), "without --log"),
        (("--agents", "agents"), "no such tool: fly"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_begins(
    elsewhere: Path, server: ChatServer, given: tuple[str, ...], told: str
) -> None:
    agents(elsewhere, "fly")
    model = ["-m", "local/x", "--base-url", server.url]
    done = invoke("run", *model, *given, "go", status=2)
    assert told in done.stdout + done.stderr
    assert not (elsewhere / "a.jsonl").exists() and not (elsewhere / ".unspool").exists()
