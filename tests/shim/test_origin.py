# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_shim import origin
from history_delta_shim.origin import Origin


@pytest.mark.parametrize(
    ("text", "parsed", "url"),
    [
        ("http://127.0.0.1:8000", Origin("http", "127.0.0.1", 8000), "http://127.0.0.1:8000"),
        ("HTTPS://Model.Example/", Origin("https", "model.example", 443), "https://model.example"),
        ("http://gw:80", Origin("http", "gw", 80), "http://gw"),
        ("https://gw:80", Origin("https", "gw", 80), "https://gw:80"),
        ("http://[::1]:81", Origin("http", "::1", 81), "http://[::1]:81"),
        ("http://[::1]", Origin("http", "::1", 80), "http://[::1]"),
    ],
)
def test_an_origin_is_scheme_host_and_port(text, parsed, url):
    assert origin.parse_origin(text) == parsed
    assert origin.url(parsed) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gw:80",
        "ftp://gw",
        "http://",
        "http://gw/v1",
        "http://u:p@gw",
        "http://gw:0",
        "http://gw:65536",
        "http://gw\n",
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        origin.parse_origin(text)


@pytest.mark.parametrize("text", ["8000", ":8000", "h:65536", "h:x", "::1:80", "http://h:1"])
def test_a_listening_address_is_host_and_port(text):
    assert origin.parse_host_port("[::1]:0") == ("::1", 0)
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        origin.parse_host_port(text)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("localhost", True),
        ("a.localhost", True),
        ("::1", True),
        ("128.0.0.1", False),
        ("127.0.0.1.example", False),
        ("127.example", False),
        ("localhost.example", False),
    ],
)
def test_which_hosts_are_this_machine(host, expected):
    assert origin.is_loopback(host) is expected
