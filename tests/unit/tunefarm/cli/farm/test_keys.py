"""`tunefarm keys`, as a user meets it."""

import json

import pytest

from rpc_server.wire.keys import KeyRing
from tests.kit.cli.run import run_cli


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNEFARM_KEYS", str(tmp_path / "keys"))
    return tmp_path / "keys"


def run(capfd, *args):
    outcome = run_cli(capfd, "keys", *args)
    assert outcome.code == 0, outcome.err
    return outcome.out


def test_new_show_authorize_list_revoke(capfd, folder, tmp_path):
    mine = run(capfd, "new", "--name", "ann").split()
    assert mine[1] == "ann"
    assert json.loads(run(capfd, "show", "--json")) == {"name": "ann", "key": mine[0]}
    other = KeyRing(tmp_path / "other").create_identity("box1").public
    assert run(capfd, "authorize", other, "--role", "box", "--name", "box1") == "box1 may connect as box\n"
    run(capfd, "trust", "tracker.lab:9190", other)
    listed = json.loads(run(capfd, "list", "--json"))
    assert listed["authorized"] == [{"role": "box", "name": "box1", "key": other}]
    assert listed["known"] == {"tracker.lab:9190": other}
    table = run(capfd, "list")
    assert "box1" in table
    assert "tracker.lab:9190" in table
    assert "box1" in run(capfd, "revoke", "box1")
    assert json.loads(run(capfd, "list", "--json"))["authorized"] == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["show"], "holds no key pair; make one: tunefarm keys new"),
        (["authorize", "nonsense", "--role", "client", "--name", "x"], "is no key"),
        (["revoke", "nobody"], "no authorized key or name is 'nobody'"),
        (["trust", "somewhere", "tf"], "is not HOST:PORT"),
    ],
)
def test_mistakes_are_explained(capfd, args, said):
    outcome = run_cli(capfd, "keys", *args)
    assert outcome.code != 0
    assert said in outcome.err
    assert "Traceback" not in outcome.err


def test_a_second_pair_is_not_made_by_accident(capfd):
    run(capfd, "new", "--name", "ann")
    outcome = run_cli(capfd, "keys", "new", "--name", "ann")
    assert outcome.code == 1
    assert "exists already" in outcome.err
    assert "--replace" in outcome.err
