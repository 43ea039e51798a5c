"""The farm's programs under TVM's names become `tunefarm` commands."""

from __future__ import annotations

import socket
from types import ModuleType

import pytest

from rpc_server.errors import ServerStartError
from tests.kit.ports import free_port
from tunefarm.exec import options, popen_worker, rpc_proxy, rpc_server, rpc_tracker


def test_a_tracker_s_options() -> None:
    assert rpc_tracker.command(["--port", "0", "--silent"]) == ["tracker", "--host", "127.0.0.1", "--port", "0"]


def test_a_server_s_options() -> None:
    given = ["--port", "0", "--tracker", "127.0.0.1:9190", "--key", "board", "--no-fork", "--custom-addr", "board.lab"]
    assert rpc_server.command(given) == [
        "server", "--host", "127.0.0.1", "--port", "0", "--tracker", "127.0.0.1:9190", "--key", "board",
        "--address", "board.lab",
    ]  # fmt: skip


def test_the_next_free_port_is_taken() -> None:
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert port < options.free_port("127.0.0.1", port, port + 50) < port + 50
        with pytest.raises(ServerStartError, match=f"from {port} to {port}"):
            options.free_port("127.0.0.1", port, port)


def test_a_server_behind_a_proxy() -> None:
    given = ["--host", "lab", "--port", "9090", "--key", "board", "--through-proxy"]
    assert rpc_server.command(given) == [
        "server", "--host", "127.0.0.1", "--port", "0", "--relay", "lab:9090", "--key", "board",
    ]  # fmt: skip
    assert rpc_proxy.command(["--port", "0", "--example-rpc"]) == ["relay", "--host", "127.0.0.1", "--port", "0"]


@pytest.mark.parametrize(
    ("program", "flags"), [(rpc_server, ["--load-library", "a.so"]), (rpc_proxy, ["--web-port", "8888"])]
)
def test_what_has_no_counterpart_is_refused(
    program: ModuleType, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        program.command(flags)
    assert "tunefarm" in capsys.readouterr().err


def test_a_pool_s_worker_says_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert popen_worker.answer([]) == 0
    assert capsys.readouterr().out == "Usage: <read_fd> <write_fd>\n"
    assert popen_worker.answer(["3", "4"]) == 2
    assert "PopenWorker" in capsys.readouterr().err
