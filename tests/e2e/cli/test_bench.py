"""`tunefarm bench` as a person runs it: a fleet through its tracker, its history, and a kernel that became slower."""

import json
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from compiler.frontend.onnx.sample import write_sample
from tests.kit.cli.farm import device_states, until
from tuner.engine.store_rows import workload_row
from tuner.records.farm.model_farm import NewBenchResult, NewBenchRun
from tuner.records.model import NewDevice
from tuner.records.store import RecordStore
from tuner.task import TuningTask

SUITE = 'name = "tiny"\nkernels = ["matmul:8,8,8", "copy:1024"]\nconfig = "best"\n'
MATMUL, COPY = "matmul:8,8,8:float32", "copy:1024:float32"


@pytest.fixture
def farm(farm):
    (farm.folder / "tiny.toml").write_text(SUITE)
    return farm


class Hook(BaseHTTPRequestHandler):
    received: list[dict] = []

    def do_POST(self):
        self.received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def hook():
    Hook.received = []
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook"
        server.shutdown()
        thread.join()


def test_every_device_of_a_tracker_that_matches(farm):
    _, port = farm.serve("tracker", "tracker")
    tracker = f"127.0.0.1:{port}"
    for name, key in (("one", "bench"), ("two", "bench"), ("other", "spare")):
        farm.serve(name, "server", "--tracker", tracker, "--key", key, "--name", name)
    until(lambda: len(device_states(tracker)) == 3)
    told = farm.json(
        "bench", "run", "tiny.toml", "--devices", "bench", "--tracker", tracker, "--rounds", "2", "--db", farm.db
    )
    assert (told["state"], told["problems"]) == ("finished", [])
    assert {(r["device"], r["kernel"]) for r in told["results"]} == {
        (device, kernel) for device in ("one/0", "two/0") for kernel in (MATMUL, COPY)
    }
    for result in told["results"]:
        assert result["failure"] is None
        assert 0 < result["low_s"] <= result["time_s"] <= result["high_s"]
        assert result["calibration_s"] > 0
        assert result["verdict"] == "new"
    assert {d["state"] for d in farm.json("devices", "--tracker", tracker)} <= {"ready", "leased"}
    listed = farm.json("bench", "list", "--db", farm.db)
    assert [(entry["suite"], entry["count"]) for entry in listed] == [("tiny", 4)]
    report = farm.run("bench", "report", "1", "--db", farm.db).stdout
    assert report.startswith("# Suite tiny, ")
    assert report.count("| one/0 |") == 2
    none = ("--devices", "nothing", "--tracker", tracker)
    failed = farm.run("bench", "run", "tiny.toml", *none, "--db", farm.db, code=1)
    assert "no device in service that matches 'nothing'" in failed.stderr


def remember(farm, cost, device):
    """A history in which the matmul always took `cost` seconds on the device of a first run."""
    with RecordStore.open(farm.db) as store:
        before = store.benches.results(1)[0]
        task = TuningTask.from_spec(MATMUL, before.target)
        ids = {
            "workload_id": store.workloads.upsert(workload_row(task)).id,
            "target_id": store.targets.upsert(before.target).id,
            "device_id": next(d.id for d in store.devices.page() if d.name == device),
        }
        run = store.benches.start(
            NewBenchRun(suite="tiny", spec={}, devices=device, toolchain={"tunefarm": "0", "llvm": "22"})
        )
        start = datetime.now(UTC) - timedelta(days=9)
        store.benches.add_results(
            run.id,
            [
                NewBenchResult(
                    kernel=MATMUL,
                    samples=(cost, cost * (1 + day / 1000)),
                    measured_at=start + timedelta(days=day),
                    **ids,
                )
                for day in range(8)
            ],
        )


def test_a_kernel_that_became_slower_is_told(farm, hook):
    first = farm.json("bench", "run", "tiny.toml", "--rounds", "1", "--db", farm.db)
    device = first["results"][0]["device"]
    remember(farm, 1e-9, device)
    (farm.folder / "hook").write_text(hook)
    shown = farm.run("bench", "run", "tiny.toml", "--webhook", hook, "--db", farm.db, code=2)
    assert "write the address to a file" in shown.stderr
    done = farm.run(
        "bench",
        "run",
        "tiny.toml",
        "--rounds",
        "1",
        "--webhook",
        "hook",
        "--report",
        "out.html",
        "--db",
        farm.db,
        code=5,
    )
    assert "1 of 2 results became slower" in done.stderr
    assert f"tunefarm tune {MATMUL}" in done.stderr
    assert "again" in done.stderr  # it was measured again before it was told
    (alert,) = Hook.received
    assert alert["text"].startswith("tunefarm: Suite tiny")
    (change,) = alert["changes"]
    assert (change["kernel"], change["verdict"], change["confirmed"]) == (MATMUL, "slower", True)
    assert change["ratio"] > 10
    page = (farm.folder / "out.html").read_text()
    assert page.count('<tr class="slower"') == 1
    assert "script" not in page
    history = farm.json("bench", "history", MATMUL, "--device", device, "--db", farm.db)
    assert len(history) == 10
    assert "matmul" not in farm.run("bench", "history", MATMUL, "--device", device, "--db", farm.db).stderr


