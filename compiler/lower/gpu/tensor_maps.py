"""The matrices that a kernel reads by tensor memory copies, and in which tiles."""

from __future__ import annotations

from compiler.errors import CodegenError
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.ptx_warpgroup import COPY

Described = tuple[str, tuple[int, int], tuple[int, int]]  # dtype, the matrix's shape, the tile's


def tensor_maps(kernel: n.Stmt) -> dict[n.Var, Described]:
    """By the data variable. Raises CodegenError for one that is copied in different tiles, or is used otherwise too:
    the kernel has no address of it."""
    found: dict[n.Var, Described] = {}
    plain: set[n.Var] = set()
    for node in walk(kernel):
        match node:
            case n.Call(op=op) if getattr(op, "name", "") == COPY:
                data = node.args[2]
                assert isinstance(data, n.Var)
                rows, columns, box_rows, box_columns = (ops.as_int(x) or 0 for x in node.args[5:9])
                described = node.dtype, (rows, columns), (box_rows, box_columns)
                if found.setdefault(data, described) != described:
                    raise CodegenError(f"{data.name} is copied as {described} and as {found[data]} in one kernel")
            case n.BufferLoad() | n.BufferStore():
                plain.add(node.buffer.data)
            case _:
                pass
    for data in found:
        if data in plain:
            raise CodegenError(f"{data.name} is copied by tensor memory copies and used by address in one kernel")
    return found
