"""The farm's commands as processes: from tuning on leased devices to a build that uses the result."""

from __future__ import annotations

import os
import signal
import socket

import numpy as np
import pytest

from tests.kit import patient_http
from tests.kit.cli.farm import PATIENCE_S, device_states, until
from tests.kit.ports import free_port
from tests.kit.records.measured import untuned_took
from tunefarm import nd, runtime
from tuner.records.model import RunState
from tuner.records.store import RecordStore

KERNEL = "matmul:32,32,32:float32"


def a_core(index: int) -> str:
    cores = sorted(os.sched_getaffinity(0))
    return str(cores[index % len(cores)])


def listed(farm, tracker: str, *states: str):
    return [d for d in farm.json("devices", "--tracker", tracker) if d["state"] in states]


def start_farm(farm, servers: int) -> str:
    """A tracker and servers of one core each; the tracker's address."""
    _, port = farm.serve("tracker", "tracker")
    tracker = f"127.0.0.1:{port}"
    for i in range(servers):
        farm.serve(f"server{i}", "server", "--tracker", tracker, "--key", "bench", "--cores", a_core(i))
    until(lambda: device_states(tracker) == ["ready"] * servers)
    return tracker


def test_from_tuning_to_a_downstream_build(farm):
    tracker = start_farm(farm, servers=2)
    table = farm.run("devices", "--tracker", tracker).stdout
    assert table.count("bench") == 2
    assert table.count("ready") == 2
    result = farm.json("tune", KERNEL, "--trials", "6", "--tracker", tracker, "--key", "bench", "--db", farm.db)
    assert [(t["name"], t["trials"], t["error"]) for t in result["tasks"]] == [(KERNEL, 6, None)]
    (task,) = result["tasks"]
    assert min(task["best_s"], task["baseline_s"]) > 0
    until(lambda: device_states(tracker) == ["ready"] * 2)  # the devices are back

    run = farm.json("runs", "--db", farm.db)[0]
    assert (run["state"], run["trials"], run["budget"]) == ("finished", 6, 6)
    assert KERNEL in farm.run("runs", "--db", farm.db).stdout
    untuned_took(farm.db, 1.0)

    _, port = farm.serve("web", "web", "--db", farm.db, "--tracker", tracker)
    api = f"http://127.0.0.1:{port}"
    assert len(patient_http.get(f"{api}/api/v1/devices").json()["devices"]) == 2
    out = farm.folder / "build"
    build = ["build", KERNEL, "--api", api, "--tracker", tracker, "--key", "bench", "--require-tuned", "--check"]
    (kernel,) = farm.json(*build, "--out", str(out))
    assert (kernel["config"], kernel["checked"]) == ("hit", True)
    assert kernel["target"].endswith("-num-cores=1")
    check_against_numpy(kernel["artifact"])
    assert f"{KERNEL}: hit, output checked," in farm.run(*build).stdout

    best = farm.json("best", KERNEL, "--db", farm.db, "--target", kernel["target"])
    assert best["match"] == "exact"
    assert best["config"]["digest"] == kernel["digest"]


def check_against_numpy(path: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (32, 32)).astype("float32") for _ in range(2))
    c = nd.empty((32, 32), "float32")
    runtime.load_module(path)(nd.array(a), nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4, atol=1e-5)


def test_a_build_of_a_kernel_nobody_tuned(farm):
    _, port = farm.serve("web", "web", "--db", farm.db, "--tracker", "none")
    api = f"http://127.0.0.1:{port}"
    (kernel,) = farm.json("build", KERNEL, "--api", api, "--check")
    assert (kernel["config"], kernel["checked"], kernel["digest"]) == ("untuned", True, None)
    assert kernel["explain"]
    refused = farm.run("build", KERNEL, "--api", api, "--require-tuned", code=3)
    assert "1 of 1 kernel has no config" in refused.stderr
    assert f"hint: tune them: tunefarm tune {KERNEL}" in refused.stderr