def test_a_tuned_kernel_that_became_slower_is_tuned_again(farm):
    farm.run("tune", MATMUL, "--trials", "3", "--db", farm.db, "--quiet")
    first = farm.json("bench", "run", "tiny.toml", "--rounds", "1", "--db", farm.db)
    results = {result["kernel"]: result for result in first["results"]}
    assert results[MATMUL]["config"]
    assert results[COPY]["config"] is None
    remember(farm, 1e-9, results[MATMUL]["device"])
    done = farm.run("bench", "run", "tiny.toml", "--rounds", "1", "--retune", "2", "--db", farm.db, code=5)
    assert f"tunefarm tune {MATMUL} --trials 2" in done.stderr
    runs = farm.json("runs", "--db", farm.db)
    assert [(run["state"], run["trials"]) for run in runs] == [("finished", 2), ("finished", 3)]


def test_what_cannot_be_done_is_said(farm):
    assert "there is no suite 'gemn'" in farm.run("bench", "run", "gemn", "--db", farm.db, code=1).stderr
    assert "neither .html nor .md" in farm.run("bench", "run", "tiny.toml", "--report", "out.pdf", code=2).stderr
    both = ("--device", "127.0.0.1:9", "--devices", "cpu")
    assert "give one of them" in farm.run("bench", "run", "tiny.toml", *both, "--db", farm.db, code=2).stderr
    away = farm.run("bench", "run", "tiny.toml", "--device", "127.0.0.1:9", "--db", farm.db, code=1)
    assert "no device could be benchmarked" in away.stderr
    assert farm.json("bench", "list", "--db", farm.db)[0]["state"] == "failed"
    assert "gemm" in farm.run("bench", "suites").stdout


def history(store, before, name, cost, device_id, count=8):
    """Results of a series on a device, newer than all that were measured, so that they alone are its last level."""
    run = store.benches.start(NewBenchRun(suite="tiny", spec={}, devices="", toolchain={"tunefarm": "0", "llvm": "22"}))
    start = datetime.now(UTC) - timedelta(milliseconds=count)
    target_id = store.targets.upsert(before.target).id
    results = [
        NewBenchResult(
            kernel=name, samples=(cost, cost * 1.001), measured_at=start + timedelta(milliseconds=number),
            target_id=target_id, device_id=device_id,
        )
        for number in range(count)
    ]  # fmt: skip
    store.benches.add_results(run.id, results)


def test_a_slower_model_names_the_kernel_and_a_new_box_its_class(farm):
    write_sample(farm.folder / "small.onnx", channels=4)
    (farm.folder / "models.toml").write_text('models = ["small.onnx"]\n')
    first = farm.json("bench", "run", "models.toml", "--rounds", "1", "--db", farm.db)
    times = {result["kernel"]: result["time_s"] for result in first["results"]}
    slow, *others = [name for name in times if name != "small.onnx"]
    assert times["small.onnx"] > 0
    assert len(others) > 5
    with RecordStore.open(farm.db) as store:
        before = store.benches.results(1)[0]
        here = next(device for device in store.devices.page() if device.name == before.device)
        elsewhere = store.devices.upsert(
            NewDevice(name="rack/0", key="cpu", device_class=here.device_class, fingerprint=dict(here.fingerprint))
        )
        history(store, before, "small.onnx", 1e-9, elsewhere.id)
    new = farm.run("bench", "run", "models.toml", "--rounds", "1", "--db", farm.db, code=5)
    assert "slower than others of their device class" in new.stderr
    assert "slower than its class" in new.stdout
    with RecordStore.open(farm.db) as store:
        history(store, before, "small.onnx", 1e-9, here.id)
        history(store, before, slow, 1e-9, here.id)
        for name in others:
            history(store, before, name, 1.0, here.id)
    done = farm.run("bench", "run", "models.toml", "--rounds", "1", "--json", "--db", farm.db, code=5)
    (model,) = [row for row in json.loads(done.stdout)["results"] if row["kernel"] == "small.onnx"]
    assert model["confirmed"]
    assert model["through"] == [slow.partition(":")[2]]
    assert f"tunefarm tune {'small.onnx'}" in done.stderr
