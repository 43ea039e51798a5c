"""A kernel that sums, and anything before and after it, become one kernel; it is right, and every sketch takes it."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest

from compiler.interp.interpreter import run as run_kernel
from compiler.ir.transform.passes import Sequential
from compiler.ir.visit import walk
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from compiler.relax.nodes import Call
from compiler.relax.op.core.registry import OPERATORS, OpPatternKind
from compiler.relax.transform.passes import pass_of
from compiler.relax.transform.pipeline import FUSION, get_pipeline
from compiler.target.target import Target
from compiler.tir import nodes as n
from tests.kit.compiler.fused_graphs import ANCHORS, fused_graph
from tests.kit.fuzzing import cases
from tests.kit.tuner.sketch_points import at_point
from tuner.space.generate import generate

TARGETS = ("llvm -mcpu=znver3 -num-cores=2", "llvm -mcpu=skylake-avx512 -num-cores=8")


def kernel_of(graph) -> n.PrimFunc:
    """The one kernel that fusion makes of a graph."""
    mod = Sequential([get_pipeline("zero"), *(pass_of(function).make() for function in FUSION)])(graph.module)
    assert problems(mod) == []
    kernels = [func for func in mod.values() if isinstance(func, n.PrimFunc)]
    values = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    calls = [value for value in values if isinstance(value, Call)]
    assert len(kernels) == 1, mod.script()
    assert len(calls) == 1, mod.script()
    np.testing.assert_allclose(run(mod, *graph.args), run(graph.module, *graph.args), rtol=1e-4, atol=1e-5)
    order = {param: place for place, param in enumerate(mod["main"].params)}
    graph.args[:] = [graph.args[order[item]] for item in calls[0].args[1].fields]
    return kernels[0]


def test_every_operator_that_steps_may_be_fused_to_is_shown() -> None:
    """Two are not: attention over lengths that tensors tell, and batch norms, which have three results."""
    calls = [
        node for name in ANCHORS for node in walk(fused_graph(0, name).module["main"].body) if isinstance(node, Call)
    ]
    kind = OpPatternKind.OUT_ELEMWISE_FUSABLE
    wanted = {name for name, operator in OPERATORS.items() if operator.pattern is kind}
    assert wanted - {call.op.name for call in calls} == {"relax.nn.attention_var_len", "relax.nn.batch_norm"}


@pytest.mark.parametrize("name", ANCHORS)
def test_one_kernel_results_and_every_sketch_takes_it(name: str) -> None:
    for seed in range(cases(1)):
        graph = fused_graph(seed, name)
        func = kernel_of(graph)
        results = list(func.buffer_map.values())[len(graph.args) :]
        outs = [np.zeros([int(size) for size in buffer.shape], "float32") for buffer in results]
        run_kernel(func, *graph.args, *outs)
        rng = np.random.default_rng(zlib.crc32(name.encode()) + seed)
        target = Target(random.Random(f"{name} {seed}").choice(TARGETS))
        sketches = generate(func, target)
        for sketch in sketches:
            point = sketch.random(rng)
            assert point is not None, sketch.name
            scheduled = at_point(func, sketch, point)
            made = [np.zeros_like(out) for out in outs]
            run_kernel(scheduled, *graph.args, *made)
            for array, out in zip(made, outs):
                np.testing.assert_allclose(array, out, rtol=1e-3, atol=1e-4, err_msg=f"{seed} {sketch.name}")
