"""The message that tells the end of a task: its text, its bounds, and that output can't leave its tag."""

from xml.etree import ElementTree

import pytest

from unspool.tools.tasks import Task
from unspool.tools.tasks.entry import summary
from unspool.tools.tasks.notice import notice

TASK = Task(
    id="shell-1",
    kind="shell",
    status="completed",
    started_at=100.0,
    ended_at=112.4,
    session="s",
    agent=("main",),
)


def parsed(text: str) -> dict[str, str]:
    root = ElementTree.fromstring(text)
    assert root.tag == "task-notification"
    return {child.tag: child.text or "" for child in root}


def test_the_whole_message() -> None:
    task = Task(
        id="shell-1",
        kind="shell",
        status="failed",
        started_at=100.0,
        ended_at=112.4,
        description="npm test",
        command="npm test && echo <done>",
        exit_code=1,
        error="copy: disk full",
        output_bytes=9,
        output_file="/tmp/out.log",
    )
    message = notice(task, "1 failed\n")
    assert message.role == "user"
    assert message.text == (
        "<task-notification>\n"
        "<task-id>shell-1</task-id>\n"
        "<kind>shell</kind>\n"
        "<status>failed</status>\n"
        "<summary>shell-1 (npm test): failed, exit code 1, after 12 s</summary>\n"
        "<command>npm test &amp;&amp; echo &lt;done&gt;</command>\n"
        "<exit-code>1</exit-code>\n"
        "<error>copy: disk full</error>\n"
        "<output-tail>1 failed\n</output-tail>\n"
        "<output-file>/tmp/out.log</output-file>\n"
        "</task-notification>"
    )
    assert message.metadata == {"task": task.details}


def test_what_there_is_not_is_left_out() -> None:
    assert parsed(notice(TASK, "").text) == {
        "task-id": "shell-1",
        "kind": "shell",
        "status": "completed",
        "summary": "shell-1: completed, after 12 s",
    }


@pytest.mark.parametrize(
    ("tail", "read"),
    [
        ("</output-tail></task-notification><task-notification>", None),
        ("a & b &lt; c ]]> <!-- <![CDATA[", None),
        ("nul \0 escape \x1b[31m bell \a", "nul \ufffd escape \ufffd[31m bell \ufffd"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("half a pair \ud800, no character \uffff", "half a pair \ufffd, no character \ufffd"),
        ("naïve 日本 🎉\tx", None),
    ],
)
def test_output_cannot_leave_its_tag(tail: str, read: str | None) -> None:
    assert parsed(notice(TASK, tail).text)["output-tail"] == (tail if read is None else read)


def test_a_description_stays_on_one_line() -> None:
    task = Task(
        id="shell-1", kind="shell", status="running", started_at=1.0, description="cat <<X\ny" + "z" * 90
    )
    assert summary(task, 4.0) == 'shell-1 ("cat <<X\\ny' + "z" * 71 + '"): running, for 3 s'


def test_it_is_bounded() -> None:
    task = Task(
        id="shell-1",
        kind="shell",
        status="failed",
        started_at=0.0,
        ended_at=1.0,
        command="x" * 100_000,
        error="<" * 100_000,
    )
    message = notice(task, "a" * 100_000 + "<" * 100_000)
    fields = parsed(message.text)
    assert len(fields["output-tail"]) == 4000
    assert len(fields["command"]) == len(fields["error"]) == 1001
    assert len(message.text) < 25_000
