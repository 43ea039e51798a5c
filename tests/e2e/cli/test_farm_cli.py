"""`tunefarm lease`, `drain`, `check` and their like against a real tracker and box."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.cli.farm import PATIENCE_S, CliFarm, cli_farm, device_states, until

SHOW = "import os, sys; print(os.environ['TUNEFARM_DEVICE_ID'], sys.argv[1], bool(os.environ['TUNEFARM_LEASE_TOKEN']))"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[CliFarm, int]]:
    folder: Path = tmp_path_factory.mktemp("farm")
    with cli_farm(folder) as running:
        _, tracker = running.serve("tracker", "tracker")
        _, port = running.serve("box", "server", "--tracker", f"127.0.0.1:{tracker}", "--name", "box1")
        running.environ["TUNEFARM_TRACKER"] = f"127.0.0.1:{tracker}"
        until(lambda: states(running) == ["ready"])
        yield running, port


@pytest.fixture
def farm(shared: tuple[CliFarm, int]) -> Iterator[tuple[CliFarm, int]]:
    """The farm, whose device is ready again afterwards, so that no test suffers from another's failure."""
    running, _ = shared
    services = len(running.processes)
    yield shared
    for process in running.processes[services:]:
        process.handle.terminate()
        process.handle.wait(PATIENCE_S)
    del running.processes[services:]
    running.run("undrain", "box1")
    running.run("unquarantine", "box1")
    until(lambda: states(running) == ["ready"])


def states(farm: CliFarm) -> list[str]:
    return device_states(farm.environ["TUNEFARM_TRACKER"])


def test_a_command_runs_on_a_leased_device_which_then_goes_back(farm) -> None:
    running, port = farm
    done = running.run("lease", "cpu", "--for", "1h", "--", sys.executable, "-c", SHOW, "$TUNEFARM_DEVICE")
    assert done.stdout == f"box1/0 127.0.0.1:{port} True\n"
    assert running.run("lease", "cpu", "--", sys.executable, "-c", "raise SystemExit(7)", code=7)


def test_a_tuning_run_uses_the_lease_it_runs_under(farm) -> None:
    running, _ = farm
    tune = (sys.executable, "-m", "tunefarm", "tune", "matmul:16,16,16", "--trials", "1", "--quiet", "--json")
    done = running.run("lease", "cpu", "--", *tune, "--device", "$TUNEFARM_DEVICE")
    assert json.loads(done.stdout)


def test_without_a_command_the_device_is_held_until_a_signal(farm) -> None:
    running, _ = farm
    holder = running.start("holder", "lease", "device=box1/0")
    until(lambda: "export TUNEFARM_DEVICE=" in holder.text(), holder.text)
    until(lambda: states(running) == ["leased"])
    waiting = running.run("lease", "cpu", "--wait", "2s", "--", "true", code=1)
    assert "waiting: number 1 of 1 in the queue for 1 device" in waiting.stderr
    assert "no device matching 'cpu' became free" in waiting.stderr
    assert holder.end(signal.SIGINT) == 0


def test_a_command_whose_device_is_taken_away_is_ended(farm) -> None:
    running, _ = farm
    holder = running.start("robbed", "lease", "cpu", "--", sys.executable, "-c", "import time; time.sleep(600)")
    until(lambda: states(running) == ["leased"])
    running.run("quarantine", "box1", "--reason", "smoke")
    assert holder.handle.wait(PATIENCE_S) == 1
    assert "quarantined: smoke" in holder.text()
    running.run("unquarantine", "box1/0")


def test_a_command_that_is_not_there_is_an_error_and_the_device_goes_back(farm) -> None:
    running, _ = farm
    assert "cannot run 'no-such-command'" in running.run("lease", "cpu", "--", "no-such-command", code=1).stderr
    until(lambda: states(running) == ["ready"])


def test_a_device_is_drained_with_a_reason_and_lent_again(farm) -> None:
    running, _ = farm
    assert "box1/0: draining (moving)" in running.run("drain", "box1", "--reason", "moving").stdout
    assert "draining: moving" in running.run("devices").stdout
    assert "box1/0: ready" in running.run("undrain", "box1").stdout
    assert "'nowhere'" in running.run("drain", "nowhere", code=1).stderr


def test_a_check_measures_and_the_devices_show_it(farm) -> None:
    running, _ = farm
    done = running.run("check", "box1", "--json", code=(0, 4))  # on a machine that does much else a box may be slow
    device: dict[str, Any]
    (device,) = json.loads(done.stdout)
    assert device["check"]["passed"] or "of its first check" in device["check"]["text"]
    assert device["check"]["scores"]["compute"] > 0
    assert device["check"]["baseline"]["memory"] > 0
    assert " GFLOP/s, " in running.run("devices").stdout


def test_the_doctor_looks_at_everything_and_finds_a_sound_farm(farm) -> None:
    running, _ = farm
    found = running.json("doctor")
    about = {f["about"] for f in found}
    assert {"tracker", "state", "lease", "reachable", "keys", "version", "clock", "governor", "memory"} <= about
    assert {"user", "disk", "exec", "session", "upload", "kernel", "noise"} <= about
    assert not [f for f in found if f["level"] == "wrong"]


def test_the_doctor_says_what_is_wrong_and_what_to_do(farm) -> None:
    running, port = farm
    running.run("quarantine", "box1", "--reason", "smoke")
    said = running.run("doctor", code=4).stdout
    assert "XX  box1/0  state: quarantined: smoke" in said
    assert "tunefarm unquarantine box1/0" in said
    running.run("unquarantine", "box1")
    lent = running.run("doctor", "--server", f"127.0.0.1:{port}", code=4).stdout
    assert "reachable: box1 answers" in lent
    assert "XX  127.0.0.1:" in lent  # a box of a tracker lets nobody in without a lease
    assert "XX" in running.run("doctor", "--server", "127.0.0.1:1", code=4).stdout


def test_a_second_server_without_cores_of_its_own_says_that_it_shares_them(farm: tuple[CliFarm, int]) -> None:
    running, _ = farm
    second, _ = running.serve("second", "server", "--name", "box2")
    assert "another server of this machine has core" in second.text()
    assert "--cores gives each its own" in second.text()


def test_a_box_that_a_tracker_lends_is_asked_for_there(farm: tuple[CliFarm, int]) -> None:
    """No waiting opens it: the run ends at once, says where to ask, and goes on from there."""
    running, port = farm
    db = ("--db", f"sqlite:///{running.folder / 'lent.db'}", "--quiet")
    tune = ("tune", "matmul:16,16,16:float32", "--trials", "1")
    refused = running.run(*tune, "--device", f"127.0.0.1:{port}", *db, code=1).stderr
    assert f"127.0.0.1:{port} gives no sessions without a lease: box1 is lent out by a tracker" in refused
    assert "tunefarm tune --resume 1 --tracker HOST:PORT --key KEY" in refused
    assert "for 30 s" not in refused
    running.run("tune", "--resume", "1", "--key", "cpu", *db)
