"""unspool: an event-sourced agent kernel."""

__version__ = "0.1.0"
