"""``fetch_url`` against servers of the test: what a model reads, and what is never asked."""

import gzip
import json
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from unspool.kernel.conformance_tool import check_tool
from unspool.kernel.messages import Document, Image, Text
from unspool.tools.web import fetch_url_tool

from .conftest import Fetch, Page, Server, fetcher, text_of

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
ARTICLE = """<!doctype html><html><head><title>A &amp; B</title><meta charset="utf-8"></head><body>
<nav><a href="/menu">menu</a></nav><article><h1>Heading</h1>
<p>A paragraph that is long enough, with a <a href="/next?x=1">link</a> and <b>bold</b> text in it. Ünïcode.</p>
<p>Another one, so that this is taken for an article: it has some sentences more. They say nothing at all.</p>
<p>And a third one, which goes on for a while, and then for a little while more, until the text is long enough.</p>
<pre><code>x = 1</code></pre></article><script>alert(1)</script></body></html>"""

try:
    import trafilatura  # noqa: F401

    NO_HTML = ""
except ImportError as error:
    NO_HTML = f"trafilatura can't be imported: {error}"
needs_html = pytest.mark.skipif(bool(NO_HTML), reason=NO_HTML)


class Names:
    """A name server that gives each name its next answer, and the last one for ever."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name.replace("_", "."): list(given) for name, given in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.answers.get(host)
        if not answers:
            raise OSError("Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]


# --- what a model reads ---


async def test_plain_text(server: Server, fetch: Fetch) -> None:
    result = await fetch(server.add("/a.txt", "grüße\n", "text/plain; charset=utf-8"))
    assert text_of(result) == "grüße\n"
    assert result.details == {
        "status": 200,
        "content_type": "text/plain",
        "charset": "utf-8",
        "title": "",
        "url": f"{server.url}/a.txt",
        "bytes": 8,
        "characters": 6,
    }


@needs_html
async def test_a_page_comes_as_markdown(server: Server, fetch: Fetch) -> None:
    result = await fetch(server.add("/page", ARTICLE, "text/html"))
    text = text_of(result)
    assert text.startswith("# A & B\n\n# Heading")
    assert f"[link]({server.url}/next?x=1)" in text
    assert "**bold**" in text
    assert "Ünïcode" in text
    assert "alert" not in text


@needs_html
@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("<html><body><div>hi</div></body></html>", "hi"),
        ("<html><body><script>x()</script></body></html>", "the page has no text"),
        ("", "the page has no text"),
        ("<div>" * 50_000 + "deep", ""),
        ("<a " + "b=c " * 100_000, ""),
        ("<" * 100_000, ""),
    ],
)
async def test_odd_pages(server: Server, fetch: Fetch, page: str, told: str) -> None:
    assert told in text_of(await fetch(server.add("/odd", page, "text/html")))


async def test_without_the_extra_html_is_refused(
    server: Server, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    told = text_of(await fetch(server.add("/page", ARTICLE, "text/html")))
    assert told.startswith("error: HTML pages can't be read here")
    assert "pip install 'unspool[web]'" in told
    assert text_of(await fetch(server.add("/x", "# md", "text/markdown"))) == "# md"


async def test_a_long_text_is_read_in_parts(server: Server, fetch: Fetch) -> None:
    lines = "".join(f"line {n}\n" for n in range(10_000))
    url = server.add("/long", lines)
    read, offset = "", 0
    while True:
        result = await fetch(url, offset=offset)
        part, _, note = text_of(result).rpartition("\n[")
        read += part
        if "next: offset=" not in note:
            break
        assert part.endswith("\n"), "a part ends with a line"
        offset = int(note.removesuffix("]").rpartition("=")[2])
    assert read == lines
    assert note == f"characters {offset}-{len(lines)} of {len(lines)}, end of the text]"
    past = text_of(await fetch(url, offset=len(lines)))
    assert past == f"error: offset {len(lines)} is past the end: the text has {len(lines)} characters"
    assert text_of(await fetch(url, offset=-1)).startswith("error: offset must not be negative")
    assert text_of(await fetch(url, limit=12)) == "line 0\n\n[characters 0-7 of 98890; next: offset=7]"


KINDS = {  # content type, body: what is told
    "json": ("application/json", b'{"a": 1}', '{"a": 1}'),
    "json of a kind": ("application/problem+json; charset=utf-8", b"[]", "[]"),
    "xml": ("application/rss+xml", b"<rss/>", "<rss/>"),
    "no type, text": ("", b"hello", "hello"),
    "octets that are text": ("application/octet-stream", b"hello", "hello"),
    "empty": ("text/plain", b"", "[the answer is empty]"),
    "control characters": ("text/plain", b"a\x00b\x1b[31m", "is said to be text/plain, but is binary, 8 B"),
    "binary": ("application/octet-stream", b"\x00\x01\x02", "is application/octet-stream, 3 B: only text"),
    "zip": ("application/zip", b"PK" + bytes(2000), "is application/zip, 2.0 KB: only text"),
    "video": ("video/mp4", bytes(10), "is video/mp4, 10 B: only text"),
    "latin": ("text/plain; charset=iso-8859-1", b"\xe4", "ä"),
}


@pytest.mark.parametrize("case", KINDS)
async def test_content_types(server: Server, fetch: Fetch, case: str) -> None:
    kind, body, told = KINDS[case]
    text = text_of(await fetch(server.add("/x", body, kind)))
    assert told in text


async def test_images_and_pdfs_are_blocks(server: Server, fetch: Fetch) -> None:
    image = (await fetch(server.add("/i", PNG, "image/png"))).content
    assert isinstance(image, list)
    assert isinstance(image[1], Image)
    assert (image[0], image[1].mime_type) == (Text(text="image/png, 108 B"), "image/png")
    pdf = (await fetch(server.add("/d.pdf", b"%PDF-1.4 ...", ""))).content
    assert isinstance(pdf, list)
    assert isinstance(pdf[1], Document)
    assert (pdf[1].mime_type, pdf[1].name) == ("application/pdf", "/d.pdf")
    large = text_of(await fetch(server.add("/big", bytes(4_000_000), "image/png")))
    assert "is image/png and too large: 3.8 MB" in large


async def test_errors_of_the_server(server: Server, fetch: Fetch) -> None:
    server.pages["/gone"] = Page(b"it is\ngone", 410, {"Content-Type": "text/plain"})
    server.pages["/html"] = Page(b"<h1>no</h1>", 500, {"Content-Type": "text/html"})
    assert text_of(await fetch(f"{server.url}/gone?key=secret")) == (
        f"error: {server.url}/gone?… answers 410: it is gone"
    )
    assert text_of(await fetch(f"{server.url}/html")) == f"error: {server.url}/html answers 500"


# --- bounds ---


async def test_a_large_answer_is_cut(server: Server) -> None:
    fetch = fetcher(allow_private=["127.0.0.1"], max_bytes=1000)
    url = server.add("/big", "x" * 5000)
    assert text_of(await fetch(url)).endswith(
        "x\n[the answer is longer than 1000 B: its end was not fetched]"
    )
    assert "too large: more than 1000 B" in text_of(
        await fetch(server.add("/pdf", b"%PDF-" + bytes(5000), ""))
    )


async def test_an_answer_that_ends_too_early_is_no_answer(server: Server, fetch: Fetch) -> None:
    url = server.add("/x", gzip.compress(b"hello")[:-9], Content_Encoding="gzip")
    assert text_of(await fetch(url)) == "error: the server's answer is damaged: it ends too early"


async def test_a_bomb_is_cut(server: Server) -> None:
    fetch = fetcher(allow_private=["127.0.0.1"], max_bytes=100_000)
    bomb = gzip.compress(bytes(b"0123456789" * 5_000_000))
    url = server.add("/bomb", bomb, Content_Encoding="gzip")
    result = await fetch(url, offset=80_000)
    assert "[the answer is longer than 97.7 KB: its end was not fetched]" in text_of(result)
    assert result.details["bytes"] == 100_000


async def test_a_slow_answer_ends_in_time(server: Server) -> None:
    fetch = fetcher(allow_private=["127.0.0.1"], timeout_s=0.3)
    release = threading.Event()
    server.pages["/slow"] = Page(b"half of it comes", 200, {"Content-Type": "text/plain"}, release)
    try:
        assert text_of(await fetch(f"{server.url}/slow")).startswith(
            "error: the page did not come within 0.3 s"
        )
    finally:
        release.set()


# --- where it goes ---


async def test_only_allowed_addresses_are_asked(server: Server) -> None:
    fetch = fetcher()
    told = text_of(await fetch(server.add("/x", "secret")))
    assert (
        told
        == "error: 127.0.0.1 is 127.0.0.1, which is not an address of the public internet: it is not fetched"
    )
    for url in (f"http://localhost:{server.server_port}/x", f"http://0x7f.1:{server.server_port}/x"):
        assert text_of(await fetch(url)).startswith("error: ")
    assert server.requests == []


async def test_a_name_is_looked_up_once_and_that_address_asked(server: Server) -> None:
    names = Names(rebind_example=[["127.0.0.1"], ["10.0.0.1"]])
    fetch = fetcher(allow_private=["127.0.0.1"], resolve=names)
    server.add("/x", "hello")
    url = f"http://rebind.example:{server.server_port}/x"
    assert text_of(await fetch(url)) == "hello"
    assert names.asked == ["rebind.example"]
    host = server.requests[0][1]["Host"]
    assert host == f"rebind.example:{server.server_port}"
    assert "10.0.0.1, which is not an address of the public" in text_of(await fetch(url))
    assert len(server.requests) == 1


async def test_a_redirect_is_looked_up_and_checked_anew(server: Server) -> None:
    names = Names(rebind_example=[["127.0.0.1"], ["169.254.169.254"]])
    fetch = fetcher(allow_private=["127.0.0.1"], resolve=names)
    server.redirect("/a", "/b")
    server.add("/b", "secret")
    told = text_of(await fetch(f"http://rebind.example:{server.server_port}/a"))
    assert "169.254.169.254, which is not an address" in told
    assert [path for path, _ in server.requests] == ["/a"]


async def test_all_addresses_of_a_name_are_tried(server: Server) -> None:
    names = Names(two_example=[["127.0.0.2", "127.0.0.1"]])
    fetch = fetcher(allow_private=["127.0.0.0/8"], resolve=names)
    server.add("/x", "hello")
    assert text_of(await fetch(f"http://two.example:{server.server_port}/x")) == "hello"


async def test_nobody_there(server: Server) -> None:
    fetch = fetcher(allow_private=["127.0.0.1"], resolve=Names())
    told = text_of(await fetch("http://missing.example/?key=secret"))
    assert told == "error: the host missing.example can't be found: Name or service not known"
    port = server.server_port
    server.server_close()
    told = text_of(await fetch(f"http://127.0.0.1:{port}/?key=secret"))
    assert told.startswith(f"error: there is no connection to http://127.0.0.1:{port}/?…")
    assert "secret" not in told


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_on_the_host_are_followed(server: Server, fetch: Fetch, status: int) -> None:
    server.redirect("/a", "b?c=d", status)
    server.add("/b", "there")
    assert text_of(await fetch(f"{server.url}/a")) == "there"
    assert [path for path, _ in server.requests] == ["/a", "/b?c=d"]


async def test_redirects_are_counted(server: Server, fetch: Fetch) -> None:
    server.redirect("/loop", "/loop")
    assert "redirects more than 5 times" in text_of(await fetch(f"{server.url}/loop"))
    assert len(server.requests) == 6


async def test_another_host_is_told_and_not_asked(server: Server, fetch: Fetch) -> None:
    url = server.redirect("/go", "https://other.example/x?y=z")
    result = await fetch(url)
    assert text_of(result) == (
        f"{url} redirects to another host. To follow it, call fetch_url with: https://other.example/x?y=z"
    )
    assert result.details == {"status": 302, "redirect": "https://other.example/x?y=z"}


async def test_www_is_no_other_host(server: Server) -> None:
    names = Names(site_example=[["127.0.0.1"]], www_site_example=[["127.0.0.1"]])
    fetch = fetcher(allow_private=["127.0.0.1"], resolve=names)
    server.redirect("/a", f"http://www.site.example:{server.server_port}/b")
    server.add("/b", "there")
    assert text_of(await fetch(f"http://site.example:{server.server_port}/a")) == "there"


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "http://user:pw@127.0.0.1/", "gopher://x/", "//a\\b/", "http://a:99999999/"],
)
async def test_redirects_to_nowhere(server: Server, fetch: Fetch, location: str) -> None:
    told = text_of(await fetch(server.redirect("/a", location)))
    assert told.startswith(f"error: {server.url}/a redirects to where nothing is fetched: ")


async def test_the_environment_has_no_say(
    server: Server, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert text_of(await fetch(server.add("/x", "direct"))) == "direct"


async def test_what_a_url_says_is_in_no_log(
    server: Server, fetch: Fetch, caplog: pytest.LogCaptureFixture
) -> None:
    """httpx logs each URL as information, its query included; what others ask by it is logged as before."""
    url = server.add("/x", "hello")
    with caplog.at_level("DEBUG"):
        results = [await fetch(f"{url}?key=canary"), await fetch(f"{url}y?key=canary")]
        assert "canary" not in f"{caplog.text}{results}"
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get(f"{url}?by=others")
    assert "by=others" in caplog.text


async def test_no_cookies_and_no_referer(server: Server, fetch: Fetch) -> None:
    server.redirect("/a", "/b").strip()
    server.pages["/a"].headers["Set-Cookie"] = "session=1"
    server.add("/b", json.dumps("x"))
    await fetch(f"{server.url}/a")
    sent = {name.lower() for _, headers in server.requests for name in headers}
    assert sent == {"host", "user-agent", "accept", "accept-encoding", "connection"}


# --- TLS ---


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for ``site.example`` that is its own authority, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    key = path.with_name("key.pem")
    made = ["-keyout", str(key), "-out", str(path), "-subj", "/CN=site.example"]
    options = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-addext",
        "subjectAltName=DNS:site.example",
    ]
    subprocess.run(["openssl", *options, *made], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + key.read_bytes())
    return path


@pytest.fixture
def tls_server(server: Server, certificate: Path) -> Iterator[Callable[[str], str]]:
    """Makes URLs of a host whose server speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    plain = server.socket
    server.socket = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
    yield lambda host: f"https://{host}:{server.server_port}/x"
    server.socket.close()


