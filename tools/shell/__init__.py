"""Commands: run, read while they run, and ended with everything that they started."""

from .bash import BashTool, bash_tool
from .output import OutputBuffer
from .process import Command, start_command
from .request import CommandRequest, Ended, Killed
from .spill import OutputFiles

__all__ = [
    "BashTool",
    "Command",
    "CommandRequest",
    "Ended",
    "Killed",
    "OutputBuffer",
    "OutputFiles",
    "bash_tool",
    "start_command",
]
