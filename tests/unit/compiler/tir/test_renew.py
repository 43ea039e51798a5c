"""Copies of functions that share no definition with the original."""

from __future__ import annotations

from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.renew import renew_defs
from compiler.tir.visit import free_vars


def test_a_shape_made_of_a_later_buffers_sizes_is_renewed_with_them() -> None:
    size = n.Var("n", "int64")
    first = n.decl_buffer((ops.add(size, ops.const(1, "int64")),), "float32", "first")
    second = n.decl_buffer((size,), "float32", "second")
    params = n.Var("a", "handle"), n.Var("b", "handle")
    func = n.PrimFunc(params, n.Evaluate(size), None, dict(zip(params, (first, second))))
    made = renew_defs(func)
    shapes = [buffer.shape[0] for buffer in made.buffer_map.values()]
    assert shapes[1] is not size
    assert free_vars(shapes[0]) == {shapes[1]} == free_vars(made.body)
