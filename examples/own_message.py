"""A message type of the application: stored as itself, lowered to plain text for the model alone.

Run it: ``python examples/own_message.py``.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from unspool import Agent, Codec, Message, Text, fold
from unspool.kernel import BaseMessage
from unspool.llm.scripted import ScriptedModel
from unspool.trajectory import JsonlLog, load


@dataclass(frozen=True)
class Reading(BaseMessage):
    """What a sensor said. The model reads one line of it, the application keeps the numbers."""

    sensor: str
    celsius: float

    @property
    def text(self) -> str:
        return f"{self.sensor}: {self.celsius:.1f} °C"

    def to_message(self) -> Message:
        """What the model is sent."""
        return Message(role="user", content=(Text(f"[sensor] {self.text}"),))


def codec() -> Codec:
    """Knows the application's messages; logs hold the name, so it stays when the class is renamed."""
    known = Codec()
    known.register("reading", Reading)
    return known


async def main() -> None:
    """Give it to an agent, and read it back from the log."""
    model = ScriptedModel(["That is too warm for milk."])
    with TemporaryDirectory() as folder:
        path = Path(folder, "session.jsonl")
        with JsonlLog(path, codec()) as log:
            await Agent(model, codec=codec(), log=log).run(Reading("fridge", 11.5))
        print("the model read:", model.requests[0].messages[0].text)
        print("from the log:", fold(load(path, codec())).messages[0])
        stranger = fold(load(path)).messages[0]  # by a program that does not know the class
        print("for a stranger:", stranger, "-", stranger.text)


if __name__ == "__main__":
    asyncio.run(main())
