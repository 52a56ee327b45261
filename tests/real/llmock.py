"""An agent against llmock, a server that plays many providers, breaks on demand, and judges its client.

Every case is one run of an agent with one tool: a call, then an answer. The fault is there from the beginning
(``call``), or from the moment the tool runs (``answer``). llmock sees each request and how long the client
waited, and says what the client did wrong: ``retry_after_ignored``, ``truncated_stream_accepted``, ``no_backoff``, …

``python -m tests.real.llmock [PROVIDER …]`` prints the table of its verdicts; it ends with 1 where one is bad.

Read with: ``setup.sh`` (installs llmock), ``test_llmock.py``.
"""

import itertools
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio

from unspool import Agent, CallOptions, Retry, RunResult, tool
from unspool.llm.http_model import HttpModel

from .formats import model_of
from .servers import CACHE, call, free_port, installed, serve

Turn = Literal["call", "answer"]
CONTEXT_WINDOW = 2000  # tokens, by llmock's estimate
TOKENS_PER_MINUTE = 20_000  # for each provider and key
LONG = "word " * 4 * CONTEXT_WINDOW
RETRY = Retry(attempts=3, base_s=0.06, idle_s=0.6)
GROWING = Retry(
    attempts=3, base_s=0.3, idle_s=0.6
)  # two waits are compared: a busy machine must not hide that they grow


@dataclass(frozen=True)
class Provider:
    """A provider that llmock plays: the format it speaks and the path before that format's own."""

    format: str
    path: str


PROVIDERS: dict[str, Provider] = {
    "openai": Provider("openai-chat", "/v1"),
    "responses": Provider("openai-responses", "/v1"),
    "anthropic": Provider("anthropic-messages", "/anthropic/v1"),
    "gemini": Provider("gemini", "/gemini/v1beta"),
    "groq": Provider("openai-chat", "/groq/openai/v1"),
    "mistral": Provider("openai-chat", "/mistral/v1"),
    "xai": Provider("openai-chat", "/xai/v1"),
    "together": Provider("openai-chat", "/together/v1"),
    "perplexity": Provider("openai-chat", "/perplexity/v1"),
    "ai21": Provider("openai-chat", "/ai21/v1"),
}


@dataclass(frozen=True)
class Fault:
    """What llmock does, and how the run must come out.

    ``ends`` is the end reason, or the error's kind. ``retries`` are the requests beyond one for each reply.
    ``tool_runs`` is how often the tool must have run when the run does not end before. ``allows`` are warnings
    of llmock that are meant so; the verdict passes with them. It warns when a wait of an hour is given up; when
    a 409, which it takes for passing, is not tried again: here a conflict is the request's; and when the last
    event of a stream is corrupt, because it does not see that the next request is a retry: ``retries`` does.
    """

    behaviors: tuple[Mapping[str, Any], ...] = ()
    ends: str = "stop"
    retries: int = 0
    tool_runs: int = 1
    allows: tuple[str, ...] = ()
    prompt: str = "What is the weather in Paris?"
    options: CallOptions = field(default_factory=lambda: CallOptions(max_tokens=1000))


def status(code: int, times: int | None = 1, **more: Any) -> tuple[Mapping[str, Any], ...]:
    """The next requests fail with an HTTP status; ``times`` None means all of them."""
    return ({"type": "fail", "status": code, "times": times, **more},)


def broken(kind: str, after_chunks: int, times: int = 1) -> tuple[Mapping[str, Any], ...]:
    """The next streams break after so many events."""
    return (
        {
            "type": "stream_fault",
            "kind": kind,
            "after_chunks": after_chunks,
            "times": times,
            "stall_seconds": 20,
            "match": {"stream": True},
        },
    )


_LATE = {"seconds": 1.5}  # longer than the client waits

