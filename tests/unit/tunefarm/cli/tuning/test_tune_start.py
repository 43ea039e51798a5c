"""`tunefarm tune` before anything runs, while its private server still starts."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.kit.cli.run import run_cli
from tuner.devices.private_server import PrivateServer

TUNE = ("tune", "matmul:16,16,16:float32", "--trials", "2", "--quiet")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[PrivateServer]:
    """The private servers that are started; none of them is waited for."""
    servers = []
    init = PrivateServer.__init__

    def begin(self: PrivateServer, gpu: str = "") -> None:
        init(self, gpu)
        servers.append(self)

    def wait(_self: PrivateServer) -> int:
        raise AssertionError("the server was waited for")

    monkeypatch.setattr(PrivateServer, "__init__", begin)
    monkeypatch.setattr(PrivateServer, "port", property(wait))
    return servers


def folder(path: Path) -> str:
    path.mkdir()
    return "is a folder"


def text(path: Path) -> str:
    path.write_text("no database\n" * 100)
    return "not a database"


def other_tables(path: Path) -> str:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('9999')")
    connection.close()
    return "9999"


@pytest.mark.parametrize("make", [folder, text, other_tables])
def test_a_store_that_cannot_be_used_is_told_before_the_server_is_up(make, tmp_path, started, capfd):
    message = make(tmp_path / "records.db")
    outcome = run_cli(capfd, *TUNE, "--db", str(tmp_path / "records.db"))
    assert (outcome.code, outcome.out) == (1, "")
    assert message in outcome.err
    [server] = started
    assert not server.is_alive


def test_a_workload_that_does_not_parse_is_told_before_the_server_is_up(started, capfd):
    outcome = run_cli(capfd, "tune", "matmul:sixteen")
    assert outcome.code == 1
    assert "matmul" in outcome.err
    [server] = started
    assert not server.is_alive


@pytest.mark.parametrize("flags", [["--device", "127.0.0.1:1"], ["--key", "cpu"], ["--tracker", "127.0.0.1:1"]])
def test_no_private_server_starts_where_devices_are_named(flags, started, tmp_path, capfd):
    folder(tmp_path / "records.db")
    assert run_cli(capfd, *TUNE, "--db", str(tmp_path / "records.db"), *flags).code == 1
    assert started == []
