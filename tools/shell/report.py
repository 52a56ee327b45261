"""What a model and a host are told of a command that has ended. Pure functions.

Read with: ``bash.py`` (the caller), ``request.py`` (``Ended``).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from unspool.kernel.ports import ToolResult
from unspool.tools.text import shown_list

from .output import OutputBuffer
from .request import Ended, Killed


def command_result(ended: Ended, output: OutputBuffer, cwd: str, notes: Sequence[str]) -> ToolResult:
    """Output, then a note in brackets for each thing to know; never empty.

    However a command ended, that is a result and no error of the tool: the details say how.
    """
    said = output.shown()
    text = said.text.removesuffix("\n")
    lines = [text] if text.strip() else []
    lines += [f"[{note}]" for note in (*_notes(ended, bool(lines)), said.note, *notes) if note]
    details: dict[str, Any] = {
        "exit_code": ended.exit_code,
        "bytes": output.size,
        "lines": output.lines,
        "cwd": cwd,
        "killed": [pid for pid, _ in ended.killed],
    }
    if ended.signal:
        details["signal"] = ended.signal
    if ended.stopped:
        details["timed_out" if ended.stopped == "timeout" else "aborted"] = True
    if output.file is not None:
        details["output_file"] = str(output.file)
    return ToolResult(content="\n".join(lines), details=details)


def _notes(ended: Ended, has_output: bool) -> Iterator[str]:
    code = f"exit code {ended.exit_code}" if ended.exit_code >= 0 else "exit code unknown"
    if ended.signal and not ended.stopped:
        code += f": the shell was ended by {ended.signal}"
    if ended.stopped:
        why = "timed out" if ended.stopped == "timeout" else "stopped"
        yield f"{why} after {ended.duration_s:.1f} s, and ended with all that it had started; {code}"
    elif not has_output:
        yield f"no output, {code}"
    elif ended.exit_code:
        yield code
    if ended.killed and not ended.stopped:
        yield f"left running in the background, and ended: {_names(ended.killed)}"
    if ended.left:
        yield f"could not be ended and still running: {_names(ended.left)}"
    if ended.error:
        yield f"{ended.error}: something that it started may still run"


def _names(processes: Sequence[Killed]) -> str:
    return shown_list([f"{name} ({pid})" for pid, name in processes], 5)
