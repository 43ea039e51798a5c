"""How well a model is tuned: from configs, profiles and rooflines; and the picture of its graph."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from compiler.relax.nodes import Function
from compiler.runtime.measure.peaks import Peaks
from compiler.target.target import Target
from tunefarm import relax
from tunefarm.script import relax as R
from tuner.kernels.coverage import REACHED, ModelCoverage, covered, least_seconds
from tuner.kernels.model_version import graph_calls, plan_of_module
from tuner.records.model import BestConfig, BestLookup
from tuner.records.model_store.facts import KernelShare, ModelTask

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def task(name: str, calls: int = 1) -> ModelTask:
    return ModelTask(
        position=0, kind="llvm", workload_id=1, workload_key=name, workload_name=name, flops=1.0, names=(name,),
        calls=calls,
    )  # fmt: skip


def config(cost: float, untuned: float | None) -> BestLookup:
    found = BestConfig(
        id=1, workload_key="k", workload_name="k", flops=1.0, target="llvm", device_class="zen", toolchain="",
        digest="d", trace="[]", cost=cost, low=cost * 0.9, high=cost * 1.1, samples=(cost,), trial_id=1, run_id=1,
        device="box", since=NOW, updated_at=NOW, untuned=untuned,
    )  # fmt: skip
    return BestLookup(match="exact", config=found, explain=())


MISS = BestLookup(match="miss", config=None, explain=())


def test_configs_count_before_profiles_and_what_is_unknown_stays_so() -> None:
    tasks = [task("tuned", 3), task("profiled", 2), task("unknown")]
    found = {"tuned": config(2.0, 8.0), "profiled": MISS, "unknown": MISS}
    tuned, profiled, unknown = covered(tasks, found, [KernelShare(name="profiled", calls=2, seconds=5.0)])
    assert (tuned.how, tuned.seconds, tuned.untuned, tuned.gain) == ("hit", 6.0, 24.0, 0.0)
    assert (profiled.how, profiled.seconds) == ("untuned", 5.0)
    assert profiled.gain == pytest.approx(5.0 * (1 - 1 / 4))  # four times as fast, as the tuned one became
    assert (unknown.seconds, unknown.gain) == (None, None)


def test_with_a_roofline_the_gain_is_up_to_what_tuned_kernels_reach() -> None:
    shares = [
        KernelShare(name="tuned", calls=1, seconds=4.0, roofline=0.4),  # profiled before it was tuned
        KernelShare(name="slow", calls=1, seconds=10.0, roofline=0.2),
    ]
    tuned, slow = covered([task("tuned"), task("slow")], {"tuned": config(2.0, 4.0), "slow": MISS}, shares)
    assert tuned.roofline == pytest.approx(0.8)
    assert slow.gain == pytest.approx(10.0 * (1 - 0.2 / 0.8))
    [alone] = covered([task("slow")], {"slow": MISS}, shares)
    assert alone.gain == pytest.approx(10.0 * (1 - 0.2 / REACHED))


def test_the_roofline_of_a_kernel_is_of_the_class_and_of_what_a_build_chooses_today() -> None:
    shares = [KernelShare(name="tuned", calls=1, seconds=4.0, roofline=0.9)]  # on a busy machine, before it was tuned
    tasks = [task("tuned", 2), task("small", 3), task("unknown")]
    least = least_seconds(tasks, Peaks(flops=2.0, bytes=100.0), {"tuned": 50, "small": 150})
    assert least == {"tuned": 0.5, "small": 1.5, "unknown": 0.5}
    found = {"tuned": config(2.0, 4.0), "small": config(1.0, 4.0), "unknown": MISS}
    tuned, small, unknown = covered(tasks, found, shares, least)
    assert (tuned.roofline, small.roofline, unknown.roofline) == (0.25, 1.0, None)  # no more than all of it
    assert tuned.gain == pytest.approx(2 * 2.0 * (1 - 0.25 / 0.625))
    assert least_seconds(tasks, None, {}) == {}


def test_kernels_of_a_version_that_nobody_profiled_take_what_they_took_in_another_one() -> None:
    tasks = [task("same", 3), task("tuned"), task("new")]
    found = {"same": MISS, "tuned": config(2.0, 4.0), "new": MISS}
    same, tuned, new = covered(tasks, found, [], elsewhere={"same": 0.5, "tuned": 9.0})
    assert (same.seconds, tuned.seconds, new.seconds) == (1.5, 2.0, None)
    whole = ModelCoverage(cast(Any, None), "llvm", "zen", (same, tuned, new), None)
    assert (whole.untimed, whole.seconds) == (1, None)
    assert whole.gain == pytest.approx(1.5 / 2)
    assert ModelCoverage(cast(Any, None), "llvm", "zen", (new,), None).gain is None


def test_a_config_that_is_slower_than_the_function_is_built_as_written() -> None:
    [kernel] = covered([task("k")], {"k": config(3.0, 1.0)}, [])
    assert (kernel.how, kernel.seconds) == ("as written", 1.0)


def test_the_graph_names_kernels_and_whose_results_they_take() -> None:
    x = relax.Var("x", R.Tensor((64, 64), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            left = builder.emit(relax.op.matmul(x, x))
            right = builder.emit(relax.op.matmul(left, x))
            both = builder.emit(relax.op.matmul(left, right))
            out = builder.emit_output(both)
        builder.emit_func_output(out)
    plan = plan_of_module(builder.get(), Target("llvm"))
    calls = [call for call in plan.graph if call.workload]
    assert [(call.name, call.inputs) for call in calls] == [("matmul", ()), ("matmul", (0,)), ("matmul", (0, 1))]
    assert [(kernel.weight, kernel.key) for kernel in plan.kernels] == [(3, calls[0].workload)]


def test_branches_and_plain_operators_are_in_the_graph() -> None:
    from tunefarm.script import ir as I

    @I.ir_module
    class Net:
        @R.function
        def main(x: R.Tensor((4,), "float32"), which: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
            y = R.add(x, x)
            if which:
                z = R.exp(y)
            else:
                z = R.multiply(y, x)
            return R.negative(z)

    main = Net["main"]
    assert isinstance(main, Function)
    found = [(call.name, call.inputs) for call in graph_calls(main, {})]
    assert [name for name, _ in found] == ["add", "exp", "multiply", "negative"]
    assert found[1][1] == found[2][1] == (0,)
    assert found[3][1] == (1, 2)
