"""Addresses, ports and who is let in."""

from __future__ import annotations

import socket

import pytest

from tuner.records.farm.model_farm import Role
from webui.errors import WebStartError
from webui.serving.guard import _host_name
from webui.serving.server import WebOptions, allowed_hosts, bind, is_loopback, role_without_token, url


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_guard(host: str) -> None:
    assert is_loopback(host)
    assert role_without_token(WebOptions(db="x", host=host), has_tokens=True) is Role.ADMIN
    assert role_without_token(WebOptions(db="x", host=host, require_token=True), has_tokens=True) is None
    assert role_without_token(WebOptions(db="x", host=host, tokens=("t",)), has_tokens=False) is None
    hosts = allowed_hosts(WebOptions(db="x", host=host))
    assert hosts is not None
    assert "localhost" in hosts


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "box.example"])
def test_other_addresses_need_tokens_or_a_clear_word(host: str) -> None:
    with pytest.raises(WebStartError, match="other machines") as caught:
        role_without_token(WebOptions(db="x", host=host), has_tokens=False)
    assert "--insecure" in (caught.value.hint or "")
    assert role_without_token(WebOptions(db="x", host=host, insecure=True), has_tokens=False) is Role.READ
    assert role_without_token(WebOptions(db="x", host=host, insecure=True), has_tokens=True) is None
    assert role_without_token(WebOptions(db="x", host=host), has_tokens=True) is None
    assert role_without_token(WebOptions(db="x", host=host, tokens=("t",)), has_tokens=False) is None
    assert allowed_hosts(WebOptions(db="x", host=host, insecure=True)) is None


def test_a_port_in_use_is_said_so() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(WebStartError, match=f"port {port} on 127.0.0.1 is in use") as caught:
            bind("127.0.0.1", port)
        assert "--port" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("host", "port", "said"),
    [
        ("127.0.0.1", 70000, "no port"),
        ("203.0.113.7", 0, "no address of this machine"),
        ("no.such.invalid", 0, "no known"),
    ],
)
def test_addresses_that_cannot_be(host: str, port: int, said: str) -> None:
    with pytest.raises(WebStartError, match=said):
        bind(host, port)


def test_urls() -> None:
    assert url("127.0.0.1", 9180) == "http://127.0.0.1:9180"
    assert url("::1", 9180) == "http://[::1]:9180"


@pytest.mark.parametrize(
    ("header", "name"),
    [("127.0.0.1:9180", "127.0.0.1"), ("LocalHost", "localhost"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("", "")],
)
def test_host_headers(header: str, name: str) -> None:
    assert _host_name(header) == name


def test_sockets_are_listening() -> None:
    with bind("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname(), 5):
        pass
