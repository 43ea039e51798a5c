"""Requests of clients that belong to a group, at the tracker's gate."""

from __future__ import annotations

from pathlib import Path

import pytest
import zmq

from rpc_server.errors import KeyFileError, NotPermitted
from rpc_server.wire.keys import KeyRing, KeyRole
from rpc_server.wire.tracker_messages import RequestDevice
from tests.kit.cli.run import run_cli
from tracker.capability import parse_capability
from tracker.message_rights import MessageRights


def test_a_group_gets_its_devices_only(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "tracker")
    key = KeyRing(tmp_path / "bob").create_identity("bob").public
    free = KeyRing(tmp_path / "ann").create_identity("ann").public
    ring.authorize(key, KeyRole.CLIENT, "bob", "students")
    ring.authorize(free, KeyRole.CLIENT, "ann")
    asks = key

    def expr(asked: str) -> str:
        rights = MessageRights(lambda _: ring.authorized()[asks], ring.authorized, ring.groups)
        message = rights.permit(RequestDevice(peer="p", request="r", user="root", expr=asked), zmq.Frame(b""))
        assert isinstance(message, RequestDevice)
        parse_capability(message.expr)
        return message.expr

    with pytest.raises(NotPermitted, match="group students, which has no devices"):
        expr("cpu")
    ring.set_group("students", "teaching  threads<=4")
    assert expr("cpu") == "cpu teaching threads<=4"
    assert expr("*") == "teaching threads<=4"
    assert expr("device=box1:9091/0") == "device=box1:9091/0 teaching threads<=4"
    asks = free
    assert expr("cpu") == "cpu"
    assert {p.name for p in ring.revoke("@students")} == {"bob"}
    with pytest.raises(KeyFileError):
        ring.authorize(free, KeyRole.BOX, "box1", "students")
    with pytest.raises(KeyFileError):
        ring.set_group("students", "a\nadmin tfKEY eve")


def test_groups_at_the_command_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNEFARM_KEYS", str(tmp_path / "keys"))
    key = KeyRing(tmp_path / "bob").create_identity("bob").public
    said = run_cli(capfd, "keys", "authorize", key, "--role", "client", "--name", "bob", "--group", "students")
    assert "tunefarm keys group students EXPR" in said.err
    assert run_cli(capfd, "keys", "group", "students", "cpu|gpu").code == 1
    assert run_cli(capfd, "keys", "group", "students", "teaching").code == 0
    assert "teaching" in run_cli(capfd, "keys", "list").out
    assert run_cli(capfd, "keys", "group", "students", "--remove").code == 0
    assert run_cli(capfd, "keys", "group", "students").code == 2
