"""The readable text of an HTML page, as Markdown, by trafilatura (extra ``web``)."""

import html
import importlib
import re
from typing import Any, NamedTuple

from unspool.kernel.errors import ToolError
from unspool.kernel.json_edge import clean_text

MAX_HTML = 2 << 20  # characters; the time that extraction takes grows with them
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{0,2000})", re.IGNORECASE)
_MAX_TITLE = 200


class Extracted(NamedTuple):
    text: str
    title: str
    notes: tuple[str, ...]


def extracted(page: str, url: str) -> Extracted:
    """The main text of a page; links are made absolute with ``url``. Blocks for up to seconds.

    Raises:
        ToolError: trafilatura is not installed, or the page has no text.
    """
    trafilatura = _library()
    notes = []
    if len(page) > MAX_HTML:
        page = page[:MAX_HTML]
        notes.append("the page is very long: its end was not looked at")
    options = {"include_links": True, "include_tables": True, "favor_recall": True}
    text = trafilatura.extract(page, url=url, output_format="markdown", **options)
    if not text:
        text = trafilatura.html2txt(page)
        notes.append("no main text was found: this is all text of the page")
    if not text or not text.strip():
        raise ToolError("the page has no text; it may be made by scripts, which are not run")
    found = _TITLE.search(page)
    title = " ".join(html.unescape(found[1]).split())[:_MAX_TITLE] if found else ""
    return Extracted(clean_text(text), clean_text(title), tuple(notes))


def _library() -> Any:
    try:
        return importlib.import_module("trafilatura")
    except ImportError as error:
        raise ToolError(
            "HTML pages can't be read here: the person who runs this must install them with "
            f"pip install 'unspool[web]' ({error}); plain text, Markdown and JSON can be fetched"
        ) from error
