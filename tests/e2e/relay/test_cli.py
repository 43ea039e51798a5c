"""A farm behind a relay from the command line: nothing but --relay is said of it anywhere."""

import json
import os
import signal
import sys

import pytest

from rpc_server.relay.server import DOORS
from tests.kit.cli.farm import cli_farm, device_states, until
from tests.kit.ports import free_ports
from tests.kit.process_tree import child_of


@pytest.fixture(scope="module")
def farm(tmp_path_factory):
    with cli_farm(tmp_path_factory.mktemp("relayed")) as running:
        process, tracker = running.serve("tracker", "tracker", "--relay-port", str(free_ports(1 + DOORS)))
        until(lambda: "relay listening on" in process.text(), process.text)
        relay = int(process.text().split("relay listening on 127.0.0.1:")[1].split()[0])
        places = ("--tracker", f"127.0.0.1:{tracker}", "--relay", f"127.0.0.1:{relay}")
        running.serve("box", "server", *places, "--name", "nat")
        running.environ["TUNEFARM_TRACKER"] = f"127.0.0.1:{tracker}"
        until(lambda: device_states(running.environ["TUNEFARM_TRACKER"]) == ["ready"])
        yield running, relay


def test_devices_shows_the_way(farm):
    running, relay = farm
    (device,) = running.json("devices")
    assert device["address"].endswith(f"@127.0.0.1:{relay}")
    assert f"@127.0.0.1:{relay}" in running.run("devices").stdout


def test_the_doctor_finds_nothing_wrong(farm):
    running, _ = farm
    found = json.loads(running.run("doctor", "--json").stdout)
    assert {"reachable", "session", "upload", "kernel"} <= {finding["about"] for finding in found}
    assert not [finding for finding in found if finding["level"] == "wrong"]
    (device,) = running.json("devices")  # by its name: all boxes behind a relay have its address
    assert {finding["subject"] for finding in found if finding["about"] == "kernel"} == {device["id"]}


def test_a_tuning_run_through_the_tracker(farm):
    running, _ = farm
    done = running.run("tune", "matmul:16,16,16", "--key", "cpu", "--trials", "2", "--quiet", "--json")
    assert json.loads(done.stdout)


def test_a_tuning_run_on_a_leased_device(farm):
    running, _ = farm
    tune = (sys.executable, "-m", "tunefarm", "tune", "matmul:16,16,16", "--trials", "1", "--quiet", "--json")
    done = running.run("lease", "cpu", "--", *tune, "--device", "$TUNEFARM_DEVICE")
    assert json.loads(done.stdout)


def test_the_trackers_relay_is_started_again(farm):
    running, relay = farm
    tracker = running.processes[0].handle.pid
    os.kill(child_of(tracker, "rpc_server.relay.server"), signal.SIGKILL)
    until(lambda: "the relay died; it is started again" in running.processes[0].text(), running.processes[0].text)
    until(lambda: child_of(tracker, "rpc_server.relay.server"))
    until(lambda: device_states(running.environ["TUNEFARM_TRACKER"]) == ["ready"])
    done = running.run("lease", "cpu", "--", sys.executable, "-c", "import os; print(os.environ['TUNEFARM_DEVICE'])")
    assert done.stdout.strip().endswith(f"@127.0.0.1:{relay}")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("server", "--relay", "127.0.0.1:1"), "--relay leads to boxes of a tracker, or of a key"),
        (("server", "--tracker", "127.0.0.1:1", "--relay", "nowhere"), "is not HOST:PORT"),
        (("relay", "--ports", "9291"), "is no range of at least two ports"),
        (("relay", "--ports", "9300-9291"), "is no range of at least two ports"),
    ],
)
def test_wrong_usage(farm, words, text):
    running, _ = farm
    assert text in running.run(*words, code=2).stderr


def test_it_listens_at_the_ports_it_is_given(farm):
    running, relay = farm
    assert "is in use" in running.run("relay", "--port", str(relay), code=1).stderr
    assert "refusing to listen" in running.run("relay", "--host", "0.0.0.0", code=1).stderr
