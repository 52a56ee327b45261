"""One spelling for each host, whatever tricks its URL plays."""

import pytest

from unspool.tools.permissions import HostPattern, canonical_host, host_of

URLS = {
    "http://example.com": "example.com",
    "https://EXAMPLE.Com.": "example.com",
    "https://example.com:8443/a?b#c": "example.com",
    "https://example.com?x=@evil.org": "example.com",
    "HTTPS://Example.com/": "example.com",
    "http://127.0.0.1/": "127.0.0.1",
    "http://127.1/": "127.0.0.1",
    "http://0x7f.1/": "127.0.0.1",
    "http://0177.0.0.1/": "127.0.0.1",
    "http://2130706433/": "127.0.0.1",
    "http://0x7f000001": "127.0.0.1",
    "http://[::1]:80/": "::1",
    "http://[::ffff:127.0.0.1]/": "127.0.0.1",
    "http://[0:0:0:0:0:0:0:1]/": "::1",
    "http://bücher.example/": "xn--bcher-kva.example",
    "http://xn--bcher-kva.example/": "xn--bcher-kva.example",
    "http://ＥＸＡＭＰＬＥ.com/": "example.com",
    "http://example。com/": "example.com",
    "http://①②⑦.0.0.1/": "127.0.0.1",
    # what two parsers may read in two ways has no host
    "http://good.com@evil.org/": None,
    "http://good.com\\@evil.org/": None,
    "http://good.com\\.evil.org/": None,
    "http:/good.com": None,
    "http:///good.com": None,
    "//good.com": None,
    "http://good.com%2eevil.org": None,
    "http://good.com evil.org": None,
    "http://good.com\t.evil.org": None,
    " http://good.com": None,
    "http://good.com\n": None,
    "http://[::1%25eth0]/": None,
    "http://[::1]evil.org/": None,
    "http://1.2.3.4.5/": None,
    "http://256.0.0.1/": None,
    "http://0x/": "0.0.0.0",
    "http://a..b/": None,
    "http://-a.com/": None,
    "http://" + "a" * 64 + ".com/": None,
    "file:///etc/passwd": None,
    "javascript:alert(1)": None,
    "": None,
}


@pytest.mark.parametrize(("url", "host"), URLS.items())
def test_a_url_names_one_host_or_none(url: str, host: str | None) -> None:
    assert host_of(url) == host


PATTERNS = [
    ("*", "anything.example", True),
    ("github.com", "github.com", True),
    ("github.com", "api.github.com", False),
    ("*.github.com", "api.github.com", True),
    ("*.github.com", "a.b.github.com", True),
    ("*.github.com", "github.com", True),
    ("*.github.com", "evilgithub.com", False),
    ("*.github.com", "github.com.evil.org", False),
    ("GitHub.com.", "github.com", True),
    ("bücher.example", "xn--bcher-kva.example", True),
    ("127.0.0.1", "127.0.0.1", True),
    ("127.1", "127.0.0.1", True),
    ("::1", "::1", True),
    ("[::1]", "::1", True),
]


@pytest.mark.parametrize(("pattern", "host", "matches"), PATTERNS)
def test_a_pattern_is_any_host_one_or_a_suffix(pattern: str, host: str, matches: bool) -> None:
    assert HostPattern(pattern).matches(host) is matches


@pytest.mark.parametrize(
    "pattern",
    ["", "https://a.com", "a.com:80", "a.com/x", "*a.com", "a.*", "*.*.com", "*.", "*.1.2.3.4", "a b"],
)
def test_what_is_no_host_is_an_error(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"no host|no names"):
        HostPattern(pattern)


def test_the_spelling_of_a_host_is_stable() -> None:
    for host in filter(None, URLS.values()):
        assert canonical_host(host) == host
