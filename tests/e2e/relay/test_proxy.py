"""Boxes that no tracker lends, behind a relay: clients reach them by the key that they serve."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.runtime.core import ndarray as nd
from rpc_server.client import dial
from rpc_server.errors import ConnectError, ServerStartError
from rpc_server.wire.keys import KeyRing, KeyRole
from tests.kit.farm.rpc_kernels import kernel
from tunefarm import rpc
from tunefarm.rpc.proxy import Proxy, websocket_proxy_server


def use(remote: rpc.RPCSession) -> None:
    remote.upload(kernel("add_one").to_bytes(), "k.tunefarm")
    add_one = remote.load_module("k.tunefarm")["kernel"]
    a, b = (nd.array(np.full(1024, i, np.float32), remote.cpu()) for i in range(2))
    add_one(a, b)
    np.testing.assert_array_equal(b.numpy(), 1.0)


def test_a_box_is_found_by_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy("127.0.0.1", 0) as proxy:
        with rpc.Server("127.0.0.1", proxy.port, key="board", is_proxy=True, silent=True) as server:
            assert server.port != proxy.port
            # The box may not have registered yet: clients wait for it.
            with rpc.connect("127.0.0.1", proxy.port, key="board", session_timeout=60) as remote:
                use(remote)
                assert remote._channel.lane is None, "everything goes through the relay"
            with rpc.connect("127.0.0.1", server.port, key="board") as direct:
                assert direct.box
        monkeypatch.setattr(dial, "_LOOK_AGAIN_S", 100.0)
        with pytest.raises(ConnectError, match="no box behind this relay serves the key 'other'"):
            rpc.connect("127.0.0.1", proxy.port, key="other")
        with pytest.raises(ConnectError):
            rpc.connect("127.0.0.1", proxy.port)


def test_with_keys_the_box_proves_who_it_is(tmp_path: Path) -> None:
    rings = {name: KeyRing(f"{tmp_path}/{name}") for name in ("relay", "board", "ann", "mallory")}
    public = {name: ring.create_identity(name).public for name, ring in rings.items()}
    rings["relay"].authorize(public["board"], KeyRole.BOX, "board")
    rings["board"].authorize(public["ann"], KeyRole.CLIENT, "ann")
    with rpc.Relay(keys=f"{tmp_path}/relay") as relay:
        place = f"127.0.0.1:{relay.port}"
        rings["board"].trust(place, public["relay"])
        for name in ("ann", "mallory"):
            rings[name].trust(place, public["board"])
        with rpc.Server(
            "127.0.0.1", relay.port, key="board", is_proxy=True, keys=f"{tmp_path}/board", name="board", silent=True
        ):
            with rpc.connect("127.0.0.1", relay.port, key="board", keys=rings["ann"]) as remote:
                use(remote)
            with pytest.raises(ConnectError, match="does not know this machine's key"):
                rpc.connect("127.0.0.1", relay.port, key="board", keys=rings["mallory"])


def test_what_a_proxy_does_not_do() -> None:
    with pytest.raises(ServerStartError, match="no web pages"):
        Proxy("127.0.0.1", 0, web_port=8888)
    with pytest.raises(ServerStartError, match="web socket"):
        websocket_proxy_server("ws://localhost:8888/ws", "board")


def test_the_first_free_port_of_a_range() -> None:
    with Proxy("127.0.0.1", 0) as first, Proxy("127.0.0.1", first.port, first.port + 40) as second:
        assert first.port < second.port < first.port + 40
        with pytest.raises(ServerStartError, match="in use"):
            Proxy("127.0.0.1", first.port, first.port + 1)