def test_a_web_app_with_tokens(farm):
    tokens = farm.folder / "tokens"
    tokens.write_text("# for the build jobs\ncorrect-horse\nbattery-staple\n")
    _, port = farm.serve("web", "web", "--db", farm.db, "--tracker", "none", "--token-file", str(tokens))
    build = ("build", KERNEL, "--api", f"http://127.0.0.1:{port}", "--require-tuned")
    for wrong, said in (("", "wants a token, and none was given"), ("wrong", "does not know the token it was given")):
        farm.environ["TUNEFARM_API_TOKEN"] = wrong
        refused = farm.run(*build, code=1).stderr
        assert f"http://127.0.0.1:{port} {said}" in refused
        assert "tunefarm token" in refused.partition("hint:")[2]
    farm.environ["TUNEFARM_API_TOKEN"] = "battery-staple"
    farm.run(*build, code=3)  # let in, and told that nothing is tuned


def test_a_run_goes_on_when_a_device_is_killed(farm):
    tracker = start_farm(farm, servers=2)
    args = ("tune", KERNEL, "--trials", "24", "--tracker", tracker, "--key", "bench", "--db", farm.db)
    tuner = farm.start("tune", *args)
    until(lambda: trials(farm) >= 4 or tuner.handle.poll() is not None, tuner.text)
    victim = next(p for p in farm.processes if p.name == "server1")
    victim.end(signal.SIGKILL)
    assert tuner.handle.wait(PATIENCE_S) == 0, tuner.text()
    with RecordStore.open(farm.db) as store:
        run = store.runs.newest(limit=1)[0]
    assert (run.state, run.trials) == (RunState.FINISHED, 24)


def trials(farm) -> int:
    """Search trials of the newest run."""
    with RecordStore.open(farm.db) as store:
        runs = store.runs.newest(limit=1)
    return runs[0].trials if runs else 0


def test_devices_says_who_holds_one(farm):
    tracker = start_farm(farm, servers=1)
    tuner = farm.start("tune", "tune", KERNEL, "--trials", "20000", "--tracker", tracker, "--db", farm.db)
    until(lambda: device_states(tracker) == ["leased"] or tuner.handle.poll() is not None, tuner.text)
    (device,) = listed(farm, tracker, "leased")
    assert device["user"].endswith(f":{tuner.handle.pid}")
    assert device["user"] in farm.run("devices", "--tracker", tracker).stdout
    assert tuner.end(signal.SIGINT) == 130
    until(lambda: device_states(tracker) == ["ready"])


def test_a_server_waits_for_its_tracker(farm):
    port = free_port()
    server, _ = farm.serve("server", "server", "--tracker", f"127.0.0.1:{port}")
    farm.run("devices", "--tracker", f"127.0.0.1:{port}", code=1)
    assert server.handle.poll() is None
    farm.serve("tracker", "tracker", port=port)
    until(lambda: device_states(f"127.0.0.1:{port}") == ["ready"], server.text)


def test_a_tracker_without_devices_says_what_to_start(farm):
    _, port = farm.serve("tracker", "tracker")
    empty = farm.run("devices", "--tracker", f"127.0.0.1:{port}").stdout
    assert f"start one: tunefarm server --tracker 127.0.0.1:{port}" in empty
    refused = farm.run("tune", KERNEL, "--tracker", f"127.0.0.1:{port}", "--key", "bench", code=1)
    assert "has no device that matches 'bench'" in refused.stderr
    assert f"tunefarm server --tracker 127.0.0.1:{port}" in refused.stderr


def test_a_port_in_use(farm):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for args in (["tracker"], ["server"], ["web", "--db", farm.db, "--tracker", "none"]):
            refused = farm.run(*args, "--port", port, code=1)
            assert f"port {port} on 127.0.0.1 is in use" in refused.stderr
            assert "--port" in refused.stderr.partition("hint:")[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_services_end_cleanly(farm, number):
    services = [
        farm.serve("tracker", "tracker")[0],
        farm.serve("server", "server")[0],
        farm.serve("web", "web", "--db", farm.db, "--tracker", "none")[0],
    ]
    for service in services:
        assert service.end(number) == 0, service.text()
        assert "listening on" in service.text()
        assert "Traceback" not in service.text()
