"""Configs chosen by energy: over REST, by the client and on the dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.errors import TunefarmError
from tests.kit import patient_http
from tests.kit.records.farm import KEY, V3, ZEN3, Farm, measured
from tests.kit.records.seed import FakeTracker
from tests.kit.web import running_app
from tunefarm.client import Client
from tuner.records.model import NewWorkload
from tuner.records.model_store.facts import NewModelTask, NewModelVersion
from tuner.records.store import RecordStore

PLACE = {"target": V3, "device_class": ZEN3}
ASKED = {"workload": KEY, **PLACE, "objective": "energy"}


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    """A fast config and a frugal one, and a model with that kernel."""
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        farm = Farm(store)
        run = farm.run()
        for digest, seconds, joules in [("fast", 1.0, 30.0), ("frugal", 2.0, 20.0)]:
            told = {"joules": joules}
            store.trials.add(measured(run, digest, seconds, seconds, device=farm.zen3, environment=told))
        kernel = NewModelTask(workload=NewWorkload(key=KEY, name="matmul"), names=("matmul",), calls=1)
        store.models.register(
            NewModelVersion(
                name="net", digest="d" * 64, file_digest="d" * 64, form="onnx", kind="llvm", tasks=(kernel,)
            )
        )
        store.releases.create("r")
        store.releases.approve("r", "ada")
        yield farm


def test_the_objective_chooses_the_config(farm: Farm) -> None:
    with running_app(farm.store, FakeTracker()) as address, patient_http.Client(base_url=address) as api:
        found = api.get("/api/v1/best", params=ASKED).json()
        assert (found["config"]["digest"], found["config"]["joules"]) == ("frugal", 20.0)
        assert api.get("/api/v1/best", params=ASKED | {"objective": "time"}).json()["config"]["digest"] == "fast"
        assert api.get("/api/v1/best", params=ASKED | {"objective": "noise"}).status_code == 400
        why = api.get("/api/v1/explain", params=ASKED).json()
        assert [(runner["digest"], runner["joules"]) for runner in why["runners_up"]] == [("fast", 30.0)]
        [listed] = api.get("/api/v1/best-configs", params={"objective": "energy"}).json()["configs"]
        assert listed["digest"] == "frugal"
        one = api.get(f"/api/v1/best-configs/{listed['id']}", params={"objective": "energy"}).json()
        assert one == listed
        page = api.get("/best", params={"objective": "energy"}).text
        assert f"/best/{listed['id']}?objective=energy" in page
        assert "20 J" in page
        assert "20 J" not in api.get("/best").text
        assert "best config by energy" in api.get(f"/best/{listed['id']}?objective=energy").text
        [row] = api.get("/export/best.json?objective=energy").json()
        assert (row["digest"], row["joules"]) == ("frugal", 20.0)


def test_the_client_asks_for_it(farm: Farm) -> None:
    with running_app(farm.store, FakeTracker()) as address, Client(address) as client:
        for _ in range(2):
            assert [client.best(KEY, V3, ZEN3, objective=by).digest for by in ("energy", "time")] == ["frugal", "fast"]
        configs = client.model_configs(1, V3, ZEN3, objective="energy")
        assert (configs[KEY].digest, configs[KEY].joules) == ("frugal", 20.0)
        assert client.model_configs(1, V3, ZEN3)[KEY].digest == "fast"
        told = {"joules": 10.0}
        farm.store.trials.add(measured(farm.run(), "new", 4.0, device=farm.zen3, environment=told))
        assert client.best(KEY, V3, ZEN3, objective="energy").digest == "new"
        for ask in (lambda: client.best(KEY, V3, ZEN3, release="r", objective="energy"),
                    lambda: client.model_configs(1, V3, ZEN3, release="r", objective="energy")):  # fmt: skip
            with pytest.raises(TunefarmError, match="chosen already"):
                ask()
