"""A process at one end of a mailbox in a file, which its test kills: tells in lines what it has done.

``mailbox_host.py FILE send FIRST COUNT`` or ``mailbox_host.py FILE read``.
"""

import sys

import anyio

from unspool.team.letters import Letter
from unspool.team.sqlite_mailbox import SqliteMailbox


async def send(mailbox: SqliteMailbox, first: int, count: int) -> None:
    for number in range(first, count):
        letter = Letter(id=str(number), sender=f"sender {number % 3}", to="box", text="é" * number)
        accepted = await mailbox.send(letter, wait_s=None)
        print("sent", number, int(accepted), flush=True)
    await mailbox.open("all is sent")


async def read(mailbox: SqliteMailbox) -> None:
    while len(await mailbox.boxes()) < 2 or not await mailbox.rest("box"):
        for delivery in await mailbox.receive("box", limit=5, wait_s=0.2, lease_s=0.3):
            print("read", delivery.letter.id, delivery.attempt, flush=True)
            await mailbox.acknowledge("box", [delivery.letter.id])
            print("done", delivery.letter.id, 1, flush=True)


async def main() -> None:
    path, what, *numbers = sys.argv[1:]
    mailbox = SqliteMailbox(path, poll_s=0.01)
    await mailbox.open("box", capacity=20)
    await (send if what == "send" else read)(mailbox, *map(int, numbers))
    await mailbox.aclose()


anyio.run(main)
