"""`tunefarm.kernel`: fetched, built, kept on disk, called at any size, pinned, and used without the web app."""

from __future__ import annotations

import dataclasses
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import tunefarm
from compiler.errors import ArgumentError
from compiler.target.target import Target
from tests.kit.tuner.family_records import made_up, stored
from tests.kit.web import running_app
from tunefarm.client import ApiError, Client
from tunefarm.family_kernel import FamilyKernel, UntunedWarning, _Cache
from tuner.devices.supplies import local_target
from tuner.families.build import FunctionMaker
from tuner.families.family import FamilySpec
from tuner.families.record import FamilyRecord
from tuner.families.rule import GENERAL
from tuner.families.sizes import FamilyError
from tuner.records.errors import RecordError
from tuner.records.store import RecordStore

NOBODY = "http://127.0.0.1:9"
WEIGHT = np.random.default_rng(0).random((48, 32), "float32")


@pytest.fixture(scope="module")
def record() -> FamilyRecord:
    return made_up("dense:M,48,32", ["M=1,4,17"])


def check(dense: FamilyKernel, rows: int) -> None:
    data = np.random.default_rng(rows).random((rows, 32), "float32")
    found = dense(data, WEIGHT)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, data @ WEIGHT.T, rtol=1e-4)


def test_fetched_kept_and_used_without_the_app(record: FamilyRecord, tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        store.families.add(stored(record))
        store.releases.create("2026.11")
        with running_app(store) as address:
            dense = tunefarm.kernel("dense:batch,48,32", address, cache=tmp_path / "cache")
            assert (dense.source, dense.tuned) == ("fetched", True)
            for rows in (0, 1, 3, 17, 40):
                check(dense, rows)
            assert dense.explain(batch=4).sure == "measured"
            assert dense.explain(batch=5).sure == "near"
            assert not dense.refresh(), "the same record"
            with pytest.raises(RecordError, match="not approved"):
                tunefarm.kernel("dense:M,48,32", address, release="2026.11", cache=tmp_path / "pinned")
            store.releases.approve("2026.11", "me")
            pinned = tunefarm.kernel("dense:M,48,32", address, release="2026.11", cache=tmp_path / "pinned")
            better = dataclasses.replace(record, traces=(None, *record.traces[1:]))
            store.families.add(stored(better))
            assert dense.refresh()
            assert not pinned.refresh(), "a release never changes"
            check(dense, 1)
            with pytest.raises(RecordError, match="has no record of"):
                tunefarm.kernel("dense:M,48,31", address, release="2026.11", cache=tmp_path / "pinned")
            with Client(address) as client:
                [newest, oldest] = client.get("/api/v1/families")["families"]
                assert client.get(f"/api/v1/families/{oldest['id']}")["record"] == record.to_json()
                assert newest["digest"] == better.digest
                assert client.family("dense:M,48,31") is None
    again = tunefarm.kernel("dense:M,48,32", NOBODY, release="2026.11", cache=tmp_path / "pinned")
    assert (again.source, again.record) == ("cached", record)
    check(again, 9)
    assert not again.refresh(), "nobody answers, and nothing changes"


def test_untuned_says_so(tmp_path: Path) -> None:
    with pytest.warns(UntunedWarning, match="nobody has tuned") as told:
        dense = tunefarm.kernel("dense:M,48,32", NOBODY, cache=tmp_path)
    assert any("no answer from" in str(warning.message) for warning in told)
    assert (dense.source, dense.tuned, dense.explain(M=3).pick) == ("untuned", False, GENERAL)
    check(dense, 3)
    check(dense, 0)
    with pytest.raises(FamilyError, match="has sizes for M"):
        dense.explain(N=1)


def test_a_record_of_another_function_is_refused(record: FamilyRecord, tmp_path: Path) -> None:
    maker = FunctionMaker(FamilySpec.parse("dense:M,48,31"))
    with pytest.raises(FamilyError, match="the record of another function, dense:M,48,32"):
        FamilyKernel(maker, lambda *_: record.to_json(), Target(local_target()), _Cache(tmp_path))


def test_arrays_of_all_kinds(record: FamilyRecord, tmp_path: Path) -> None:
    maker = FunctionMaker(FamilySpec.parse("dense:M,48,32"))
    dense = FamilyKernel(maker, lambda *_: record.to_json(), Target(local_target()), _Cache(tmp_path))
    data = np.random.default_rng(1).random((6, 32), "float32")
    wanted = data @ WEIGHT.T
    shifted = np.zeros(6 * 32 + 1, "float32")[1:].reshape(6, 32)  # at no address a vector may be loaded from
    shifted[...] = data
    np.testing.assert_allclose(dense(shifted, WEIGHT), wanted, rtol=1e-4)
    np.testing.assert_allclose(dense(data.T.copy().T, WEIGHT), wanted, rtol=1e-4)
    made = dense(tunefarm.nd.array(data), WEIGHT)
    np.testing.assert_allclose(np.from_dlpack(made), wanted, rtol=1e-4)
    for out in (np.zeros((6, 48), "float32"), np.zeros(6 * 48 + 1, "float32")[1:].reshape(6, 48)):
        assert dense(data, WEIGHT, out) is None
        np.testing.assert_allclose(out, wanted, rtol=1e-4)
    for wrong, message in (
        ((data,), "takes 2 arrays"),
        ((data[0], WEIGHT), "has 2 dimensions"),
        ((data, WEIGHT[:, :5]), "weight"),
        ((data, [1.0]), "is no array"),
    ):
        with pytest.raises(ArgumentError, match=message):
            dense(*wrong)


def test_new_sizes_of_configs_without_a_general_kernel_are_built_once(tmp_path: Path) -> None:
    convolution = made_up("conv2d:1,4,H,W,8,3,3", ["W,H=5x6,8x8"])
    spec = FunctionMaker(FamilySpec.parse("conv2d:1,4,H,W,8,3,3"))
    conv = FamilyKernel(spec, lambda *_: convolution.to_json(), Target(local_target()), _Cache(tmp_path))
    plain = FamilyKernel(
        spec, lambda *_: convolution.to_json(), Target(local_target()), _Cache(tmp_path), build_new=False
    )
    weight = np.random.default_rng(0).random((8, 4, 3, 3), "float32")
    for height, width in ((6, 5), (7, 9)):
        data = np.random.default_rng(1).random((1, 4, height, width), "float32")
        before = len(list(tmp_path.iterdir()))
        first = conv(data, weight)
        np.testing.assert_allclose(first, plain(data, weight), rtol=1e-4)
        np.testing.assert_array_equal(first, conv(data, weight))
        added = len(list(tmp_path.iterdir())) - before
        assert added == (0 if (height, width) == (6, 5) else 1 - conv.explain(H=7, W=9).reasons[-1].endswith("config"))
    assert conv.explain(H=6, W=5).sure == "measured"


def test_calls_find_a_newer_record_in_the_background(record: FamilyRecord, tmp_path: Path) -> None:
    newer = dataclasses.replace(record, traces=(None, *record.traces[1:]))
    answers = [record.to_json()]
    dense = FamilyKernel(
        FunctionMaker(FamilySpec.parse("dense:M,48,32")),
        lambda *_: answers[-1],
        Target(local_target()),
        _Cache(tmp_path),
        refresh_s=0.001,
    )
    check(dense, 1)
    assert dense.record == record
    answers.append(newer.to_json())
    until = time.monotonic() + 60
    while dense.record == record and time.monotonic() < until:
        check(dense, 1)
        time.sleep(0.01)
    assert dense.record == newer
    check(dense, 1)


def test_a_cache_that_is_damaged_is_made_anew(record: FamilyRecord, tmp_path: Path) -> None:
    def make() -> FamilyKernel:
        spec = FunctionMaker(FamilySpec.parse("dense:M,48,32"))
        return FamilyKernel(spec, lambda *_: record.to_json(), Target(local_target()), _Cache(tmp_path))

    check(make(), 2)
    for file in tmp_path.glob("*.tunefarm"):
        file.write_bytes(file.read_bytes()[:100])
    check(make(), 2)

    def nobody(*_: object) -> None:
        raise ApiError("nobody answers")

    spec = FunctionMaker(FamilySpec.parse("dense:M,48,32"))
    for text in ("{", "[]", '{"format": "tunefarm.family", "version": 1}'):
        for file in tmp_path.glob("*.json"):
            file.write_text(text)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            assert not FamilyKernel(spec, nobody, Target(local_target()), _Cache(tmp_path)).tuned
