"""Kernels that always work in the same memory: before and after, and on the machine, from several threads."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.ir.base import GlobalVar
from compiler.ir.structural import assert_structural_equal
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from compiler.relax.transform.memory.rewrite_cuda_graph import rewrite_cuda_graph
from compiler.relax.transform.passes import pass_of
from compiler.relax.transform.pipeline import PIPELINES
from tests.kit.compiler.model_graphs import transformer
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


@I.ir_module
class BeforeOfAnySize:
    @T.prim_func(private=True)
    def exp(a: T.handle, b: T.handle):
        m = T.int64()
        A = T.match_buffer(a, (m,), "float32")
        B = T.match_buffer(b, (m,), "float32")
        for i in range(m):
            with T.block("B"):
                v = T.axis.spatial(m, i)
                B[v] = T.exp(A[v])

    @R.function(pure=False)
    def main(x: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
        R.func_attr({"relax.rewrite_cuda_graph.capture_symbolic_vars": ["m"]})
        m = T.int64()
        cls = BeforeOfAnySize
        storage: R.Object = R.memory.alloc_storage(R.shape([512]), 0, "global", "uint8")
        a = R.memory.alloc_tensor(storage, 0, R.shape([m]), "float32")
        cls.exp(x, a)
        b = R.memory.alloc_tensor(storage, 256, R.shape([m]), "float32")
        cls.exp(a, b)
        rows = R.reshape(b, R.shape([1, m]))
        flat = R.reshape(rows, R.shape([m]))
        c = R.memory.alloc_tensor(storage, 0, R.shape([m]), "float32")
        cls.exp(flat, c)
        own: R.Object = R.memory.alloc_storage(R.shape([m]), 0, "global", "float32")
        out = R.memory.alloc_tensor(own, 0, R.shape([m]), "float32")
        cls.exp(c, out)
        return out


@I.ir_module
class AfterOfAnySize:
    @T.prim_func(private=True)
    def exp(a: T.handle, b: T.handle):
        m = T.int64()
        A = T.match_buffer(a, (m,), "float32")
        B = T.match_buffer(b, (m,), "float32")
        for i in range(m):
            with T.block("B"):
                v = T.axis.spatial(m, i)
                B[v] = T.exp(A[v])

    @R.function(pure=False, private=True)
    def cuda_graph_alloc() -> R.Tuple(R.Object):
        storage: R.Object = R.memory.alloc_storage(R.shape([512]), 0, "global", "uint8")
        return (storage,)

    @R.function(pure=False, private=True)
    def cuda_graph_capture(
        storage: R.Object, a: R.Tensor(("m",), "float32"), shape_expr: R.Shape(["m"])
    ) -> R.Tuple(R.Tensor(("m",), "float32")):
        m = T.int64()
        cls = AfterOfAnySize
        b = R.memory.alloc_tensor(storage, 256, R.shape([m]), "float32")
        cls.exp(a, b)
        rows = R.reshape(b, R.shape([1, m]))
        flat = R.reshape(rows, R.shape([m]))
        c = R.memory.alloc_tensor(storage, 0, R.shape([m]), "float32")
        cls.exp(flat, c)
        return (c,)

    @R.function(pure=False)
    def main(x: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
        R.func_attr({"relax.rewrite_cuda_graph.capture_symbolic_vars": ["m"]})
        m = T.int64()
        cls = AfterOfAnySize
        kept = R.call_builtin_with_ctx(
            "vm.builtin.cuda_graph.get_cached_alloc", (cls.cuda_graph_alloc, R.prim_value(0)),
            sinfo_args=R.Tuple(R.Object),
        )  # fmt: skip
        storage = kept[0]
        a = R.memory.alloc_tensor(storage, 0, R.shape([m]), "float32")
        cls.exp(x, a)
        result = R.call_builtin_with_ctx(
            "vm.builtin.cuda_graph.run_or_capture",
            (cls.cuda_graph_capture, (storage, a, R.shape([m])), R.prim_value(1), R.shape([m])),
            sinfo_args=R.Tuple(R.Tensor((m,), "float32")),
        )
        c = result[0]
        own: R.Object = R.memory.alloc_storage(R.shape([m]), 0, "global", "float32")
        out = R.memory.alloc_tensor(own, 0, R.shape([m]), "float32")
        cls.exp(c, out)
        return out


def test_dimensions_that_a_function_names_are_known() -> None:
    with WITH_GRAPHS:
        made = transform.RewriteCUDAGraph()(BeforeOfAnySize)
        main = BeforeOfAnySize["main"].without_attr("relax.rewrite_cuda_graph.capture_symbolic_vars")
        unnamed = BeforeOfAnySize.with_functions({**BeforeOfAnySize.functions, "main": main})
        assert "run_or_capture" not in transform.RewriteCUDAGraph()(unnamed).script()
    assert problems(made) == []
    assert_structural_equal(made, AfterOfAnySize)
    machine = relax.VirtualMachine(relax.build(made, "llvm", relax_pipeline="scheduled"), tvm.cpu())
    for size in (3, 16, 3):
        data = np.linspace(-8, -1, size, dtype="float32")
        same_values(machine["main"](data).numpy(), np.exp(np.exp(np.exp(np.exp(data)))))


def test_of_a_transformer_all_is_taken_but_what_reads_the_argument_and_gives_the_result() -> None:
    """The arena holds queries, keys and values, which reshapes view; weights are the same at every call.

    Left are the first products, the sum beside them, the attention alone between these, and the last product.
    """
    with tvm.target.Target("cuda"), WITH_GRAPHS:
        made = tvm.transform.Sequential(_before_graphs())(transformer(2, 16, 32, 4))
        taken = transform.RewriteCUDAGraph()(made)
    assert problems(taken) == []
    assert _kernels(made["main"]) == 2 * 9 + 1
    assert _kernels(taken["cuda_graph_capture"]) == 2 * 9 + 1 - 6


def _before_graphs() -> list[Any]:
    passes = PIPELINES["default"][: PIPELINES["default"].index(rewrite_cuda_graph)]
    return [pass_of(function).make() for function in passes]


def _kernels(func: Any) -> int:
    values = [binding.value for block in func.body.blocks for binding in block.bindings]
    return sum(isinstance(getattr(value, "op", None), GlobalVar) for value in values)


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
