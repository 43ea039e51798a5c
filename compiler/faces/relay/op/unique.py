"""The values of a tensor, each once."""

from __future__ import annotations

from typing import Any

from compiler.faces.relay.op.values import emit
from compiler.faces.relay.table import In, operator
from compiler.relax import op as R
from compiler.relax.block_builder import BlockBuilder
from compiler.te.extern import extern
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.ir_builder import create
from compiler.tir.nodes import Stmt


@operator("unique", results=lambda return_counts, **_: 5 if return_counts else 4)
def unique(data: In, is_sorted: bool = True, return_counts: bool = False) -> Any:
    """Return each value once, with its first place, its number, and how often it comes.

    The results are in Relay's order: values, first places, the number of each element's value, how many values there
    are, and counts.

    The results are as long as the input; unused places hold zeros. Values come in order, or with is_sorted=False as
    they first come.
    """
    builder = BlockBuilder.current()
    assert builder is not None
    found = emit(builder.call_te(_unique, data, R.argsort(data), is_sorted))
    return tuple(emit(found[at]) for at in range(5 if return_counts else 4))


def _unique(data: Tensor, order: Tensor, is_sorted: bool) -> Any:
    size = data.shape[0]

    def body(ins: Any, outs: Any) -> Stmt:
        ib = create()
        given, places = (ib.buffer_ptr(buffer) for buffer in ins)
        values, first, inverse, number, counts = (ib.buffer_ptr(buffer) for buffer in outs)
        with ib.for_range(0, size, "i") as i:
            values[i] = ops.const(0, data.dtype)
            first[i] = 0
            counts[i] = 0
        number[0] = 0
        if is_sorted:
            _in_order(ib, given, places, size, (values, first, inverse, number, counts))
            return ib.get()
        one, start, kind, many, new = (
            ib.allocate(dtype, (size,), name)
            for name, dtype in (
                ("one", data.dtype), ("start", "int32"), ("kind", "int32"), ("many", "int32"), ("new", "int32"),
            )
        )  # fmt: skip
        with ib.for_range(0, size, "i") as i:
            many[i] = 0
        _in_order(ib, given, places, size, (one, start, kind, number, many))
        number[0] = 0
        with ib.for_range(0, size, "i") as i:
            with ib.if_scope(start[kind[i]] == i):
                new[kind[i]] = number[0]
                values[number[0]] = given[i]
                first[number[0]] = i
                counts[number[0]] = many[kind[i]]
                number[0] = number[0] + 1
            inverse[i] = new[kind[i]]
        return ib.get()

    shapes = [(size,), (size,), (size,), (1,), (size,)]
    dtypes = [data.dtype, "int32", "int32", "int32", "int32"]
    return extern(shapes, [data, order], body, name="unique", dtype=dtypes)


def _in_order(ib: Any, given: Any, places: Any, size: Any, results: tuple[Any, ...]) -> None:
    """Go through the elements in order: one that differs from the one before is a value of its own."""
    values, first, inverse, number, counts = results
    with ib.for_range(0, size, "k") as k:
        place = places[k]
        with ib.if_scope(ops.logical_or(k == 0, given[place] != given[places[ops.maximum(k - 1, 0)]])):
            values[number[0]] = given[place]
            first[number[0]] = place
            number[0] = number[0] + 1
        inverse[place] = number[0] - 1
        counts[number[0] - 1] = counts[number[0] - 1] + 1
