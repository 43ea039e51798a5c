"""Small things that programs for Apache TVM give or ask, each under TVM's name."""

from __future__ import annotations

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError
from tunefarm import autotvm, te
from tunefarm import meta_schedule as ms
from tunefarm.runtime import ShapeTuple


def test_shapes_equal_lists_of_the_same_numbers() -> None:
    shape = ShapeTuple([2, 3])
    assert shape == [2, 3] == shape
    assert shape == (2, 3)
    assert shape != [2, 4]
    assert hash(shape) == hash((2, 3))


def test_arrays_are_copied_by_name() -> None:
    array = tvm.nd.empty((2,), "float32")
    array.copyfrom(source_array=np.ones(2, "float32"))
    assert array.copyto(tvm.cpu(), mem_scope="global").numpy().tolist() == [1.0, 1.0]
    with pytest.raises(ArgumentError, match="global memory only"):
        array.copyto(tvm.cpu(), mem_scope="shared")


def test_texts_are_read_by_name() -> None:
    text = "@T.prim_func\ndef f(a: T.Buffer((n,), 'float32')):\n    a[0] = a[1]\n"
    func = tvm.script.from_source(program=text, extra_vars={"n": 4}, check_well_formed=False)
    assert [int(n) for n in func.buffer_map[func.params[0]].shape] == [4]


def test_spaces_of_autotvm_say_how_many_loops_come_out() -> None:
    space = autotvm.task.space
    assert space.SplitSpace.get_num_output([1], num_outputs=3) == 3
    assert space.ReorderSpace.get_num_output([1, 2], policy="all") == 2
    assert space.AnnotateSpace.get_num_output([1, 2, 3]) == 3


def test_loops_are_fused_and_bound_by_an_annotation() -> None:
    a = te.placeholder((4, 4, 8), name="A")
    b = te.compute((4, 4, 8), lambda i, j, k: a[i, j, k] + 1.0, name="B")
    s = te.create_schedule(b.op)
    entity = autotvm.task.space.AnnotateSpace(list(b.op.axis), "bind_gpu")[0]
    left = entity.apply(s, b, b.op.axis)
    assert len(left) == 2
    assert [axis.thread_tag for axis in s[b].leaf_iter_vars] == ["blockIdx.x", "threadIdx.x"]
    bounds = te.schedule.InferBound(s)
    assert [int(bounds[axis].extent) for axis in s[b].leaf_iter_vars] == [16, 8]


def test_a_tuner_takes_its_threshold_of_errors() -> None:
    @autotvm.template("test_parameters_of_tvm/copy")
    def copy(n: int) -> object:
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i], name="B")
        return te.create_schedule(b.op), [a, b]

    task = autotvm.task.create("test_parameters_of_tvm/copy", args=(4,), target="llvm")
    tuner = autotvm.tuner.RandomTuner(task)
    tuner.set_error_threshold(3)
    assert tuner.error_ct_threshold == 3


def test_parameters_are_annotated_with_the_names_of_parts() -> None:
    for part, name in [
        (ms.Builder, "BuilderType"), (ms.Runner, "RunnerType"), (ms.Database, "DatabaseType"),
        (ms.CostModel, "CostModelType"), (ms.SpaceGenerator, "SpaceGeneratorType"),
        (ms.SpaceGenerator, "ScheduleFnType"), (ms.SearchStrategy, "SearchStrategyType"),
        (ms.TaskScheduler, "TaskSchedulerType"), (ms.MeasureCallback, "CallbackListType"),
    ]:  # fmt: skip
        assert getattr(part, name) is not None