FAULTS: dict[str, Fault] = {
    "none": Fault(),
    "rate_limit": Fault(status(429, 2, retry_after=0.3), retries=2),
    "rate_limit, too long": Fault(status(429, retry_after=3600), "rate_limit", allows=("gave_up",)),
    "quota of tokens": Fault(options=CallOptions(max_tokens=TOKENS_PER_MINUTE // 2), retries=1),
    "500": Fault(status(500, 2, retry_after=0), retries=2),
    "502": Fault(status(502), retries=1),
    "503": Fault(status(503), retries=1),
    "504": Fault(status(504), retries=1),
    "529": Fault(status(529), retries=1),
    "408": Fault(status(408), retries=1),
    "409": Fault(status(409), "bad_request", allows=("gave_up",)),
    "outage": Fault(status(503, None, retry_after=0.1), "overloaded", retries=3),
    "400": Fault(status(400), "bad_request"),
    "401": Fault(status(401), "auth"),
    "402": Fault(status(402), "quota"),
    "403": Fault(status(403), "auth"),
    "404": Fault(status(404), "bad_request"),
    "422": Fault(status(422), "bad_request"),
    "context_overflow": Fault(prompt=LONG, ends="context_overflow"),
    "disconnect at once": Fault(broken("disconnect", 0), retries=1),
    "disconnect": Fault(broken("disconnect", 2, 2), retries=2),
    "truncate at once": Fault(broken("truncate", 0), retries=1),
    "truncate": Fault(broken("truncate", 2, 2), retries=2),
    "corrupt": Fault(broken("malformed", 1, 2), retries=2, allows=("malformed_chunk_ignored",)),
    "stall": Fault(broken("stall", 1), retries=1),
    "slow first token": Fault(({"type": "slow_first_token", **_LATE},), retries=1),
    "delay": Fault(({"type": "delay", **_LATE},), retries=1),
    "malformed arguments": Fault(({"type": "tool_fault", "kind": "malformed_arguments"},), tool_runs=0),
    "unknown tool": Fault(({"type": "tool_fault", "kind": "unknown_tool"},), tool_runs=0),
}


@dataclass(frozen=True)
class Outcome:
    """What a run came to, and what llmock says of it."""

    result: RunResult[str]
    tool_runs: int
    requests: Sequence[Mapping[str, Any]]
    findings: Sequence[Mapping[str, Any]]

    @property
    def ends(self) -> str:
        return self.result.error_kind or self.result.end_reason

    @property
    def retries(self) -> int:
        replies = sum(message.role == "assistant" for message in self.result.messages)
        return len(self.requests) - replies - (self.ends != "stop")


class Llmock:
    """A running llmock."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._runs = 0

    def model(self, provider: str) -> HttpModel:
        """A model of that provider, with a key of its own, so that quotas are."""
        self._runs += 1
        played = PROVIDERS[provider]
        return model_of(
            played.format, f"{provider}/a-model", self.url + played.path, api_key=f"test-{self._runs}"
        )

    def play(self, provider: str, fault: Fault, turn: Turn, backend: str = "asyncio") -> Outcome:
        """One run of an agent on that provider with that fault in that turn."""
        call(f"{self.url}/_llmock/reset", {})
        runs: list[str] = []
        behaviors = [_in_the_stream(behavior, provider, turn) for behavior in fault.behaviors]

        @tool
        async def get_weather(city: str) -> str:
            """The weather in a city."""
            runs.append(city)
            if turn == "answer":
                self._break(behaviors)
            return "7 C and raining"

        async def main() -> RunResult[str]:
            agent = Agent(
                self.model(provider),
                tools=[get_weather],
                options=fault.options,
                retry=GROWING if fault.retries > 1 else RETRY,
                rand=lambda: 1.0,
            )
            return await agent.run(fault.prompt)

        if turn == "call":
            self._break(behaviors)
        result = anyio.run(main, backend=backend)
        verdict = call(f"{self.url}/_llmock/verdict")
        requests = call(f"{self.url}/_llmock/requests")["requests"]
        return Outcome(result, len(runs), requests, verdict["findings"])

    def _break(self, behaviors: Sequence[Mapping[str, Any]]) -> None:
        if behaviors:
            call(f"{self.url}/_llmock/scenario", {"behaviors": behaviors})


def _in_the_stream(behavior: Mapping[str, Any], provider: str, turn: Turn) -> Mapping[str, Any]:
    """The behavior; where a call is a stream of one event, as Gemini's is, what breaks the stream comes before it."""
    if "after_chunks" in behavior and turn == "call" and PROVIDERS[provider].format == "gemini":
        return {**behavior, "after_chunks": 0}
    return behavior


def expected_tool_runs(fault: Fault, turn: Turn) -> int:
    """How often the tool runs: the first turn's fault that ends the run comes before it."""
    if turn == "answer":
        return 1
    return fault.tool_runs if fault.ends == "stop" else 0


def every_place(kind: str) -> Iterator[Fault]:
    """A fault of a stream before its first event, before its second, and so on; without an end."""
    for after_chunks in itertools.count():
        yield Fault(broken(kind, after_chunks))


def faults_of(outcome: Outcome, fault: Fault, turn: Turn) -> list[str]:
    """What is wrong with an outcome, llmock's findings first; nothing for a good one."""
    wrong = [
        f"{found['code']}: {found['title']}"
        for found in outcome.findings
        if found["severity"] == "error" or found["code"] not in fault.allows
    ]
    runs = expected_tool_runs(fault, turn)
    if outcome.ends != fault.ends:
        wrong.append(f"ended with {outcome.ends}, not {fault.ends}: {outcome.result.error}")
    if outcome.retries != fault.retries:
        wrong.append(f"{outcome.retries} retries, not {fault.retries}")
    if outcome.tool_runs != runs:
        wrong.append(f"the tool ran {outcome.tool_runs} times, not {runs}")
    if fault.ends == "stop" and not outcome.result.text:
        wrong.append("the answer is empty")
    return wrong


def turns_of(name: str) -> Iterable[Turn]:
    """The turns in which a fault can be: some need no help from the tool to come about."""
    return ("call",) if name in ("none", "context_overflow", "quota of tokens") else ("call", "answer")


@contextmanager
def running_llmock(logs: Path) -> Iterator[Llmock]:
    """A llmock with quotas and a small context window.

    Raises:
        NotInstalledError: ``setup.sh`` has not been run.
    """
    python, port = installed(CACHE / "llmock" / "bin" / "python"), free_port()
    limits = ["--tpm", str(TOKENS_PER_MINUTE), "--context-window", str(CONTEXT_WINDOW)]
    pace = ["--stream-chunk-delay-ms", "5"]  # so that it sees a client hang up
    command: list[str | Path] = [
        python,
        "-m",
        "llmock.cli",
        "serve",
        "--port",
        str(port),
        "--log-level",
        "critical",
        *limits,
        *pace,
    ]
    with serve(command, port, logs / "llmock.log") as url:
        yield Llmock(url)


def main(wanted: Sequence[str]) -> int:
    """Print the table; 1 where something is wrong."""
    providers = wanted or list(PROVIDERS)
    wrong: list[str] = []
    print(f"{'fault':24}" + "".join(f"{name:12}" for name in providers))
    with tempfile.TemporaryDirectory() as logs, running_llmock(Path(logs)) as llmock:
        for name, fault in FAULTS.items():
            cells = []
            for provider in providers:
                found = [
                    f"{provider}, {name}, {turn}: {text}"
                    for turn in turns_of(name)
                    for text in faults_of(llmock.play(provider, fault, turn), fault, turn)
                ]
                cells.append(f"{'FAIL' if found else 'pass':12}")
                wrong += found
            print(f"{name:24}" + "".join(cells), flush=True)
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
