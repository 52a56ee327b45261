"""A session with ``harness.py``, without a key: the model and the person are scripted, the rest is real.

Run it: ``python examples/harness.py --demo``.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import Assistant

from unspool import ChatModel
from unspool.llm.scripted import ScriptedModel, Wait, call
from unspool.trajectory import JsonlLog

CTRL_C = "^C"
ENGLISH, FRENCH = 'print("Hello!")\n', 'print("Bonjour !")\n'

FIRST = ScriptedModel(
    [
        ["I look around first.", call("c1", "list_dir", path=".")],
        [call("c2", "write_file", path="hello.py", text=ENGLISH)],
        ["In French, then.", call("c3", "write_file", path="hello.py", text=FRENCH)],
        ["Let me try it.", call("c4", "run", command=[sys.executable, "hello.py"])],
        [call("c5", "run", command=["git", "push"])],
        ["Done; nothing was pushed. The history of greetings", Wait(float("inf")), " is a long one."],
        "You are welcome.",
    ]
)
SECOND = ScriptedModel(["A program that greets in French, hello.py."])

# what is typed as soon as something is on the screen; None is the end of input
FIRST_KEYS: list[tuple[str, str | None]] = [
    ("> ", "Write a program that greets me, and run it."),
    ("write_file? ", "y"),
    ("← ok: wrote", "Please greet me in French."),
    ("write_file? ", "y"),
    ("run? ", "y"),
    ("run? ", "not yet, I want to read it first"),
    ("history of", CTRL_C),
    ("> ", "Thank you!"),
    ("> ", None),
]
SECOND_KEYS = [("> ", "What did you write?"), ("> ", None)]


class Demo(Assistant):
    """An assistant whose person is scripted."""

    def __init__(
        self, model: ChatModel, root: Path, log: JsonlLog, keys: Sequence[tuple[str, str | None]]
    ) -> None:
        super().__init__(model, root, log)
        self.keys = list(keys)

    def print(self, text: str) -> None:
        super().print(text)
        if not self.keys or self.keys[0][0] not in text:
            return
        _, key = self.keys.pop(0)
        print("" if key is None else key)
        if key == CTRL_C:
            self.interrupt()
        else:
            self.typed(key)


async def demo(options: argparse.Namespace) -> None:
    """Two sessions: one in which everything happens, one that comes back to it."""
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, ".harness", "session.jsonl")
        for what, model, keys in (("a session", FIRST, FIRST_KEYS), ("--resume", SECOND, SECOND_KEYS)):
            print(f"--- {what} ---")
            with JsonlLog(path) as log:
                await Demo(model, Path(folder), log, keys).chat()


if __name__ == "__main__":
    asyncio.run(demo(argparse.Namespace()))
