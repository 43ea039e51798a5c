"""Operands packed ahead of time: which sketches do, the functions that come of it, and how they are measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.artifact import Artifact
from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from compiler.ir.module import IRModule
from compiler.lower.blocks.split_preproc import LAYOUT_FREE, split_layout_rewrite
from compiler.runtime.core.device import cpu
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from rpc_server.executor import trial_subject
from rpc_server.executor.trial import Trials
from rpc_server.wire.messages import Measured
from rpc_server.wire.trial_messages import EvaluatorOptions, FailureKind, MeasureRequest, MeasureResult
from tests.kit.compiler.narrow.products import operands, product
from tests.kit.tuner.sketch_points import at_point, random_point
from tuner.space.generate import generate

SHAPE = (12, 32, 24)
ZEN3, SAPPHIRE = (
    Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu} -num-cores=2") for cpu in ("znver3", "sapphirerapids")
)
HERE = Target("llvm").resolved()


def workload(shape: tuple[int, int, int] = SHAPE, dtype: str = "float32", sums: str = "float32") -> PrimFunc:
    return product(shape, dtype, dtype, sums).with_attr(LAYOUT_FREE, [1])


def candidate(func: PrimFunc, target: Target, name: str) -> PrimFunc:
    [sketch] = [s for s in generate(func, target) if s.name == name]
    point = random_point(sketch, np.random.default_rng(0))
    return at_point(func, sketch, point)


@pytest.mark.parametrize(
    ("target", "name", "shape", "dtype", "sums"),
    [
        (ZEN3, "panels+pack+ahead", SHAPE, "float32", "float32"),
        (ZEN3, "panels+pack2+ahead", SHAPE, "float32", "float32"),
        (ZEN3, "dot_8x2_int16", SHAPE, "int8", "int32"),
        (SAPPHIRE, "amx_s8s8", (16, 16, 64), "int8", "int32"),
    ],
)
def test_two_functions_do_the_work_of_one(target, name, shape, dtype, sums):
    parts = split_layout_rewrite(candidate(workload(shape, dtype, sums), target, name))
    assert parts is not None
    pack, packed = parts
    a, b = operands(shape, dtype, dtype)
    held = packed.buffer_map[packed.params[1]]
    between = np.zeros([int(str(size)) for size in held.shape], held.dtype)
    out = np.zeros(shape[:2], sums)
    run(lower_func(pack, target.vector_bits), b, between)
    run(lower_func(packed, target.vector_bits), a, between, out)
    np.testing.assert_allclose(out, a.astype(sums) @ b.astype(sums), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "offered"), [((400, 48, 1024), True), ((400, 48, 512), False), ((24, 48, 8192), False)]
)
def test_rows_that_leave_the_cache_are_used_a_block_of_their_sums_at_a_time(shape, offered):
    names = {sketch.name for sketch in generate(workload(shape), SAPPHIRE)}
    assert ("deep+pack+ahead" in names) is offered
    assert "panels+pack+ahead" in names


@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_sums_add_up(seed):
    rng = np.random.default_rng(seed)
    target = Target(f"{HERE} -num-cores={1 + seed % 2}")
    rows, columns = int(rng.integers(260, 300)), int(rng.integers(17, 120))
    func = workload((rows, columns, 1024))
    [sketch] = [s for s in generate(func, target) if s.name == "deep+pack+ahead"]
    scheduled = at_point(func, sketch, random_point(sketch, rng))
    parts = split_layout_rewrite(scheduled)
    assert parts is not None
    a, b = operands((rows, columns, 1024), "float32", "float32")
    out = empty((rows, columns))
    load_artifact(compile_artifact(scheduled, target, name="main"))["main"](array(a), array(b), out)
    np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-3, atol=1e-3)


def test_sketches_that_read_the_operand_as_it_lies_make_no_more_functions():
    """Where it can be packed ahead, also for one row, none of them is offered."""
    func = workload().without_attr(LAYOUT_FREE)
    assert split_layout_rewrite(func) is None
    assert split_layout_rewrite(candidate(func, ZEN3, "rows")) is None
    for shape in (SHAPE, (1, 32, 24)):
        assert all("ahead" in sketch.name for sketch in generate(workload(shape), ZEN3))


@pytest.mark.parametrize("positions", [[7], ["B"], []])
def test_positions_of_no_parameter_are_not_heeded(positions):
    func = workload().with_attr(LAYOUT_FREE, positions)
    assert not any("ahead" in sketch.name for sketch in generate(func, ZEN3))


def test_an_artifact_has_all_three():
    module = load_artifact(compile_artifact(candidate(workload(), HERE, "panels+pack+ahead"), HERE, name="f"))
    assert module.get_function_list() == ["f", "f_weight_prepack", "f_prepacked"]
    a, b = map(array, operands(SHAPE, "float32", "float32"))
    whole, parted = empty(SHAPE[:2]), empty(SHAPE[:2])
    module["f"](a, b, whole)
    packed = empty(module["f_prepacked"].entry.args[1].shape)
    module["f_weight_prepack"](b, packed)
    module["f_prepacked"](a, packed, parted)
    np.testing.assert_array_equal(whole.numpy(), parted.numpy())


# -------------------------------------------------------------------------------------- measuring


def test_timed_calls_take_turns_with_copies_of_the_weights(monkeypatch):
    """Packed ones where the candidate packs; the call that is checked writes what is compared."""
    monkeypatch.setattr(trial_subject, "_LEAST_COLD", 1)
    monkeypatch.setattr(trial_subject, "last_level_cache_bytes", lambda: 1 << 14)
    module = load_artifact(compile_artifact(candidate(workload(), HERE, "panels+pack+ahead"), HERE, name="f"))
    given = [*map(array, operands(SHAPE, "float32", "float32")), empty(SHAPE[:2])]
    function, arguments, cold = trial_subject.prepacked(module, module["f"], given, cpu(), (1, 9))
    assert [function.entry.args[at].name for at in cold] == ["B_global"]
    ready = trial_subject.Subject(function, arguments, cpu(), cold)
    assert ready.timed_warm(2) > 0
    assert len(ready._turns) == 1  # a hopeless one needs no copies
    assert ready.timed(1) > 0
    assert len(ready._turns) == 1 + (1 << 14) // arguments[1].nbytes
    bound = [call._arguments[1] for call in ready._turns]
    assert len({call.data_ptr for call in bound}) == len(bound)
    given[2].copyfrom(np.zeros(SHAPE[:2], "float32"))
    assert ready.timed(3) > 0
    np.testing.assert_allclose(given[2].numpy(), given[0].numpy() @ given[1].numpy(), rtol=1e-4, atol=1e-4)
    assert len(trial_subject.Subject(function, arguments, cpu())._turns) == 1


def measured(tmp_path: Path, tried: Artifact, reference: Artifact) -> MeasureResult:
    artifacts = {a.digest: memoryview(a.to_bytes()) for a in (tried, reference)}
    trials = Trials(str(tmp_path), artifacts.get, lambda phase, limit: None)
    request = MeasureRequest(tried.digest, options=EvaluatorOptions(1, 1), reference=reference.digest, timeout_s=60.0)
    answer = trials.run(request)
    assert isinstance(answer, Measured)
    return answer.result


def test_a_trial_checks_and_times_what_was_packed_ahead(tmp_path):
    func = workload()
    right = candidate(func, HERE, "panels+pack+ahead")
    parts = split_layout_rewrite(right)
    assert parts is not None
    other = product(SHAPE, "float32", "float32", "float32", in_between="int32")  # another function
    mixed = compile_artifact(
        IRModule({"main": other, "main_weight_prepack": parts[0], "main_prepacked": parts[1]}), HERE
    )
    reference, strange = (compile_artifact(f, HERE, name="main") for f in (func, other))
    assert measured(tmp_path, compile_artifact(right, HERE, name="main"), reference).ok
    assert measured(tmp_path, mixed, reference).ok
    assert measured(tmp_path, mixed, strange).failure is FailureKind.WRONG_RESULT
