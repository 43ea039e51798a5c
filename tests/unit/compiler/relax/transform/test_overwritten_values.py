"""Values that a call writes over share no memory with others, whatever passes do before it."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.relax.interp import run
from tests.kit.compiler.pass_checks import same_values
from tunefarm import relax
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op
from tunefarm.script import tir as T


@T.prim_func(private=True)
def twice(A: T.Buffer((T.int64(8),), "float32")):
    for i in range(T.int64(8)):
        with T.block("twice"):
            v = T.axis.spatial(T.int64(8), i)
            A[v] = A[v] * T.float32(2)


def of_equal_values(bb: BlockBuilder, x: Var) -> tuple[Any, Any]:
    """The value is computed twice."""
    return bb.emit(op.exp(x)), op.exp(x)


def of_a_copy(bb: BlockBuilder, x: Var) -> tuple[Any, Any]:
    """The value is a copy in another shape."""
    whole = bb.emit(op.exp(bb.emit(op.reshape(x, (2, 4)))))
    return bb.emit(op.reshape(whole, (8,))), op.negative(whole)


def of_what_is_copied(bb: BlockBuilder, x: Var) -> tuple[Any, Any]:
    """A copy is made before."""
    value = bb.emit(op.exp(x))
    return value, op.reshape(value, (2, 4))


def of_a_constant(bb: BlockBuilder, x: Var) -> tuple[Any, Any]:
    """The value follows from constants."""
    return bb.emit(op.exp(relax.const(np.arange(8, dtype="float32")))), op.exp(x)


@pytest.mark.parametrize("made_of", [of_equal_values, of_a_copy, of_what_is_copied, of_a_constant])
def test_a_value_that_is_written_over_is_one_of_its_own(made_of: Any) -> None:
    bb, x = BlockBuilder(), Var("x", TensorStructInfo((8,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            value, other = made_of(bb, x)
            kept = bb.emit(other)
            over = bb.emit(
                op.call_tir_inplace(bb.add_func(twice, "twice"), [value], [0], TensorStructInfo((8,), "float32"))
            )
            result = bb.emit_output(relax.Tuple((bb.emit(op.add(over, x)), kept)))
        bb.emit_func_output(result)
    mod = bb.get()
    data = np.linspace(0, 1, 8, dtype="float32")
    wanted = run(mod, data)
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    for _ in range(2):  # what was written over once must be there again
        same_values(tuple(item.numpy() for item in machine["main"](data)), wanted)
