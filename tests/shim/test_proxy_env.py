# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_shim.origin import parse_origin
from history_delta_shim.proxy_env import Proxy, proxy_for

PROXY = {"http_proxy": "http://proxy:3128", "https_proxy": "http://secure:3128"}


def proxy(url, **environ):
    return proxy_for(parse_origin(url), environ)


def test_each_scheme_has_its_own_proxy():
    assert proxy("http://model", **PROXY) == Proxy("proxy", 3128, None)
    assert proxy("https://model", **PROXY) == Proxy("secure", 3128, None)
    assert proxy("https://model", http_proxy="http://proxy:3128") is None


def test_a_lower_case_name_goes_first():
    assert proxy("http://model", HTTP_PROXY="a:1") == Proxy("a", 1, None)
    assert proxy("http://model", HTTP_PROXY="a:1", http_proxy="b:2") == Proxy("b", 2, None)


def test_credentials_are_decoded_and_ports_have_a_default():
    assert proxy("http://model", http_proxy="http://us%40er:p%3Aw@[::2]/") == Proxy("::2", 80, "Basic dXNAZXI6cDp3")


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://localhost", "http://[::1]:8", "https://a.localhost"])
def test_this_machine_is_never_reached_through_a_proxy(url):
    assert proxy(url, **PROXY) is None


@pytest.mark.parametrize(
    ("no_proxy", "excluded"),
    [
        ("*", True),
        ("model.example", True),
        ("example", True),
        (".example", True),
        ("*.example", True),
        ("other, model.example", True),
        ("MODEL.example", True),
        ("model.example:8000", True),
        ("model.example:8001", False),
        ("odel.example", False),
        ("model", False),
        ("", False),
        (" , ", False),
    ],
)
def test_no_proxy_takes_hosts_out(no_proxy, excluded):
    assert (proxy("http://model.example:8000", no_proxy=no_proxy, **PROXY) is None) is excluded


@pytest.mark.parametrize(
    ("no_proxy", "excluded"),
    [
        ("10.0.0.0/8", True),
        ("10.1.2.3", True),
        ("10.1.2.3:8000", True),
        ("11.0.0.0/8", False),
        ("x/8", False),
        ("fd00::/8", False),
    ],
)
def test_no_proxy_takes_networks_out(no_proxy, excluded):
    assert (proxy("http://10.1.2.3:8000", NO_PROXY=no_proxy, **PROXY) is None) is excluded


def test_no_proxy_takes_ipv6_addresses_out():
    assert proxy("http://[fd00::5]:8000", no_proxy="[fd00::5]:8000", **PROXY) is None
    assert proxy("http://[fd00::5]:8000", no_proxy="fd00::5", **PROXY) is None


@pytest.mark.parametrize("value", ["https://proxy:1", "socks5://proxy:1", "http://proxy:70000", "http://user:secret@"])
def test_another_kind_of_proxy_is_refused_without_telling_its_password(value):
    with pytest.raises(ValueError, match="HTTP_PROXY: expected") as error:
        proxy("http://model", http_proxy=value)
    assert "secret" not in str(error.value)
