"""A private server that is killed is started again: a run goes on."""

from __future__ import annotations

import os
import signal
import time

import pytest

from rpc_server.errors import ServerStartError
from tuner.devices import supplies
from tuner.devices.supplies import LocalFleet


def kill(fleet: LocalFleet) -> None:
    os.kill(fleet._server.pid, signal.SIGKILL)
    while fleet._server.is_alive:
        time.sleep(0.01)


def test_a_killed_private_server_is_started_again():
    fleet = LocalFleet()
    try:
        fleet.open(0, 60).close()
        before = fleet._server.pid
        kill(fleet)
        session = fleet.open(0, 60)
        assert session.device().fingerprint.device_class
        assert fleet._server.pid != before
        session.close()
    finally:
        fleet.close()
    assert not fleet._server.is_alive


def test_not_for_ever(monkeypatch):
    monkeypatch.setattr(supplies, "_MOST_STARTS", 1)
    fleet = LocalFleet()
    try:
        kill(fleet)
        fleet.open(0, 60).close()
        kill(fleet)
        with pytest.raises(ServerStartError, match="died 1 times"):
            fleet.open(0, 60)
    finally:
        fleet.close()
