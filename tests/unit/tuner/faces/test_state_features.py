"""Features of auto_scheduler's states: names, rows, and what logs give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import auto_scheduler, te
from tunefarm.auto_scheduler import feature


@auto_scheduler.register_workload
def feature_product(size: int) -> list[Any]:
    a, b = te.placeholder((size, size), name="A"), te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return [a, b, c]


def task(size: int = 512) -> Any:
    hardware = auto_scheduler.HardwareParams(4, 64, 64, 0, 0, 0, 0, 0)
    return auto_scheduler.SearchTask(
        func=feature_product, args=(size,), target=tvm.target.Target("llvm"), hardware_params=hardware
    )


def named(state: Any, size: int = 512) -> dict[str, float]:
    (rows,) = feature.get_per_store_features_from_states([state], task(size))
    assert rows.shape == (1, 164)
    return dict(zip(feature.get_per_store_feature_names(), rows[0], strict=True))


def test_a_state_without_steps() -> None:
    """The numbers were seen on TVM 0.17."""
    row = named(task().compute_dag.get_init_state())
    wanted = {
        "float_addsub": 27, "float_mul": 27, "vec_type.kPosNone": 1, "B0.acc_type.kRead": 1, "B0.bytes": 29,
        "B0.lines": 27, "B0.reuse_dis_iter": 18, "B0.stride": 9.0028, "B1.lines": 23, "B2.acc_type.kReadWrite": 1,
        "arith_intensity_curve_0": 3.2975, "alloc_size": 20, "outer_prod": 27, "num_loops": 2,
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == pytest.approx(wanted, abs=1e-4)


def test_steps_of_a_state_are_seen() -> None:
    state = task().compute_dag.get_init_state()
    product = state.stage_ops[2]
    i, _, _ = state[product].iters
    outer, _ = state.split(product, i, [16])
    state.parallel(product, outer)
    row = named(state)
    assert row["num_loops"] == pytest.approx(np.log2(5))
    assert row["parallel_num"] == 1
    assert row["parallel_len"] == pytest.approx(np.log2(33))


def test_measured_states(tmp_path: Path) -> None:
    work = task(16)
    states = [work.compute_dag.get_init_state() for _ in range(3)]
    inputs = [auto_scheduler.MeasureInput(work, state) for state in states]
    results = [
        auto_scheduler.MeasureResult([cost], error, "", 0.1, 1.0) for cost, error in ((0.2, 0), (0.1, 0), (1e9, 4))
    ]
    features, shares, tasks = feature.get_per_store_features_from_measure_pairs(inputs, results, 1)
    assert [len(rows) for rows in features] == [0, 1, 1]
    assert shares.tolist() == [0.5, 1.0, 0.0]
    assert tasks.tolist() == [0, 0, 0]
    log = str(tmp_path / "log.json")
    auto_scheduler.save_records(log, inputs[:2], results[:2])
    features, shares, _ = feature.get_per_store_features_from_file(log, 10, max_n_bufs=2)
    assert [rows.shape for rows in features] == [(1, 110), (1, 110)]
    assert shares.tolist() == [0.5, 1.0]
    assert len(feature.get_per_store_feature_names(2)) == 110


def test_features_of_a_function_are_plain_numbers() -> None:
    func = te.create_prim_func(feature_product(64))
    named = feature.named_features_from_primfunc(func)
    assert (named["num_loops"][0], named["outer_prod"][0], named["B0.stride"][0]) == pytest.approx((3, 64**3, 64))
    assert named["vec_type.kPosNone"][0] == 1
    logarithms = feature.features_from_primfunc(func, max_n_bufs=2, log_scale=True)
    assert logarithms.shape == (1, 110)
    assert logarithms[0, -2] == 2
