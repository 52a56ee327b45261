"""aimock, a server that plays recorded or written answers in the formats of many providers.

What it says stands in ``aimock.json``. Chaos is asked for by headers, in probabilities: it drops requests (500),
answers with what is no JSON, refuses with 429 and destroys connections.

Read with: ``setup.sh`` (installs aimock), ``test_aimock.py``.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from unspool import Agent, Limits, Retry, RunResult, tool
from unspool.kernel import Event, ModelResponse, RetryEvent

from .formats import model_of
from .servers import CACHE, HERE, call, free_port, installed, serve

PROVIDERS: dict[str, tuple[str, str]] = {  # by name: the wire format, and the path before the format's own
    "openai": ("openai-chat", "/v1"),
    "openrouter": ("openai-chat", "/api/v1"),
    "azure": ("openai-chat", "/openai/deployments/gpt-5"),
    "responses": ("openai-responses", "/v1"),
    "anthropic": ("anthropic-messages", "/v1"),
    "gemini": ("gemini", "/v1beta"),
    "vertex": ("gemini", "/v1/projects/p/locations/global/publishers/google"),
}
MODELS = {
    "anthropic-messages": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
}  # aimock lets only some models reason
PATIENT = Retry(attempts=40, base_s=0.001, max_s=2.0, idle_s=10.0)


@dataclass(frozen=True)
class Played:
    """What a run came to, the events that were seen of it, and the requests that aimock saw."""

    result: RunResult[str]
    events: Sequence[Event]
    tool_args: Sequence[str]
    journal: Sequence[Mapping[str, Any]]

    @property
    def failures(self) -> list[str]:
        """The error kinds of the attempts that failed."""
        responses = [event for event in self.events if isinstance(event, ModelResponse)]
        return [response.error_kind for response in responses if response.error_kind]

    @property
    def retries(self) -> list[str]:
        """The error kinds that were said to be the reasons for another attempt."""
        return [event.error_kind for event in self.events if isinstance(event, RetryEvent)]

    @property
    def chaos(self) -> list[str]:
        """What aimock did to the requests that met with chaos: ``drop``, ``malformed``, …"""
        actions = [entry["response"].get("chaosAction") for entry in self.journal]
        return [action for action in actions if action]


class Aimock:
    """A running aimock."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._runs = 0

    def play(
        self,
        provider: str,
        prompt: str,
        *,
        retry: Retry = PATIENT,
        streaming: bool = True,
        backend: str = "asyncio",
        chaos: Mapping[str, float] | None = None,
    ) -> Played:
        """One run of an agent with a tool; ``chaos`` are rates by what aimock does, and a ``latency`` in ms."""
        self._runs += 1
        test = f"run-{self._runs}"
        rates = {f"x-aimock-chaos-{name.lower()}": str(rate) for name, rate in (chaos or {}).items()}
        format_name, path = PROVIDERS[provider]
        model = model_of(
            format_name,
            f"{provider}/{MODELS.get(format_name, 'gpt-5')}",
            self.url + path,
            api_key="test",
            headers={"x-test-id": test, **rates},
            streaming=streaming,
        )
        args: list[str] = []

        @tool
        async def get_weather(city: str) -> str:
            """The weather in a city."""
            args.append(city)
            return f"7 C and raining in {city}"

        events: list[Event] = []

        async def main() -> RunResult[str]:
            limits = Limits(length_recoveries=0)
            agent = Agent(model, tools=[get_weather], retry=retry, limits=limits)
            agent.subscribe(events.append)
            return await agent.run(prompt)

        result = anyio.run(main, backend=backend)
        journal = call(f"{self.url}/__aimock/journal?testId={test}&limit=500")
        return Played(result, events, args, journal)


@contextmanager
def running_aimock(logs: Path) -> Iterator[Aimock]:
    """An aimock that says what stands in ``aimock.json``.

    Raises:
        NotInstalledError: ``setup.sh`` has not been run, or npm was not there.
    """
    program, port = installed(CACHE / "aimock" / "node_modules" / ".bin" / "llmock"), free_port()
    command: list[str | Path] = [
        program,
        "-p",
        str(port),
        "-f",
        HERE / "aimock.json",
        "--strict",
        "--log-level",
        "warn",
    ]
    with serve(command, port, logs / "aimock.log") as url:
        yield Aimock(url)
