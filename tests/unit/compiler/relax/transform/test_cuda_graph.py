"""Kernels that always work in the same memory: before and after, and on the machine, from several threads."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.ir.structural import assert_structural_equal
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from tests.kit.compiler.pass_checks import same_values
from tests.kit.compiler.random_graphs import random_graph
from tunefarm import relax
from tunefarm.relax import transform
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T

WITH_GRAPHS = tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True})


@I.ir_module
class Before:
    @T.prim_func(private=True)
    def exp(A: T.Buffer((T.int64(8),), "float32"), B: T.Buffer((T.int64(8),), "float32")):
        for i in range(T.int64(8)):
            with T.block("B"):
                v = T.axis.spatial(T.int64(8), i)
                B[v] = T.exp(A[v])

    @R.function(pure=False)
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Before
        storage: R.Object = R.memory.alloc_storage(R.shape([64]), 0, "global", "uint8")
        a = R.memory.alloc_tensor(storage, 0, R.shape([8]), "float32")
        cls.exp(x, a)
        b = R.memory.alloc_tensor(storage, 32, R.shape([8]), "float32")
        cls.exp(a, b)
        R.memory.kill_tensor(a)
        c = R.memory.alloc_tensor(storage, 0, R.shape([8]), "float32")
        cls.exp(b, c)
        own: R.Object = R.memory.alloc_storage(R.shape([8]), 0, "global", "float32")
        out = R.memory.alloc_tensor(own, 0, R.shape([8]), "float32")
        cls.exp(c, out)
        R.memory.kill_storage(storage)
        return out


@I.ir_module
class After:
    @T.prim_func(private=True)
    def exp(A: T.Buffer((T.int64(8),), "float32"), B: T.Buffer((T.int64(8),), "float32")):
        for i in range(T.int64(8)):
            with T.block("B"):
                v = T.axis.spatial(T.int64(8), i)
                B[v] = T.exp(A[v])

    @R.function(pure=False, private=True)
    def cuda_graph_alloc() -> R.Tuple(R.Object):
        storage: R.Object = R.memory.alloc_storage(R.shape([64]), 0, "global", "uint8")
        return (storage,)

    @R.function(pure=False, private=True)
    def cuda_graph_capture(storage: R.Object, a: R.Tensor((8,), "float32")) -> R.Tuple(R.Tensor((8,), "float32")):
        cls = After
        b = R.memory.alloc_tensor(storage, 32, R.shape([8]), "float32")
        cls.exp(a, b)
        R.memory.kill_tensor(a)
        c = R.memory.alloc_tensor(storage, 0, R.shape([8]), "float32")
        cls.exp(b, c)
        return (c,)

    @R.function(pure=False)
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = After
        kept = R.call_builtin_with_ctx(
            "vm.builtin.cuda_graph.get_cached_alloc", (cls.cuda_graph_alloc, R.prim_value(0)),
            sinfo_args=R.Tuple(R.Object),
        )  # fmt: skip
        storage = kept[0]
        a = R.memory.alloc_tensor(storage, 0, R.shape([8]), "float32")
        cls.exp(x, a)
        result = R.call_builtin_with_ctx(
            "vm.builtin.cuda_graph.run_or_capture", (cls.cuda_graph_capture, (storage, a), R.prim_value(1)),
            sinfo_args=R.Tuple(R.Tensor((8,), "float32")),
        )  # fmt: skip
        c = result[0]
        own: R.Object = R.memory.alloc_storage(R.shape([8]), 0, "global", "float32")
        out = R.memory.alloc_tensor(own, 0, R.shape([8]), "float32")
        cls.exp(c, out)
        return out


def test_kernels_in_memory_that_stays_become_a_function() -> None:
    assert transform.RewriteCUDAGraph()(Before) is Before
    with tvm.target.Target("cuda"), WITH_GRAPHS:
        made = transform.RewriteCUDAGraph()(Before)
    assert problems(made) == []
    assert_structural_equal(made, After)
    with WITH_GRAPHS:
        assert_structural_equal(transform.RewriteCUDAGraph()(_symbolic()), _symbolic())


def _symbolic() -> Any:
    """Memory whose size only a call tells."""

    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        storage: R.Object = R.memory.alloc_storage(R.shape([n]), 0, "global", "float32")
        a = R.memory.alloc_tensor(storage, 0, R.shape([n]), "float32")
        return a

    return tvm.IRModule({"main": main})


@pytest.mark.parametrize("seed", [14, 18])
def test_random_graphs_compute_what_they_did_from_several_threads(seed: int) -> None:
    graph = random_graph(seed, count=12, symbolic=False)
    weights = graph.module.with_functions({"main": graph.module["main"].with_attr("num_input", 1)})
    wanted = run(graph.module, *graph.args)
    with WITH_GRAPHS:
        executable = relax.build(weights, "llvm", tir_pipeline=None)
    assert "vm.builtin.cuda_graph.run_or_capture" in executable.as_text()
    machine = relax.VirtualMachine(executable, tvm.cpu())
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda _: machine["main"](*graph.args), range(8)):
            same_values(_arrays(found), wanted)


def _arrays(value: Any) -> Any:
    return tuple(map(_arrays, value)) if isinstance(value, tuple) else np.asarray(value.numpy())
