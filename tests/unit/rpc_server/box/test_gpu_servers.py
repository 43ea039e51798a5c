"""A server for each GPU: what each is told, when one is started again."""

from __future__ import annotations

import pytest

from rpc_server.box import gpu_servers as gpu_servers
from rpc_server.box.gpu_servers import MOST_DELAY_S, STEADY_S, Backoff, serve_all, shares
from rpc_server.box.server_options import ServerOptions
from rpc_server.errors import ServerStartError

UUIDS = ("GPU-a", "MIG-b", "MIG-c")


def test_what_each_server_is_told() -> None:
    options = ServerOptions(port=9100, name="box", key="gpu", memory_limit=0, disk_limit=9, port_file="ports")
    told = shares(options, UUIDS)
    assert [(each.gpu, each.port, each.name) for each in told] == [
        ("GPU-a", 9100, "box/0"), ("MIG-b", 9101, "box/1"), ("MIG-c", 9102, "box/2"),
    ]  # fmt: skip
    assert {(each.key, each.memory_limit, each.disk_limit, each.port_file) for each in told} == {("gpu", 0, 9, "")}
    assert {each.port for each in shares(ServerOptions(port=0), UUIDS)} == {0}


def test_memory_and_disk_are_shared_out() -> None:
    [alone], three = shares(ServerOptions(), UUIDS[:1]), shares(ServerOptions(), UUIDS)
    assert {each.memory_limit for each in three} == {alone.memory_limit // 3}
    assert sum(each.disk_limit for each in three) > 0


def test_a_server_that_ends_soon_is_started_later_each_time() -> None:
    backoff = Backoff()
    assert [backoff.after(0.1) for _ in range(4)] == [1, 2, 4, 8]
    assert [backoff.after(0.1) for _ in range(4)][-1] == MOST_DELAY_S
    assert backoff.after(STEADY_S) == 1
    assert backoff.after(0.1) == 2


def test_a_machine_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_servers, "gpus_here", lambda: ())
    with pytest.raises(ServerStartError, match="no GPUs here that nvidia-smi lists"):
        serve_all(ServerOptions(port=0))


def test_a_mistake_of_all_servers_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_servers, "gpus_here", lambda: UUIDS[:2])
    with pytest.raises(ServerStartError, match="refusing to listen on"):
        serve_all(ServerOptions(host="0.0.0.0", port=0))
