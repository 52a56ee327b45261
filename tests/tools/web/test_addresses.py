"""Which URLs are refused before anything is sent, and which addresses are public."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.kernel.errors import ToolDefinitionError, ToolError
from unspool.tools.web.addresses import AddressPolicy, literal_addresses, parse_url

# what looks like a way to this host, its network or its cloud; all are refused
ATTACKS = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0X7F.0.0.1/",
    "http://0177.0.0.1/",
    "http://127.000.000.001/",
    "http://127.0.0.1./",
    "http://127.255.255.254/",
    "http://0/",
    "http://0.0.0.0/",
    "http://0.1.2.3/",
    "http://localhost/",
    "http://LOCALHOST/",
    "http://localhost./",
    "http://a.localhost/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://①②⑦.0.0.1/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://100.100.100.200/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/v2/credentials",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://168.63.129.16/",
    "http://192.0.0.192/opc/v2/",
    "http://192.0.2.1/",
    "http://192.88.99.1/",
    "http://198.18.0.1/",
    "http://203.0.113.9/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001::1]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[2001:db8::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[100::1]/",
    "http://[3fff::1]/",
    "http://[5f00::1]/",
]

NOT_READ = {  # URLs that are not fetched wherever they lead
    "file:///etc/passwd": "only http:// and https://",
    "gopher://example.com/": "only http:// and https://",
    "ftp://example.com/": "only http:// and https://",
    "dict://example.com:11211/stat": "only http:// and https://",
    "data:text/plain,hi": "only http:// and https://",
    "//example.com/": "only http:// and https://",
    "example.com": "only http:// and https://",
    "": "only http:// and https://",
    " http://example.com/": "only http:// and https://",
    "http:example.com": "not a valid URL",
    "http:///etc/passwd": "not a valid URL",
    "http://user@example.com/": "user name",
    "http://user:secret@example.com/": "user name",
    "http://example.com@127.0.0.1/": "user name",
    "http://127.0.0.1\\@example.com/": "user name",
    "http://example.com\\.evil.example/": "not a valid URL",
    "http://exa mple.com/": "not a valid URL",
    "http://example.com/a b": "not a valid URL",
    "http://example.com/\r\nHost: evil": "not a valid URL",
    "http://example.com/\u202e": "not a valid URL",
    "http://127.0.0.1%00.example.com/": "not a valid URL",
    "http://%6c%6f%63alhost/": "not a valid URL",
    "http://[fe80::1%25eth0]/": "not a valid URL",
    "http://[::1%lo]/": "not a valid URL",
    "http://[::1/": "not a valid URL",
    "http://1.2.3.4.5/": "not a valid URL",
    "http://256.1.1.1/": "not a valid URL",
    "http://0x7f.0x.zz.1/": "not a valid URL",
    "http://example..com/": "not a valid URL",
    "http://-example.com/": "not a valid URL",
    "http://example.com:22/": "port 22",
    "http://example.com:25/": "port 25",
    "http://example.com:0/": "port 0",
    "http://example.com:6379/": "port 6379",
    "http://example.com:11211/": "port 11211",
    "http://example.com:65536/": "not a valid URL",
    "http://example.com:-1/": "not a valid URL",
    "http://example.com/" + "a" * 9000: "too long",
}

FINE = {  # the URL that is asked
    "https://example.com": "https://example.com/",
    "HTTPS://EXAMPLE.com./a?b=c#d": "https://example.com/a?b=c",
    "http://example.com:80/": "http://example.com/",
    "http://example.com:8080/x": "http://example.com:8080/x",
    "https://8.8.8.8/": "https://8.8.8.8/",
    "https://134744072/": "https://8.8.8.8/",
    "https://[2606:4700::1111]/": "https://[2606:4700::1111]/",
    "https://[2606:4700::1111]:8443/": "https://[2606:4700::1111]:8443/",
    "https://münchen.example/ü?q=ä": "https://xn--mnchen-3ya.example/ü?q=ä",
    "https://аррӏе.com/": "https://xn--80ak6aa92e.com/",
    "https://example.com/?next=http://127.0.0.1/@x": "https://example.com/?next=http://127.0.0.1/@x",
}


def test_the_table_is_long_enough() -> None:
    assert len(ATTACKS) + len(NOT_READ) >= 100


@pytest.mark.parametrize("url", ATTACKS)
def test_addresses_that_are_not_public(url: str) -> None:
    target = parse_url(url)
    found = literal_addresses(target.host)
    assert found, "an address in any spelling is known as one, and not looked up as a name"
    with pytest.raises(ToolError, match="not an address of the public internet"):
        AddressPolicy().checked(target, found)


@pytest.mark.parametrize(("url", "why"), NOT_READ.items())
def test_urls_that_are_not_fetched(url: str, why: str) -> None:
    with pytest.raises(ToolError, match=why) as caught:
        parse_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("url", "asked"), FINE.items())
def test_urls_that_are_fetched(url: str, asked: str) -> None:
    target = parse_url(url)
    assert target.url == asked
    found = literal_addresses(target.host)
    assert found is None or AddressPolicy().checked(target, found)


def test_the_values_of_a_query_are_not_told() -> None:
    assert parse_url("https://example.com/a?token=secret").told == "https://example.com/a?…"


def test_one_bad_address_among_good_ones_is_enough() -> None:
    target = parse_url("https://example.com/")
    with pytest.raises(ToolError, match=r"10\.0\.0\.1"):
        AddressPolicy().checked(target, ["8.8.8.8", "10.0.0.1"])
    with pytest.raises(ToolError, match="public internet"):
        AddressPolicy().checked(target, ["fe80::1%eth0"])
    with pytest.raises(ToolError, match="there is no host"):
        AddressPolicy().checked(target, [])


def test_networks_are_allowed_by_name_only() -> None:
    policy = AddressPolicy(["127.0.0.1", "10.1.0.0/16", "fd00::/8"])
    allowed = ["127.0.0.1", "10.1.2.3", "fd12::1", "::ffff:127.0.0.1"]
    refused = ["127.0.0.2", "10.2.0.1", "fe80::1", "169.254.169.254"]
    assert not any(policy.refuses(ipaddress.ip_address(text)) for text in allowed)
    assert all(policy.refuses(ipaddress.ip_address(text)) for text in refused)
    with pytest.raises(ToolDefinitionError, match="localhost"):
        AddressPolicy(["localhost"])


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_nothing_that_python_calls_private_passes(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if not AddressPolicy().refuses(address):
        in_nat64 = address in ipaddress.ip_network("64:ff9b::/96") if address.version == 6 else False
        assert in_nat64 or address.is_global
        assert not (address.is_private or address.is_loopback or address.is_link_local)
        assert not (address.is_multicast or address.is_unspecified)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_inside_ipv6_is_judged_as_itself(address: ipaddress.IPv4Address) -> None:
    policy = AddressPolicy()
    for prefix in (0xFFFF << 32, 0x64FF9B << 96):
        inside = ipaddress.IPv6Address(prefix + int(address))
        assert policy.refuses(inside) == policy.refuses(address)
    for prefix in (0, 0x2002 << 112):  # "compatible", 6to4
        assert policy.refuses(ipaddress.IPv6Address(prefix + int(address)))


@given(st.ip_addresses(v=4), st.sampled_from(["{0}", "0x{0:x}", "0{0:o}", "{1}.{2}", "0x{1:x}.0{2:o}"]))
def test_every_spelling_of_an_address_is_that_address(address: ipaddress.IPv4Address, form: str) -> None:
    number = int(address)
    text = form.format(number, number >> 24, number & 0xFFFFFF)
    assert parse_url(f"http://{text}/").host == str(address)


@given(st.text(max_size=40))
def test_any_text_is_a_target_or_an_error_for_the_model(text: str) -> None:
    for url in (text, f"http://{text}/"):
        try:
            target = parse_url(url)
        except ToolError:
            continue
        assert target.url.startswith(("http://", "https://"))
