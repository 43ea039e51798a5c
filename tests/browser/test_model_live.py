"""A model's page while things happen to it: a run tunes it, a profile is asked for and made, energy is told."""

from __future__ import annotations

import hashlib

from playwright.sync_api import BrowserContext, expect

from compiler.target.target import Target
from tests.browser.conftest import Problems
from tests.kit.records.seed import TARGET, FakeTracker, Seeded
from tests.kit.web import FakeLauncher, running_app
from tuner.engine.store_rows import workload_row
from tuner.kernels.stored import queue_model
from tuner.records.model import NewTrial, RunState, TrialPurpose
from tuner.records.model_store.facts import KernelShare, NewModelTask, NewModelTime, NewModelVersion
from tuner.records.store import RecordStore
from tuner.task import TuningTask
from tuner.workloads import WorkloadSpec

FILE = b"weights " * 100
DIGEST = hashlib.sha256(FILE).hexdigest()


def test_what_happens_to_a_model_shows_on_its_page(
    context: BrowserContext, store: RecordStore, ids: Seeded, problems: Problems
) -> None:
    func = WorkloadSpec.parse("matmul:16,16,16").prim_func()
    row = workload_row(TuningTask("matmul", func, Target(TARGET)))
    version = store.models.register(
        NewModelVersion(
            name="net", digest=DIGEST, file_digest=DIGEST, form="onnx", kind="llvm", file_bytes=len(FILE),
            tasks=(NewModelTask(workload=row, names=("matmul",), calls=3),),
        )
    )  # fmt: skip
    store.models.add_part(version.id, 0, FILE)
    run = queue_model(store, version, TARGET, trials=8)
    store.runs.set_state(run.id, RunState.RUNNING)
    [task] = store.runs.get(run.id).tasks
    device = ids.devices[0]

    def measure(seconds: float, digest: str | None, purpose: TrialPurpose = TrialPurpose.SEARCH) -> None:
        trace = None if digest is None else "[]"
        made = NewTrial(
            task_id=task.id, digest=digest, trace=trace, device_id=device, purpose=purpose, samples=(seconds,) * 5,
            verified=True, environment={"joules": 0.012},
        )  # fmt: skip
        store.trials.add(made)

    launcher = FakeLauncher()
    measure(40e-3, None, TrialPurpose.BASELINE)
    with running_app(store, FakeTracker(), launcher=launcher) as address:
        page = context.new_page()
        problems.watch(page, address)
        page.goto(f"{address}/models/{version.model_id}")
        tuning = page.locator("#model-tuning")
        expect(tuning.get_by_role("row").nth(1)).to_contain_text("120 ms")  # three calls, untuned
        measure(10e-3, "a" * 32)
        expect(tuning.get_by_role("row").nth(1)).to_contain_text("30.0 ms")
        expect(tuning.get_by_role("row").nth(1)).to_contain_text("4.00×")

        form = page.locator("section[aria-labelledby=profile-title]")
        form.get_by_label("Device").fill("cpu")
        form.get_by_role("button", name="Time and profile it").click()
        expect(form.get_by_role("status")).to_contain_text("Asked")
        expect(page.locator("#model-profiles .badge")).to_have_text("running")
        [(job, key)] = launcher.profiled
        assert key == "cpu"
        told = NewModelTime(
            version_id=version.id, device_id=device, target=TARGET, samples=(0.02,) * 3,
            environment={"joules": 0.5, "clock_mhz": 3200.0},
                kernels=(KernelShare(name="conv", calls=3, seconds=0.015, config="hit"),),
        )  # fmt: skip
        store.models.end_job(job, store.models.add_time(told))
        expect(page.locator("#model-profiles .badge")).to_have_text("done")
        page.locator("#model-profiles").get_by_role("link", name="profile of time").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("net time")
        expect(page.get_by_role("table", name="Kernels of this run").get_by_role("row").nth(1)).to_contain_text("conv")
        page.go_back()

        page.reload()
        times = page.get_by_role("table", name="End-to-end times")
        expect(times.get_by_role("row").nth(1)).to_contain_text("500 mJ")
        expect(times.get_by_role("row").nth(1)).to_contain_text("3.20 GHz")
        page.goto(f"{address}/runs/{run.id}")
        trials = page.locator("#run-trials")
        expect(trials.get_by_role("columnheader", name="Energy")).to_be_visible()
        expect(trials.get_by_role("row").nth(1)).to_contain_text("12 mJ")
