"""A coding assistant for the terminal: files, programs, approval, steering, sessions to come back to.

``--demo`` shows it without a key. In the folder to work on: ``python harness.py -m openai/gpt-4.1-mini``,
or ``-m local/qwen3 --base-url http://127.0.0.1:8080/v1``. What is typed while it works steers it; Ctrl-C
interrupts it, or ends the program. ``--resume`` goes on with the newest session, even after a crash.
"""

import argparse
import asyncio
import difflib
import signal
import threading
import time
from pathlib import Path
from typing import Any

import anyio

import unspool as un
from unspool import llm
from unspool.kernel import ApprovalInfo
from unspool.tools import file_tools
from unspool.trajectory import JsonlLog

SYSTEM = "You are a coding assistant. You work in one folder with your tools; paths are relative to it."
FREE, ASK = un.Verdict.allow(), un.Verdict.ask()  # reading is free, a person decides on the rest


def own_tools(root: Path) -> list[un.Tool]:
    """Tools that change something: they write files below ``root`` and run programs there."""

    def inside(path: str) -> Path:
        if not (found := (root / path).resolve()).is_relative_to(root.resolve()):
            raise un.ToolError(f"{path} is outside of the folder")
        return found

    def diff(args: Any, ctx: un.ToolContext) -> str:
        path, new = inside(args["path"]), args["text"].splitlines()
        old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return "\n".join(difflib.unified_diff(old, new, "now", args["path"], lineterm="", n=1))

    @un.tool(preview=diff)
    def write_file(path: str, text: str) -> str:
        """Write a text file; one that is there already is replaced."""
        inside(path).parent.mkdir(parents=True, exist_ok=True)
        inside(path).write_text(text, encoding="utf-8")
        return f"wrote {path}"

    @un.tool(timeout_s=120, preview=lambda args, ctx: f"$ {' '.join(args['command'])}")
    async def run(command: list[str]) -> str:
        """Run a program, without a shell: its name and its arguments."""
        done = await anyio.run_process(command, cwd=root, check=False)
        return f"exit status {done.returncode}\n{(done.stdout + done.stderr).decode(errors='replace')}"

    return [write_file, run]


class Assistant:
    """An agent in a terminal: it shows what happens, asks a person, and hears what is typed."""

    def __init__(self, model: un.ChatModel, root: Path, log: JsonlLog) -> None:
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()  # typed and not read; None is their end
        tools = [*file_tools(root), *own_tools(root)]
        hooks = un.Hooks(gate=lambda use: FREE if use.spec.read_only else ASK, approve=self.approve)
        self.agent = un.Agent(model, tools=tools, system=SYSTEM, hooks=hooks, log=log)
        self.agent.subscribe(self.show)

    async def chat(self) -> None:
        """Take up what a crash left undone, then one prompt after the other."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.interrupt)
        if self.agent.state.turn is not None:
            await self.agent.continue_()
        while (line := await self.ask("\n> ")) is not None:
            if line.strip():
                await self.agent.run(line)

    async def ask(self, question: str) -> str | None:
        """The next line that is typed; None at the end of input."""
        self.print(question)
        if (line := await self.lines.get()) is None:
            self.lines.put_nowait(None)  # for whoever asks next
        return line

    def typed(self, line: str | None) -> None:
        """A line steers the run; where none goes on, or a call waits for a person, it is an answer."""
        if line is not None and self.agent.running and not self.agent.state.waiting_calls:
            if line.strip():
                self.agent.steer(line)
        else:
            self.lines.put_nowait(line)

    def interrupt(self) -> None:
        """End the answer, keeping what was said of it; end the program where there is none."""
        self.agent.abort(keep=True, reason="interrupted") if self.agent.running else self.typed(None)

    async def approve(self, info: ApprovalInfo) -> dict[str, un.Verdict]:
        """Show what each call is going to do, and ask; any answer but yes is the reason why not."""
        verdicts = {}
        for call in info.calls:
            preview = info.previews.get(call.id)
            self.print(f"{preview['text'] if preview else call.args}\n")
            answer = await self.ask(f"{call.name}? [y]es, or why not: ")
            verdicts[call.id] = un.Verdict.allow() if answer == "y" else un.Verdict.deny(answer or "")
        return verdicts

    def show(self, event: un.Event) -> None:
        match event:
            case un.MessageUpdate(delta, "text"):
                self.print(delta)
            case un.MessageEnd(message=un.Message(role="assistant", text=text, stop_reason=reason)) if text:
                self.print(f"[{text}]\n" if reason == "aborted" else "\n")
            case un.ToolExecStart(tool=name, args=args):
                self.print(f"→ {name} {str(args)[:80]}\n")
            case un.ToolExecEnd(outcome=outcome, content=content):
                text = " ".join(block.text for block in content if isinstance(block, un.Text))
                self.print(f"← {outcome}: {' '.join(text.split())[:80]}\n")
            case un.RetryEvent(message=problem) | un.ErrorEvent(message=problem):
                self.print(f"! {problem}\n")

    def print(self, text: str) -> None:  # without control characters: models and files may hold any
        print("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text), end="", flush=True)


def read_keyboard(assistant: Assistant, loop: asyncio.AbstractEventLoop) -> None:
    with open(0, encoding="utf-8", errors="replace", closefd=False) as keyboard:  # not sys.stdin: a thread
        for line in keyboard:
            loop.call_soon_threadsafe(assistant.typed, line.rstrip("\n"))
    loop.call_soon_threadsafe(assistant.typed, None)


async def main(options: argparse.Namespace) -> None:
    root, model = Path.cwd(), llm.model(options.model, base_url=options.base_url)
    sessions = sorted(root.glob(".harness/*.jsonl"))
    new = root / ".harness" / f"{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    with JsonlLog(sessions[-1] if options.resume and sessions else new) as log:
        assistant, loop = Assistant(model, root, log), asyncio.get_running_loop()
        threading.Thread(target=read_keyboard, args=(assistant, loop), daemon=True).start()
        await assistant.chat()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", "--model", default="local/model")
    parser.add_argument("--base-url")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--demo", action="store_true")
    options = parser.parse_args()
    if options.demo:
        from harness_demo import demo as main  # the file beside this one
    asyncio.run(main(options))
