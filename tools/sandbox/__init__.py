"""A place for commands that can't reach the network, other processes, or files outside the roots."""

from .bubblewrap import SandboxUnavailableError
from .limits import SandboxLimits
from .sandbox import Sandbox

__all__ = ["Sandbox", "SandboxLimits", "SandboxUnavailableError"]
