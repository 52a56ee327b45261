"""A process that works on a board: ``python board_host.py PATH NAME TASKS`` until that many are done.

It tells each step in a line: ``work ID`` when it holds a task, ``done ID`` when it has completed it.
"""

import sys

import anyio

from unspool.team.sqlite_board import SqliteBoard


async def main(path: str, name: str, count: int) -> None:
    board = SqliteBoard(path)
    try:
        await board.release_claims(of=name)  # of the one that died
        while len(await board.list({"done"})) < count:
            task = await board.claim(name, wait_s=0.05)
            if task is not None:
                print("work", task.id, flush=True)
                await board.complete(task.id, name, f"by {name}", attempt=task.attempts)
                print("done", task.id, flush=True)
    finally:
        await board.aclose()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
