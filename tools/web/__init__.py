"""What a model may read on the web."""

from .fetch_url import fetch_url_tool

__all__ = ["fetch_url_tool"]
