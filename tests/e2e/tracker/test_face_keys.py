"""The RPC runners of the three faces on a farm whose tracker and devices use keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rpc_server.box.server import Server
from rpc_server.errors import ConnectError
from rpc_server.wire.keys import KeyRing, KeyRole
from tests.kit.farm.tracker import CALM
from tracker.server import Tracker
from tunefarm import auto_scheduler, autotvm, meta_schedule, te
from tuner.devices.fleet import Fleet


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KeyRing]:
    folder = tmp_path_factory.mktemp("keys")
    return {name: KeyRing(folder / name) for name in ("tracker", "box", "ann", "stranger")}


@pytest.fixture(scope="module")
def port(rings: dict[str, KeyRing]) -> Iterator[int]:
    public = {name: ring.create_identity(name).public for name, ring in rings.items()}
    rings["tracker"].authorize(public["box"], KeyRole.BOX, "box")
    rings["tracker"].authorize(public["ann"], KeyRole.CLIENT, "ann")
    with Tracker(port=0, silent=True, keys=str(rings["tracker"].folder), timing=CALM) as tracker:
        for ring in rings.values():
            ring.trust(f"127.0.0.1:{tracker.port}", public["tracker"])
        address = ("127.0.0.1", tracker.port)
        with Server(port=0, silent=True, keys=str(rings["box"].folder), tracker_addr=address, key="k", name="box"):
            yield tracker.port


@autotvm.template("face_keys/add_one")
def add_one(size):
    a = te.placeholder((size,), name="a")
    b = te.compute((size,), lambda i: a[i] + 1.0, name="b")
    schedule = te.create_schedule(b.op)
    config = autotvm.get_config()
    config.define_split("tile", b.op.axis[0], num_outputs=2)
    config["tile"].apply(schedule, b, b.op.axis[0])
    return schedule, [a, b]


def open_fleet(face: str, port: int, keys: KeyRing) -> Fleet:
    match face:
        case "autotvm":
            return autotvm.RPCRunner("k", "127.0.0.1", port, keys=keys).open()
        case "auto_scheduler":
            return auto_scheduler.RPCRunner("k", "127.0.0.1", port, keys=keys).open()
        case _:
            config = meta_schedule.runner.RPCConfig("127.0.0.1", port, "k")
            return meta_schedule.runner.RPCRunner(config, keys=keys).fleet()


@pytest.mark.parametrize("face", ["autotvm", "auto_scheduler", "meta_schedule"])
def test_a_runner_shows_its_keys_to_the_tracker_and_the_device(face, port, rings):
    fleet = open_fleet(face, port, rings["ann"])
    try:
        session = fleet.open(0, 60.0)
        assert session.device().key == "k"
        session.close()
    finally:
        fleet.close()
    with pytest.raises(ConnectError, match="does not let this machine in"):
        open_fleet(face, port, rings["stranger"])


def test_a_config_is_measured_there(port, rings):
    task = autotvm.task.create("face_keys/add_one", (16,), "llvm")
    runner = autotvm.RPCRunner("k", "127.0.0.1", port, number=1, repeat=1, timeout=120, keys=rings["ann"])
    option = autotvm.measure_option(builder=autotvm.LocalBuilder(n_parallel=1, timeout=120), runner=runner)
    inputs = [autotvm.MeasureInput(task.target, task, task.config_space.get(0))]
    with autotvm.create_measure_batch(task, option) as measure_batch:
        [result] = measure_batch(inputs)
    assert result.error_no == 0, result.costs
