"""Random graphs of concatenations: nothing is overwritten that is still read, whichever of them copy nothing."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import TensorStructInfo, Var
from tests.kit.fuzzing import cases
from tunefarm import relax

GRAPHS = cases(40)


def made(seed: int) -> tuple[Any, Any]:
    """A graph over `x` of 1 × 16 × side × side, and what numpy makes of it."""
    rng = random.Random(seed)
    side = rng.choice((2, 3, 4))
    x = Var("x", TensorStructInfo((1, 16, side, side), "float32"))
    data = np.random.default_rng(seed).uniform(-1, 1, (1, 16, side, side)).astype("float32")
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            values: list[tuple[Any, Any]] = [(x, data)]
            joined: list[tuple[Any, Any]] = []
            for _ in range(rng.randrange(4, 24)):
                kind, (value, array) = rng.randrange(7), rng.choice(values[-6:])
                if kind == 0:
                    values.append((bb.emit(op.nn.relu(value)), np.maximum(array, 0)))
                elif kind == 1:
                    values.append((bb.emit(op.negative(value)), -array))
                elif kind == 2:
                    same = [other for other in values if other[1].shape == array.shape]
                    other, more = rng.choice(same)
                    values.append((bb.emit(op.add(value, other)), array + more))
                elif kind == 3:  # a view
                    flat = bb.emit(op.reshape(value, (array.size,)))
                    values.append((bb.emit(op.reshape(flat, array.shape)), array))
                elif kind == 4 and joined:  # one more behind those of before, as layers of a network do
                    held = [*joined[-1], (value, array)]
                    joined.append(held)  # type: ignore[arg-type]
                    values.append(together(bb, held))
                else:
                    held = [rng.choice(values) for _ in range(rng.randrange(2, 5))]
                    joined.append(held)  # type: ignore[arg-type]
                    values.append(together(bb, held))
            total, wanted = None, None
            for value, array in values[1:]:
                total_of, sums = bb.emit(op.mean(value, axis=[1])), array.mean(1)
                total = total_of if total is None else bb.emit(op.add(op.multiply(total, const(0.5)), total_of))
                wanted = sums if wanted is None else wanted * 0.5 + sums
            out = bb.emit_output(total)
        bb.emit_func_output(out)
    return bb.get(), (data, wanted)


def const(value: float) -> Any:
    return relax.const(value, "float32")


def together(bb: BlockBuilder, held: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    value = bb.emit(op.concat([value for value, _ in held], axis=1))
    return value, np.concatenate([array for _, array in held], 1)


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_concatenations(seed: int) -> None:
    module, (data, wanted) = made(seed)
    machine = relax.VirtualMachine(relax.build(module, "llvm", exec_mode="compiled"), tvm.cpu())
    found = machine["main"](tvm.nd.array(data)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
