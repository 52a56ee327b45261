"""``unspool context replay``: a session under other context managers, without a model."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from unspool.context import ClearToolResults, Engine, SummaryCheckpoint, default, keep_turns, none
from unspool.kernel import (
    AgentMessage,
    Compaction,
    ContextManager,
    ContextOverflowError,
    ContextProjected,
    ContextScope,
    ContextSnapshot,
    ContextUsage,
    Hooks,
    Message,
    Projection,
    Usage,
    user_message,
)
from unspool.kernel.events import ContextCompacted
from unspool.llm.scripted import Entry, Say
from unspool.trajectory import load

from .context_logs import Act, commit_of, prompt, reads, record  # tests/cli/, not cli/
from .driving import invoke, unspool  # tests/cli/, not cli/

pytestmark = pytest.mark.usefixtures("elsewhere")
LOG = "./run.jsonl"


def replayed(*args: str, log: str = LOG, status: int = 0) -> Any:
    """The report as JSON."""
    return json.loads(invoke("context", "replay", log, "--json", *args, status=status).stdout)


def row(report: Any, name: str) -> Any:
    (found,) = [each for each in report["managers"] if each["name"] == name]
    return found


def rewrites_in(log: str = LOG) -> list[ContextCompacted]:
    return [fact for fact in load(log) if isinstance(fact, ContextCompacted)]


def summing(*, commits: bool = True, window: int = 6_000) -> Engine:
    return Engine([SummaryCheckpoint(commits=commits)], window=window)


# --- the recorded manager makes the recorded requests --------------------------------------------

Make = Callable[[], ContextManager | None]
MANAGERS: Mapping[str, Make] = {
    "no manager": lambda: None,
    "one that shows everything": lambda: none(window=50_000),
    "commits": lambda: default(window=12_000),
    "clears": lambda: Engine([ClearToolResults(keep=2)], window=8_000),
    "remembers": lambda: keep_turns(3, window=50_000),
    "sums up": summing,
    "sums up and remembers": lambda: summing(commits=False),
}


@pytest.mark.parametrize("name", MANAGERS)
def test_the_recorded_manager_makes_the_recorded_requests(name: str) -> None:
    sent = record(LOG, MANAGERS[name](), reads(40))
    report = replayed()
    assert report["reproduced"] == report["calls"] == len(sent) == 41
    recorded = row(report, "recorded")
    assert len(recorded["rewrites"]) == len(rewrites_in())
    assert recorded["committed"] == sum([fact.committed for fact in rewrites_in()])
    asides = [fact for fact in load(LOG) if isinstance(fact, ContextProjected) and fact.purpose]
    assert recorded["summaries"]["recorded"] == len(asides)
    assert recorded["summaries"]["extracted"] == 0
    if name not in ("no manager", "one that shows everything"):
        assert rewrites_in()
    assert asides or "sums up" not in name


def overflowing(at: int) -> list[Entry]:
    script = reads(30)
    script[at:at] = [ContextOverflowError("provider: too long")]
    return script


def changed_by_host(agent: Any) -> Any:
    agent.set_messages([*agent.state.messages[:6], user_message("Go on from here.")])
    return agent.run("Read more.")


def with_another_manager(agent: Any) -> Any:
    agent.configure(context=keep_turns(2, window=50_000))
    return agent.run("Read more.")


async def cut_short(agent: Any) -> None:
    """A prompt comes while the answer is spoken, of which half was heard."""

    async def speak(info: object) -> None:
        await anyio.sleep_forever()

    agent.configure(hooks=Hooks(before_stop=speak))
    async with agent:
        agent.prompt("Read them.")
        while not (agent.state.messages and agent.state.messages[-1].text == "done"):
            await anyio.lowlevel.checkpoint()
        agent.configure(hooks=Hooks())
        await agent.run("Read more.", busy="interrupt", keep=lambda text: text[:2])


async def from_the_beginning(agent: Any) -> None:
    await agent.reset()
    await agent.run("Read again.")


SESSIONS: Mapping[str, tuple[Make, Sequence[Entry], Sequence[Act]]] = {
    "an overflow": (lambda: default(window=50_000), overflowing(20), [prompt()]),
    "usage is reported": (lambda: default(window=12_000), reads(40, reported=1_000), [prompt()]),
    "two runs": (
        lambda: keep_turns(3, window=50_000),
        [*reads(20), *reads(20, first=20)],
        [prompt(), prompt()],
    ),
    "a person asks for a compaction": (
        lambda: default(window=50_000),
        [*reads(20), *reads(5, first=20)],
        [prompt(), lambda agent: agent.compact("keep the commits"), prompt("Go on.")],
    ),
    "the host replaces the messages": (
        lambda: default(window=12_000),
        [*reads(20), *reads(20, first=20)],
        [prompt(), changed_by_host],
    ),
    "the conversation begins anew": (
        lambda: default(window=12_000),
        [*reads(20), *reads(20, first=20)],
        [prompt(), from_the_beginning],
    ),
    "an answer is cut to what was heard": (
        lambda: default(window=12_000),
        [*reads(20), *reads(20, first=20)],
        [cut_short],
    ),
    "another manager": (
        lambda: default(window=12_000),
        [*reads(20), *reads(20, first=20)],
        [prompt(), with_another_manager],
    ),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_so_it_does_whatever_happens_in_a_session(name: str) -> None:
    make, script, acts = SESSIONS[name]
    sent = record(LOG, make(), script, *acts)
    report = replayed("--with", "keep_turns:5", "--with", "none")
    assert report["reproduced"] == report["calls"] == len(sent)
    assert rewrites_in()
    assert [each["failures"] for each in report["managers"]] == [[], [], []]


def test_summaries_that_failed_fail_again() -> None:
    record(LOG, Engine([SummaryCheckpoint(), ClearToolResults(keep=2)], window=6_000), reads(40), failing=2)
    report = replayed()
    assert report["reproduced"] == report["calls"]
    assert row(report, "recorded")["summaries"]["recorded"] > 2


@pytest.mark.parametrize("name", ["commits", "remembers", "sums up and remembers"])
def test_another_process_goes_on_with_a_manager_that_remembers_nothing(name: str) -> None:
    acts: list[Act] = [prompt(), lambda agent: agent.compact()]
    record(LOG, MANAGERS[name](), reads(20), *acts, failing=2)
    record(
        LOG,
        MANAGERS[name](),
        [*reads(9, first=20), *reads(9, first=29)],
        prompt(),
        prompt("Go on."),
        failing=2,
    )
    report = replayed()
    assert report["reproduced"] == report["calls"] == 41


def test_the_window_of_the_others_is_not_that_of_the_recorded_manager() -> None:
    record(LOG, default(), reads(20))
    report = replayed("--with", "default", "--window", "5000")
    assert report["reproduced"] == report["calls"]
    assert row(report, "recorded")["rewrites"] == [] and row(report, "default")["rewrites"]


def test_an_overflow_is_a_point_of_the_recorded_manager() -> None:
    record(LOG, default(window=50_000), overflowing(20))
    report = replayed("--with", "none", "--window", "10000")
    assert row(report, "recorded")["overflows"] == [21]
    over = [at for at, tokens in enumerate(row(report, "none")["tokens_by_call"], 1) if tokens > 10_000]
    assert row(report, "none")["overflows"] == over and over


# --- a manager that nobody knows -------------------------------------------------------------------


class Newest:
    """Shows the newest messages, and says what it is or does not."""

    def __init__(self, *, says: bool) -> None:
        if says:
            self.describe = lambda: {"manager": "newest", "count": 8}

    async def project(self, view: Sequence[AgentMessage], scope: ContextScope, /) -> Projection:
        start = max(0, len(view) - 8)
        while start and view[start].role != "assistant":
            start -= 1
        return Projection(messages=view[start:])

    async def compact(self, view: Sequence[AgentMessage], reason: str, scope: ContextScope, /) -> Compaction:
        return Compaction(changed=False)

    def sync(self, view: Sequence[AgentMessage], /) -> None:
        """Nothing to remember."""

    def usage(self) -> ContextUsage | None:
        return None

    def snapshot(self) -> ContextSnapshot | None:
        return None


def breaks_of(sent: Sequence[Sequence[Message]]) -> list[int]:
    """The requests, from 1, that do not go on from the one before, by comparing all messages."""

    def seen(message: Message) -> object:
        return (message.role, message.content, message.tool_call_id)

    return [
        n
        for n, (before, after) in enumerate(pairwise(sent), 2)
        if [*map(seen, after)][: len(before)] != [*map(seen, before)]
    ]


@pytest.mark.parametrize("make", [lambda: Newest(says=True), *MANAGERS.values()])
def test_breaks_are_those_of_the_requests_that_were_sent(make: Make) -> None:
    sent = record(LOG, make(), reads(40))
    recorded = row(replayed(), "recorded")
    assert [each["call"] for each in recorded["breaks"]] == breaks_of(sent)
    kept = [fact for fact in load(LOG) if isinstance(fact, ContextProjected) and not fact.purpose]
    lengths = [fact.keep + len(fact.append) for fact in kept]
    broken = [
        n for n, (fact, length) in enumerate(zip(kept[1:], lengths, strict=False), 2) if fact.keep < length
    ]
    assert broken == breaks_of(sent)


def test_what_an_unknown_manager_sent_is_told_as_it_was_recorded() -> None:
    sent = record(LOG, Newest(says=True), reads(20))
    report = replayed("--with", "none")
    assert report["reproduced"] is None
    assert "cannot be made again" in report["unknown"] and "newest" in report["unknown"]
    assert len(row(report, "recorded")["tokens_by_call"]) == len(sent)
    assert row(report, "recorded")["peak"] < row(report, "none")["peak"]
    assert "as recorded: " in invoke("context", "replay", LOG).stdout


def test_a_manager_that_says_nothing_and_shows_less_is_not_reproduced() -> None:
    record(LOG, Newest(says=False), reads(20))
    report = replayed(status=1)
    assert 0 < report["reproduced"] < report["calls"]


# --- other managers --------------------------------------------------------------------------------


def test_others_are_measured_by_the_same_demands() -> None:
    record(LOG, default(window=12_000), reads(40))
    names = ["none", "keep_turns:3", "keep_tokens:3000", "clear:2", "default"]
    report = replayed(*[arg for name in names for arg in ("--with", name)], "--window", "12000")
    assert [each["name"] for each in report["managers"]] == ["recorded", *names]
    assert len({each["demands"]["demanded"] for each in report["managers"]}) == 1
    assert row(report, "none")["recall"] == 1.0
    assert row(report, "none")["breaks"] == [] and row(report, "none")["rewrites"] == []
    assert row(report, "keep_turns:3")["recall"] < 1.0
    assert row(report, "default") == {**row(report, "recorded"), "name": "default"}
    for each in report["managers"]:
        assert each["peak"] == max(each["tokens_by_call"])
        assert each["total"] == sum(each["tokens_by_call"])
        assert each["cached"] == sum(each["cached_by_call"])
        assert all(dropped["by"] and dropped["role"] for dropped in each["dropped"])


def test_summaries_that_were_not_recorded_are_extracts() -> None:
    record(LOG, summing(), reads(40))
    Path("theirs.py").write_text(
        "from unspool.context import Engine, SummaryCheckpoint\n"
        "def sums():\n    return Engine([SummaryCheckpoint()], window=5_000)\n"
    )
    done = invoke("context", "replay", LOG, "--with", "theirs:sums")
    recorded, extracted = (
        row(replayed(), "recorded")["summaries"],
        row(replayed("--with", "theirs:sums"), "theirs:sums"),
    )
    assert extracted["summaries"]["extracted"] > 0 and extracted["summaries"]["recorded"] == 0
    told = f"summaries: recorded {recorded['recorded']}, extracted {extracted['summaries']['extracted']}"
    assert told in done.stdout


def test_costs_are_of_cached_and_uncached_tokens_and_answers() -> None:
    record(LOG, None, reads(10))
    prices = ("--price-input", "2", "--price-cached", "0.2", "--price-write", "2.5", "--price-output", "8")
    report = replayed(*prices)
    recorded = row(report, "recorded")
    uncached = recorded["total"] - recorded["cached"]
    output = 10 * 20 + report_output(report)
    assert recorded["cost"] == pytest.approx(
        (recorded["cached"] * 0.2 + uncached * 2.5 + output * 8) / 1_000_000, abs=1e-9
    )
    plain = row(replayed("--price-input", "2"), "recorded")
    assert plain["cost"] == pytest.approx((recorded["total"] + output) * 2 / 1_000_000, abs=1e-9)
    assert row(replayed(), "recorded")["cost"] is None


def report_output(report: Any) -> int:
    """Tokens of the last answer, whose usage was not reported: a word and what is around it."""
    return 5


def test_counts_are_scaled_to_what_the_provider_reported() -> None:
    record(LOG, None, [Say(["done"], usage=Usage(input_tokens=60))])
    report = replayed()
    assert report["factor"] != 1
    assert row(report, "recorded")["tokens_by_call"] == [pytest.approx(60, abs=2)]


def test_ids_and_files_are_demands() -> None:
    record(LOG, None, reads(13))
    recorded = row(replayed(), "recorded")
    assert recorded["demands_by_kind"] == {
        "file": {"demanded": 1, "shown": 1},
        "id": {"demanded": 1, "shown": 1},
    }
    assert recorded["demands_by_label"] == {"run 1": {"demanded": 2, "shown": 2}}
    assert commit_of("src/m0.py")


# --- what is printed -------------------------------------------------------------------------------


def test_the_table_has_a_line_for_each_manager() -> None:
    record(LOG, None, reads(5))
    lines = invoke("context", "replay", LOG, "--with", "none").stdout.splitlines()
    assert lines[0] == f"{LOG}: 6 of 6 requests reproduced"
    assert lines[1].startswith("tokens by ") and lines[1].endswith("window 128,000")
    headings = "manager peak total cached cost rewrites breaks overflows recall precision summaries"
    assert " ".join(lines[2].split()) == headings
    assert [line.split()[0] for line in lines[3:]] == ["recorded", "none"]


def test_the_newest_session_of_the_store_is_meant_without_a_name() -> None:
    Path("note.txt").write_text("hello\n")
    assert unspool("demo", cwd=Path.cwd()).returncode == 0
    assert "requests reproduced" in invoke("context", "replay").stdout


def test_plots_are_files() -> None:
    record(LOG, keep_turns(2, window=50_000), reads(10))
    invoke("context", "replay", LOG, "--with", "none", "--svg", "a.svg", "--png", "a.png")
    svg = Path("a.svg").read_text()
    assert all(text in svg for text in ("recorded", "none", "window", "model call"))
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    invoke("context", "replay", LOG, "--with", "none", "--svg", "b.svg")
    assert Path("b.svg").read_text() == svg


def test_a_plot_that_cannot_be_written_is_one_line() -> None:
    record(LOG, None, reads(2))
    told = invoke("context", "replay", LOG, "--png", "nowhere/a.png", status=1).stderr
    assert told.startswith("unspool: plot: cannot be written (path='nowhere/a.png'")


def test_where_there_is_nothing_to_plot_with_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unspool.cli.context_replay.can_plot", lambda: False)
    assert (
        "pip install 'unspool[plots]'" in invoke("context", "replay", LOG, "--svg", "a.svg", status=2).stderr
    )


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--with", "everything"], "no such manager: 'everything', there are none, default, keep_turns:N"),
        (["--with", "keep_turns"], "keep_turns takes a number above 0"),
        (["--with", "keep_turns:x"], "keep_turns takes a number above 0"),
        (["--with", "keep_tokens:0"], "takes"),
        (["--with", "none:3"], "none takes no number"),
        (["--with", "nowhere:make"], "nowhere:make gives no manager"),
        (["--with", "json:dumps"], "json:dumps gives no manager"),
        (["--with", "builtins:dict"], "builtins:dict gives no context manager but dict"),
        (["--price-cached", "1"], "need --price-input"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(args: Sequence[str], told: str) -> None:
    assert told in invoke("context", "replay", LOG, *args, status=2).stderr


def test_a_log_that_is_not_there_or_damaged_is_one_line() -> None:
    invoke("context", "replay", "./nothing.jsonl", status=2)
    record(LOG, None, reads(5))
    lines = Path(LOG).read_bytes().splitlines(keepends=True)
    Path(LOG).write_bytes(b"".join([*lines[:8], *lines[9:]]))
    assert "log: " in invoke("context", "replay", LOG, status=1).stderr
