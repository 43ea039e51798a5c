"""The features of stores, and the model that learns from them how fast candidates are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tests.kit.compiler.schedules import workloads as w
from tunefarm import meta_schedule as ms
from tunefarm import te, tir
from tunefarm.meta_schedule.cost_model import CostModel, XGBConfig, XGBModel
from tunefarm.meta_schedule.cost_model.metric import max_curve
from tunefarm.meta_schedule.feature_extractor import FeatureExtractor, PerStoreFeature, RandomFeatureExtractor
from tuner.errors import TuningError
from tuner.faces.meta_schedule.tasks_run import guide_of
from tuner.model.quality import rank_quality

TARGET = "llvm -mcpu=x86-64-v3 -num-cores=1"
FIRST = 57  # where the buffers begin
BUFFER = 18
CURVE = FIRST + 5 * BUFFER
NAMES = [
    "read", "write", "readwrite", "bytes", "unique_bytes", "lines", "unique_lines", "loop", "serial", "none",
    "iterations", "between", "times", "bytes_a_time", "unique_bytes_a_time", "lines_a_time", "unique_lines_a_time",
    "stride",
]  # fmt: skip


def rows(schedule: Any, **options: Any) -> np.ndarray[Any, Any]:
    context = ms.TuneContext(schedule.mod, target=TARGET)
    candidate = ms.MeasureCandidate(schedule, [])
    return np.asarray(PerStoreFeature(**options).extract_from(context, [candidate])[0].numpy())


def count(number: float) -> float:
    return float(np.log2(number + 1))


def buffer(row: np.ndarray[Any, Any], place: int) -> dict[str, float]:
    return dict(zip(NAMES, row[FIRST + BUFFER * place :], strict=False))


# -- the numbers were seen on TVM 0.17 ---------------------------------------------------------------------
def test_a_product_as_written() -> None:
    (row,) = rows(tir.Schedule(w.matmul(512, 512, 512)))
    assert len(row) == PerStoreFeature().feature_vector_length == 164
    assert row[1] == row[2] == pytest.approx(27.0)  # additions and products
    assert row[16:27].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]  # no vectors
    assert row[49] == 0  # not on a GPU
    b, a, c = (buffer(row, place) for place in range(3))
    assert (b["read"], b["lines"], b["stride"], b["iterations"], b["between"], b["times"]) == pytest.approx(
        (1, 27, 9.0028, 18, 20.0056, 9.0028), abs=1e-4
    )
    assert (a["lines"], a["stride"], a["iterations"], a["between"]) == pytest.approx((23, 1, 9.0028, 12.0018), abs=1e-4)
    assert (c["readwrite"], c["lines"], c["stride"], c["between"]) == pytest.approx((1, 14.0001, 0, 3.7004), abs=1e-4)
    assert row[CURVE : CURVE + 10] == pytest.approx(
        [3.2975, 4.1963, 4.7459, 5.1429, 5.4539, 5.7096, 5.9268, 6.1155, 6.2823, 6.4318], abs=1e-4
    )
    assert row[-7:] == pytest.approx([20, 18, 1, 27, 27, 2, 0], abs=1e-4)


def test_annotated_loops_and_the_arithmetic_of_indices() -> None:
    schedule = tir.Schedule(w.matmul(512, 512, 512))
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    (i0, i1), (j0, j1), (k0, k1) = (schedule.split(at, [None, by]) for at, by in ((i, 32), (j, 16), (k, 4)))
    schedule.reorder(i0, j0, k0, i1, k1, j1)
    outer = schedule.fuse(i0, j0)
    schedule.parallel(outer)
    schedule.vectorize(j1)
    schedule.unroll(k1)
    schedule.annotate(outer, "pragma_auto_unroll_max_step", 64)
    (row,) = rows(schedule)
    assert row[8] == row[9] == pytest.approx(29.585, abs=1e-4)
    assert row[10] == pytest.approx(29)
    for start, extent in ((16, 16), (27, 4), (38, 512)):
        assert row[start : start + 3] == pytest.approx([1, count(extent), count(extent)])
        assert row[start + 10] == 1
    assert row[-2:] == pytest.approx([count(5), count(64)])


def test_temporaries_count_as_far_as_they_live() -> None:
    schedule = tir.Schedule(w.matmul(128, 128, 128))
    block = schedule.get_block("C")
    copy = schedule.cache_write(block, 0, "global")
    i, j, k = schedule.get_loops(block)
    _, i1 = schedule.split(i, [None, 32])
    schedule.reorder(j, k, i1)
    schedule.reverse_compute_at(copy, j)
    schedule.decompose_reduction(block, k)
    product, back = rows(schedule)
    assert buffer(product, 1)["unique_bytes"] == pytest.approx(count(128))
    assert product[-7:] == pytest.approx([count(128), count(2**14), count(512), count(4096), 21, count(4), 0], abs=1e-4)
    assert back[1] == 0
    assert buffer(back, 0)["none"] == 1


def test_an_earlier_store_in_the_same_loop_uses_an_element_first() -> None:
    a = te.placeholder((64, 100), name="A")
    c = te.compute((64, 100), lambda i, j: te.exp(a[i, j]), name="C")
    d = te.compute((100, 64), lambda i, j: c[j, i] - a[j, i], name="D")
    schedule = tir.Schedule(te.create_prim_func([a, d]))
    schedule.compute_at(schedule.get_block("C"), schedule.get_loops(schedule.get_block("D"))[0])
    _, second = rows(schedule)
    again = buffer(second, 0)
    assert (again["serial"], again["iterations"], again["between"], again["times"]) == pytest.approx(
        (1, 6.0224, 9.5964, 1), abs=1e-4
    )


def test_threads_of_a_gpu() -> None:
    schedule = tir.Schedule(w.matmul(256, 256, 256))
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    (bi, ti), (bj, tj) = schedule.split(i, [None, 16]), schedule.split(j, [None, 8])
    schedule.reorder(bi, bj, ti, tj, k)
    for loop, thread in ((bi, "blockIdx.y"), (bj, "blockIdx.x"), (ti, "threadIdx.y"), (tj, "threadIdx.x")):
        schedule.bind(loop, thread)
    (row,) = rows(schedule)
    assert row[49:57] == pytest.approx([1, count(32), count(16), 1, count(8), count(16), 1, 1])


def test_fewer_buffers_and_samples_and_the_whole_workload() -> None:
    schedule = tir.Schedule(w.matmul(64, 64, 64))
    assert rows(schedule, buffers_per_store=2, arith_intensity_curve_num_samples=4).shape == (1, 104)
    (row,) = rows(schedule, extract_workload=True)
    assert len(row) == 172
    assert row[164:] == pytest.approx([0, 18, 18, 0, 0, 0, 0, 0], abs=1e-4)
    assert isinstance(FeatureExtractor.create(), PerStoreFeature)
    with pytest.raises(ValueError, match="no feature extractor 'mine'"):
        FeatureExtractor.create("mine")
    with pytest.raises(TuningError, match="at least one buffer"):
        PerStoreFeature(0)


# -- the model ---------------------------------------------------------------------------------------------
def drawn(size: int, number: int, seed: int) -> tuple[Any, list[Any], np.ndarray[Any, Any]]:
    """A context, candidates of its space, and their costs by the analytic draft, which stands for a machine."""
    context = ms.TuneContext(w.matmul(size, size, size), target=TARGET)
    sketches = context.sketches()
    guide = guide_of(context.task, sketches, "xgb")
    assert guide is not None
    guide._model = None
    rng = np.random.default_rng(seed)
    candidates, costs = [], []
    while len(candidates) < number:
        sketch = sketches[rng.integers(len(sketches))]
        point = tuple(int(rng.integers(len(decision.values))) for decision in sketch.decisions)
        try:
            schedule = tir.Schedule.replay(context.mod, tvm.tir.schedule.Trace.from_json(sketch.trace_json(point)))
        except tvm.TVMError:
            continue
        candidates.append(ms.MeasureCandidate(schedule, []))
        costs.append(2.0 ** -float(guide.describe(sketch, [point])[1][0]))
    return context, candidates, np.array(costs)


def results(costs: Any) -> list[Any]:
    return [ms.runner.RunnerResult([float(cost)], None) for cost in costs]


def test_it_ranks_candidates_that_it_has_not_seen() -> None:
    context, candidates, costs = drawn(64, 120, seed=1)
    model = XGBModel(num_warmup_samples=50)
    before = rank_quality(model.predict(context, candidates[80:]), costs[80:])
    model.update(context, candidates[:80], results(costs[:80]))
    scores = model.predict(context, candidates[80:])
    after = rank_quality(scores, costs[80:])
    assert abs(before.spearman) < 0.5  # drawn at random
    assert after.spearman > 0.6
    assert (model.data_size, model.last_train_size) == (80, 80)


def test_it_is_saved_with_what_it_learnt(tmp_path: Path) -> None:
    context, candidates, costs = drawn(32, 30, seed=2)
    model = XGBModel(num_warmup_samples=2)
    model.update(context, candidates[:20], results(costs[:20]))
    model.save(str(tmp_path / "model"))
    again = XGBModel(num_warmup_samples=2)
    again.load(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(context, candidates), model.predict(context, candidates))
    assert list(again.data) == list(model.data)
    (tmp_path / "other").write_text("no model")
    with pytest.raises(TuningError, match="other holds no cost model"):
        again.load(str(tmp_path / "other"))


def test_a_failed_candidate_scores_least() -> None:
    context, candidates, costs = drawn(32, 12, seed=3)
    model = XGBModel(num_warmup_samples=1, config=XGBConfig(max_depth=3, eta=0.3))
    failed = [ms.runner.RunnerResult(None, "it broke")] * 6
    model.update(context, candidates, [*failed, *results(costs[6:])])
    scores = model.predict(context, candidates)
    assert scores[:6].mean() < scores[6:].mean()
    with pytest.raises(TuningError, match="1 candidates have 0 results"):
        model.update(context, candidates[:1], [])


def test_it_is_fitted_again_when_a_fifth_is_new() -> None:
    context = ms.TuneContext(w.matmul(8, 8, 8), target=TARGET)
    candidates = [ms.MeasureCandidate(tir.Schedule(context.mod), [])] * 10
    model = XGBModel(extractor=RandomFeatureExtractor(), num_warmup_samples=2)
    for number, trained in ((10, 10), (1, 10), (1, 12)):
        model.update(context, candidates[:number], results(np.arange(1, number + 1)))
        assert model.last_train_size == trained
    assert len(model.predict(context, candidates)) == 10


def test_models_by_name() -> None:
    assert isinstance(CostModel.create("xgb"), XGBModel)
    assert isinstance(CostModel.create("mlp"), XGBModel)
    assert CostModel.create("none") is None
    assert list(XGBConfig().to_dict())[:2] == ["max_depth", "gamma"]
    with pytest.raises(ValueError, match="no cost model 'oracle'"):
        CostModel.create("oracle")
    assert max_curve(np.array([3.0, 1.0, 5.0, 2.0])).tolist() == [3, 3, 5, 5]
    assert ms.TuneContext(w.matmul(8, 8, 8), target="cuda -arch=sm_80").mod is not None
