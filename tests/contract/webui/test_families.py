"""Pages of families: the list, the picture of time over size, and what the rule says of a size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.kit.records.seed_family import believable, seed_family
from tests.kit.tuner.family_records import stored
from tuner.engine.options import RunOptions
from tuner.engine.run_recorder import RunRecorder
from tuner.families.sizes import SizeList
from tuner.kernels.family_jobs import family_record
from tuner.records.store import RecordStore
from tuner.task import TuningTask
from webui.app import create_app
from webui.pages.family_picture import family_picture, pick_text

TARGET = "llvm -mcpu=znver3"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        seed_family(store, TARGET, "zen")
        yield TestClient(create_app(store), base_url="http://127.0.0.1")


def test_the_list_and_a_family(client: TestClient) -> None:
    assert "/families/1" in client.get("/families").text
    page = client.get("/families/1")
    assert page.status_code == 200
    assert page.text.count('class="column"') == 10
    assert page.text.count("<title>M=16: ") == 1
    assert ">OpenBLAS</th>" in page.text
    assert client.get("/families/9").status_code == 404


def test_a_run_leads_to_its_families(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        record = believable(TARGET)
        task = TuningTask.from_spec("dense:1,3072,768", TARGET)
        options = RunOptions(workloads=(family_record(record.what, record.sizes, 3),))
        run = RunRecorder.create(store, [task], options).run_id
        client = TestClient(create_app(store), base_url="http://127.0.0.1")
        assert "/families/" not in client.get(f"/runs/{run}").text.partition('id="run-families"')[2]
        store.families.add(replace(stored(record, "zen"), run_id=run))
        assert f'<a href="/families/1">{record.name}</a>' in client.get(f"/runs/{run}").text


def test_a_family_without_a_library_says_so(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        store.families.add(stored(replace(believable(TARGET), library={}), "zen"))
        page = TestClient(create_app(store), base_url="http://127.0.0.1").get("/families/1")
    assert "No library was timed" in page.text


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("17", "this size was measured"),
        ("24", "the nearest measured size is"),
        ("x", "is no size"),
        ("1x2", "has 1 numbers"),
    ],
)
def test_a_size_is_explained(client: TestClient, size: str, said: str) -> None:
    assert said in client.get(f"/families/1?size={size}").text


def test_the_picture() -> None:
    record = believable(TARGET)
    picture = family_picture(record)
    assert picture is not None
    assert [line.kind for line in picture.lines] == ["config0", "config1", "config2", "library", "best", "portfolio"]
    assert all(a.x2 == b.x1 for a, b in zip(picture.columns, picture.columns[1:]))
    assert all(column.y is not None for column in picture.columns)
    assert "over the best" in pick_text(record, 0)
    assert "OpenBLAS: " in pick_text(record, 0)
    one = SizeList(("M",), ((5,),))
    assert one.text((5,)) == "M=5"


def test_a_record_under_an_older_key_is_found_by_what_it_computes(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        kept = stored(believable(TARGET), "zen")
        store.families.add(replace(kept, key="0" * 64, record={**kept.record, "what": {"op": "gone"}}))
        store.families.add(replace(kept, key="1" * 64))
        client = TestClient(create_app(store), base_url="http://127.0.0.1")
        found = client.get(
            "/api/v1/families/best", params={"family": kept.key, "target": TARGET, "device_class": "zen"}
        )
        assert found.status_code == 200
        assert found.json()["key"] == kept.key
        other = client.get("/api/v1/families/best", params={"family": "dense:M,8,8", "target": TARGET})
        assert other.status_code == 404