async def test_certificates_are_checked_for_the_name(
    server: Server, tls_server: Callable[[str], str], certificate: Path
) -> None:
    server.add("/x", "over tls")
    names = Names(site_example=[["127.0.0.1"]], other_example=[["127.0.0.1"]])
    trusting = ssl.create_default_context(cafile=str(certificate))
    fetch = fetcher(allow_private=["127.0.0.1"], resolve=names, verify=trusting)
    assert text_of(await fetch(tls_server("site.example"))) == "over tls"
    assert "certificate verify failed: Hostname mismatch" in text_of(await fetch(tls_server("other.example")))
    assert "certificate verify failed" in text_of(await fetch(tls_server("127.0.0.1")))
    strict = fetcher(allow_private=["127.0.0.1"], resolve=names)
    assert "certificate verify failed: self-signed" in text_of(await strict(tls_server("site.example")))


async def test_https_is_not_left_for_http(
    server: Server, tls_server: Callable[[str], str], certificate: Path
) -> None:
    server.redirect("/x", "http://site.example/secret")
    trusting = ssl.create_default_context(cafile=str(certificate))
    names = Names(site_example=[["127.0.0.1"]])
    fetch = fetcher(allow_private=["127.0.0.1"], resolve=names, verify=trusting)
    assert "redirects from https to http, which is not followed" in text_of(
        await fetch(tls_server("site.example"))
    )


# --- the tool ---


async def test_it_is_a_good_tool() -> None:
    spec = fetch_url_tool().spec
    assert (spec.name, spec.read_only, spec.open_world, spec.destructive) == ("fetch_url", True, True, False)
    assert spec.schema["required"] == ["url"]
    assert set(spec.schema["properties"]) == {"url", "offset", "limit"}


def test_importing_it_loads_neither_extractor_nor_client() -> None:
    code = "import sys, unspool.tools.web; sys.exit(bool({'trafilatura', 'httpx'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_it_keeps_to_the_protocol_of_tools(server: Server) -> None:
    await check_tool(
        lambda: fetch_url_tool(allow_private=["127.0.0.1"]),
        args={"url": server.add("/x", "hello")},
        bad_args=[{}, {"url": 3}, {"url": "http://a/", "offset": "x"}],
        failing_args=[{"url": "http://10.0.0.1/"}, {"url": f"{server.url}/gone"}],
    )
