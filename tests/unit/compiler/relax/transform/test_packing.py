"""Weights packed when a graph is built: kernels that pack become two, and what packs constants runs at once."""

from typing import Any

import numpy as np

import tunefarm as tvm
from compiler.driver.graph import build_graph
from compiler.ir.transform.passes import Sequential
from compiler.lower.blocks.split_preproc import LAYOUT_FREE, PREPROC
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from compiler.relax.vm_codegen.bytecode import write_functions
from compiler.runtime.vm.exec_builder import ExecBuilder
from compiler.tir import nodes as n
from tunefarm import relax, tir
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op, transform

SIZE = 24
RNG = np.random.default_rng(0)


def weight(size: int = SIZE) -> Any:
    return relax.const(RNG.uniform(-1, 1, (size, size)).astype("float32"))


def products(*weights: Any, size: int = SIZE, inputs: int | None = None) -> Any:
    """x times each of the matrices, one after the other; None stands for a parameter."""
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo((size, size), "float32"))
    params = [Var(f"p{i}", TensorStructInfo((size, size), "float32")) for i, w in enumerate(weights) if w is None]
    left = iter(params)
    attrs = {} if inputs is None else {"num_input": inputs}
    with bb.function("main", [x, *params], attrs=attrs):
        with bb.dataflow():
            data: Any = x
            for w in weights:
                data = bb.emit(op.matmul(data, next(left) if w is None else w))
            out = bb.emit_output(op.nn.relu(data))
        bb.emit_func_output(out)
    return transform.LegalizeOps()(bb.get())


def free(mod: Any) -> Any:
    return mod["matmul"].attrs.get(LAYOUT_FREE)


def packing(func: n.PrimFunc) -> n.PrimFunc:
    """The product, its second operand turned and padded first."""
    sch = tir.Schedule(func)
    copy = sch.cache_read(sch.get_block("T_matmul"), 1, "global")
    sch.transform_layout(sch.get_block("T_matmul"), ("read", 1), lambda k, j: (j // 8, k, j % 8))
    sch.annotate(copy, PREPROC, True)
    return sch.mod["main"]  # type: ignore[no-any-return]


def test_arguments_are_free_where_every_call_gives_a_weight() -> None:
    attach = transform.AttachAttrLayoutFreeBuffers
    assert free(attach()(products(weight(), weight()))) == (1,)
    assert free(attach()(products(weight(), None))) is None
    assert free(attach()(products(weight(), None, inputs=1))) == (1,)
    assert free(attach(constants_only=True)(products(weight(), None, inputs=1))) is None


def test_constants_are_packed_when_the_graph_is_built() -> None:
    same = weight()
    noted = transform.AttachAttrLayoutFreeBuffers()(products(same, weight(), same))
    noted["matmul"] = packing(noted["matmul"])
    split = transform.SplitLayoutRewritePreproc()(noted)
    assert problems(split) == []
    packed = Sequential([transform.FoldConstant(), transform.DeadCodeElimination()])(split)
    assert [name.name_hint for name in packed.functions if "matmul" in name.name_hint] == ["matmul_prepacked"]
    x = RNG.uniform(-1, 1, (SIZE, SIZE)).astype("float32")
    wanted = run(noted, x)
    np.testing.assert_allclose(run(split, x), wanted, rtol=1e-5)
    np.testing.assert_allclose(run(packed, x), wanted, rtol=1e-5)
    lowered = relax.get_pipeline("scheduled")(split)
    builder = ExecBuilder()
    write_functions(lowered, builder)
    shapes = [item.shape for item in builder.program({}, "llvm").constants if np.ndim(item) == 3]
    assert shapes == [(3, 24, 8)] * 2  # equal constants are kept once


def test_builds_keep_weights_packed() -> None:
    size = 64
    module = products(weight(size), weight(size), size=size)
    x = RNG.uniform(-1, 1, (size, size)).astype("float32")
    built = build_graph(module, tvm.target.Target("llvm -num-cores=2"), exec_mode="compiled")
    made = relax.VirtualMachine(built, tvm.cpu())["main"](x).numpy()
    np.testing.assert_allclose(made, run(module, x), rtol=1e-4, atol=1e-4)
