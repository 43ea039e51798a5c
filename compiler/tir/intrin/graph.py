"""Operations of functions made of whole graphs: call kernels, find constants, check, copy.

They are lowered already.

A *cell* is memory of a size that a function only learns while it runs. It is words of 64 bits: an address, the
number of bytes there, and the extents of the array in it.
"""

from __future__ import annotations

from compiler.ir.base import Op
from compiler.tir import nodes as n

FLOPS = "flops"
"""The arithmetic of a kernel's call, as text over its extents."""
RESULTS = "graph.results"
"""How many of the last parameters are results. A function with this attribute is made of a graph."""
WRITTEN = "graph.written"
"""The parameters that are written besides results, by position."""
CHECKS = "graph.checks"
"""What a failed check says, by number."""
CONSTANTS = "graph.constants"
"""The size of the model's table of constants."""
CELLS = "graph.cells"
"""Results that the function makes memory for, whose parameters are cells: the parameter's position, dtype and number of
dimensions of each."""
CELL_SCOPE = "graph.cell"
"""The scope of the allocation of a cell. The memory in it is freed when the function ends."""
CELL_HEAD = 2
"""How many words of a cell stand before the extents."""
WORD_BYTES = 8

for _name in ("graph_constant", "graph_value"):
    Op.register(f"tir.{_name}", pure=True)
for _name in ("graph_check", "graph_copy", "graph_reserve", "graph_put"):
    Op.register(f"tir.{_name}", pure=False)


def graph_constant(index: int) -> n.Call:
    """The address of a constant of the model, by its number in the executable."""
    return n.Call("handle", Op.get("tir.graph_constant"), (n.IntImm("int32", index),))


def graph_value(dtype: str, address: n.PrimExpr) -> n.Call:
    """The number at an address."""
    return n.Call(dtype, Op.get("tir.graph_value"), (address,))


def graph_check(condition: n.PrimExpr, number: int) -> n.Stmt:
    """End the function with the code of a check unless the condition holds."""
    return n.Evaluate(n.Call("int32", Op.get("tir.graph_check"), (condition, n.IntImm("int32", number))))


def graph_copy(target: n.PrimExpr, source: n.PrimExpr, nbytes: n.PrimExpr) -> n.Stmt:
    """Copy memory that does not overlap."""
    return n.Evaluate(n.Call("int32", Op.get("tir.graph_copy"), (target, source, nbytes)))


def graph_reserve(cell: n.PrimExpr, nbytes: n.PrimExpr) -> n.Call:
    """The address of at least `nbytes` bytes in a cell; what was there before is gone."""
    return n.Call("handle", Op.get("tir.graph_reserve"), (cell, nbytes))


def graph_put(address: n.PrimExpr, value: n.PrimExpr) -> n.Stmt:
    """Store an int64 number."""
    return n.Evaluate(n.Call("int32", Op.get("tir.graph_put"), (address, value)))
