"""Steps of random graphs for operators that no case is for: they call functions, or shapes tell what they give."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from compiler import topi
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import ShapeStructInfo, TensorStructInfo, Var, const
from compiler.relax.op.execution.te_gradients import register_te_gradient
from compiler.runtime.core.ndarray import NDArray, array
from compiler.runtime.core.registry import register_func
from compiler.tir import nodes as n

_DOUBLE, _FILL, _NEGATE = "test.graphs.double", "test.graphs.fill", "test.graphs.negate"
_GRADIENT = "test.graphs.gradient"
_OWN = (3, 4)
"""The shape of what functions of the module take."""


class Maker(Protocol):
    """A source of the values, parameters and random numbers that steps are made of."""

    rng: random.Random
    builder: BlockBuilder

    def any_float(self) -> Var:
        """Some value or parameter of numbers."""

    def parameter(self, *shape: int) -> Var:
        """A parameter of numbers."""

    def symbol(self) -> n.Var:
        """A dimension that is named nowhere yet."""


Step = Callable[[Maker], Any]


# ------------------------------------------------------------------------------ what functions do


def _as_array(value: Any) -> Any:
    return value.numpy() if isinstance(value, NDArray) else value


def _write(target: Any, array: Any) -> None:
    if isinstance(target, NDArray):
        target.copyfrom(array)
    else:
        target[...] = array


def _negate(data: Any) -> Any:
    _write(data, -_as_array(data))
    return data


def _double(data: Any) -> Any:
    result = _as_array(data) * np.float32(2)
    return array(result) if isinstance(data, NDArray) else result


register_func(_DOUBLE, _double, override=True)
register_func(_FILL, lambda data, out: _write(out, _as_array(data) + np.float32(1)), override=True)
register_func(_NEGATE, _negate, override=True)
register_te_gradient(_GRADIENT, lambda grads, x: [grads])


def _small(maker: Maker, shape: tuple[int, ...] = _OWN) -> Var:
    """A value of the graph as a new tensor of `shape` that nothing else reads."""
    return maker.builder.emit(op.add(op.mean(op.tanh(maker.any_float())), maker.parameter(*shape)))


def _tensor(*dims: Any, dtype: str = "float32") -> TensorStructInfo:
    return TensorStructInfo(dims, dtype)


def _in_place(maker: Maker) -> Any:
    data = n.decl_buffer(_OWN, "float32", "data")
    handle, i, j = n.Var("handle", "handle"), n.Var("i"), n.Var("j")
    body: n.Stmt = n.BufferStore(data, data[i, j] * 2.0, (i, j))  # type: ignore[arg-type]
    for var, size in ((j, _OWN[1]), (i, _OWN[0])):
        body = n.For(var, n.IntImm("int32", 0), n.IntImm("int32", size), n.ForKind.SERIAL, body)
    gvar = maker.builder.add_func(n.PrimFunc((handle,), body, None, {handle: data}), "twice")
    return op.call_tir_inplace(gvar, [_small(maker)], 0, _tensor(*_OWN))


def _closure(maker: Maker) -> Any:
    """A private function, its second argument given beforehand."""
    bb = maker.builder
    a, b = Var("a", _tensor(*_OWN)), Var("b", _tensor(*_OWN))
    inner = BlockBuilder()
    with inner.function("inner", [a, b], private=True):
        inner.emit_func_output(inner.emit(op.subtract(a, op.tanh(b))))
    gvar = bb.add_func(inner.get()["inner"], "inner")
    return bb.emit(op.make_closure(gvar, [_small(maker)]))


def attention_by_parts(maker: Maker) -> Any:
    """Attention as exported models have it: products, scale, masks and softmax, of three or four dimensions."""
    bb, rng = maker.builder, maker.rng
    batch, heads, length, keys, width = 2, 3, rng.choice((1, 4)), 5, 4
    outer = (batch, heads) if rng.random() < 0.6 else (heads,)
    front = rng.random() < 0.7  # heads are brought before lengths

    def part(size: int) -> Var:
        if not front:
            return _small(maker, (*outer, size, width))
        lies = (batch, size, heads, width) if len(outer) == 2 else (size, heads, width)
        return bb.emit(op.permute_dims(_small(maker, lies), [0, 2, 1, 3] if len(outer) == 2 else [1, 0, 2]))

    query, key, value = part(length), part(keys), part(keys)
    last = len(outer)
    turned = bb.emit(op.permute_dims(key, [*range(last), last + 1, last]))
    scores = bb.emit(op.matmul(query, turned))
    for _ in range(rng.randrange(3)):
        known = rng.random() < 0.7
        number = const(np.float32(rng.choice((2.0, 0.5)))) if known else bb.emit(op.exp(maker.parameter(1)))
        scores = bb.emit(rng.choice((op.multiply, op.divide))(scores, number))
    for _ in range(rng.randrange(3)):
        shape = rng.choice([(length, keys), (keys,), (heads, 1, keys), (*outer, length, keys)])
        if rng.random() < 0.5:
            scores = bb.emit(op.add(scores, maker.parameter(*shape)))
        else:
            sides = [scores, const(np.float32(-3e38))]
            scores = bb.emit(op.where(op.greater(maker.parameter(*shape), const(np.float32(0))), *sides))
    shares = bb.emit(op.nn.softmax(scores, rng.choice((-1, last + 1))))
    mixed = bb.emit(op.matmul(shares, value))
    if rng.random() < 0.2:  # shares are read once more
        return op.add(op.mean(shares), mixed)
    return op.permute_dims(mixed, [0, 2, 1, 3] if len(outer) == 2 else [1, 0, 2])


# ------------------------------------------------------------------- shapes known when it runs only


def _nonzero(maker: Maker) -> Any:
    numbers = op.concat([op.reshape(op.nn.relu(maker.parameter(3, 5)), (-1,)), const(np.ones(1, "float32"))])
    found = maker.builder.emit(op.nonzero(numbers))
    return op.astype(maker.builder.match_cast(found, _tensor(1, maker.symbol(), dtype="int64")), "float32")


def _unique(maker: Maker) -> Any:
    found = maker.builder.emit(op.unique(op.nn.relu(maker.parameter(3, 5))))
    return maker.builder.match_cast(found, _tensor(maker.symbol()))


def _slice(maker: Maker) -> Any:
    bounds = [const(np.array(bound, "int64")) for bound in ((0, 1), (3, 4), (2, 1))]
    found = maker.builder.emit(op.dynamic_strided_slice(_small(maker), *bounds))
    return maker.builder.match_cast(found, _tensor(maker.symbol(), maker.symbol()))


def _to_shape(maker: Maker) -> Any:
    sizes = (maker.symbol(), maker.symbol())
    found = maker.builder.emit(op.tensor_to_shape(const(np.array([2, 3], "int64"))))
    maker.builder.match_cast(found, ShapeStructInfo(sizes))
    return op.broadcast_to(op.mean(maker.any_float()), sizes)


def _assert(maker: Maker) -> Any:
    value = _small(maker)
    return op.assert_op(maker.builder.emit(op.greater_equal(op.max(value), op.min(value))), [], format="never")


OTHERS: dict[str, Step] = {
    "relax.eye": lambda maker: op.eye(3, 4, 1, dtype="float32"),
    "relax.ones": lambda maker: op.ones((2, 3), "float32"),
    "relax.zeros": lambda maker: op.zeros((4,), "float32"),
    "relax.arange": lambda maker: op.arange(1, 9, 2, "float32"),
    "relax.hamming_window": lambda maker: op.hamming_window(5, True, 0.54, 0.46, "float32"),
    "relax.reshape": lambda maker: op.reshape(maker.any_float(), (-1,)),
    "relax.shape_to_tensor": lambda maker: op.shape_to_tensor(op.shape_of(maker.any_float())),
    "relax.size": lambda maker: op.size(maker.any_float()),
    "relax.shape_of": lambda maker: op.reshape(maker.parameter(2, 6), op.shape_of(_small(maker))),
    "relax.tensor_to_shape": _to_shape,
    "relax.nonzero": _nonzero,
    "relax.unique": _unique,
    "relax.dynamic_strided_slice": _slice,
    "attention by parts": attention_by_parts,
    "relax.call_tir": lambda maker: maker.builder.call_te(topi.nn.relu, maker.any_float()),
    "relax.call_tir_inplace": _in_place,
    "relax.call_tir_with_grad": lambda maker: maker.builder.call_te_with_grad(
        topi.tanh, maker.any_float(), te_grad_name=_GRADIENT
    ),
    "relax.call_pure_packed": lambda maker: op.call_pure_packed(_DOUBLE, _small(maker), sinfo_args=_tensor(*_OWN)),
    "relax.call_dps_packed": lambda maker: op.call_dps_packed(_FILL, [_small(maker)], _tensor(*_OWN)),
    "relax.call_inplace_packed": lambda maker: op.call_inplace_packed(
        _NEGATE, _small(maker), inplace_indices=0, sinfo_args=_tensor(*_OWN)
    ),
    "relax.make_closure": lambda maker: op.invoke_pure_closure(_closure(maker), [_small(maker)], _tensor(*_OWN)),
    "relax.memory.view": lambda maker: op.memory.view(_small(maker), (2, 3), relative_byte_offset=16),
    "relax.memory.ensure_zero_offset": lambda maker: op.memory.ensure_zero_offset(maker.any_float()),
    "relax.to_vdevice": lambda maker: op.to_vdevice(maker.any_float(), "llvm:0"),
    "relax.hint_on_device": lambda maker: op.hint_on_device(maker.any_float(), "llvm:0"),
    "relax.builtin.stop_lift_params": lambda maker: op.builtin.stop_lift_params(maker.any_float()),
    "relax.wrap_param": lambda maker: op.wrap_param(maker.any_float()),
}
"""How a graph gets one of these operators, in a dataflow block."""

AFTER: dict[str, Step] = {
    "relax.invoke_closure": lambda maker: op.invoke_closure(_closure(maker), [_small(maker)], _tensor(*_OWN)),
    "relax.print": lambda maker: op.print(const(np.int64(maker.rng.randrange(9))), format="graph: {}"),
    "relax.assert_op": _assert,
}
"""Operators with side effects, which stand after a dataflow block."""

WITH_ANOTHER = {"relax.invoke_pure_closure": "relax.make_closure"}
"""Operators that come with one of the others."""

NOT_IN_GRAPHS = {
    **dict.fromkeys(
        ("relax.builtin.alloc_tensor", "relax.call_builtin_with_ctx", "relax.memory.alloc_storage",
         "relax.memory.alloc_tensor", "relax.memory.kill_storage", "relax.memory.kill_tensor", "relax.null_value",
         "relax.vm.kill_object"),
        "only lowering writes it",
    ),
    **dict.fromkeys(
        ("relax.ccl.allgather", "relax.ccl.allreduce", "relax.ccl.broadcast_from_worker0",
         "relax.ccl.scatter_from_worker0"),
        "it connects workers, and there is one process",
    ),
}  # fmt: skip
"""Operators that random graphs have not, with the reason."""
