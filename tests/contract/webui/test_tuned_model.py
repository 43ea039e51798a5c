"""The page of a model that was tuned, but never timed as a whole."""

from __future__ import annotations

import httpx

from tests.kit.records.seed import ZEN3, FakeTracker, seed
from tests.kit.web import running_app
from tuner.records.model import NewWorkload
from tuner.records.model_store.facts import NewModelTask, NewModelVersion
from tuner.records.store import RecordStore


def test_a_model_without_times_is_shown_on_the_device_class_that_tuned_it(store: RecordStore) -> None:
    matmul = seed(store).matmul
    workload = NewWorkload(
        key=matmul.key, name=matmul.name, spec=matmul.spec, function=matmul.function, flops=matmul.flops
    )
    task = NewModelTask(workload=workload, names=("fused_matmul",), calls=2)
    version = store.models.register(
        NewModelVersion(name="new", digest="9" * 64, file_digest="9" * 64, form="onnx", kind="llvm", tasks=(task,))
    )
    with running_app(store, FakeTracker()) as address, httpx.Client(base_url=address, timeout=60) as client:
        page = client.get(f"/models/{version.model_id}")
    assert page.status_code == 200
    assert "not known on a device class yet" not in page.text
    assert ZEN3 in page.text
