"""The version, where everything that writes it into a log can read it."""

__version__ = "0.1.0"
