"""Variables that the shapes of a function's arguments bind.

It takes them without the caller passing them.

    def f(var_A: T.handle, var_B: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(var_A, (n, m))          →      kernel(A, B, n, m), with B's shape checked
        B = T.match_buffer(var_B, (n * 2,))

A variable gets its value where it stands as a whole extent. Arrays are compact, so a variable stride is the
product of the extents behind it and a variable offset is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from keyword import kwlist
from math import prod

from compiler.arith.analyzer import Analyzer
from compiler.errors import CodegenError
from compiler.extents import FUNCTIONS, MAX_CHARACTERS
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import free_vars, substitute

_OPERATORS: dict[type[n.BinaryOp], tuple[str, int]] = {
    n.Add: (" + ", 1),
    n.Sub: (" - ", 1),
    n.Mul: ("*", 2),
    n.FloorDiv: ("//", 2),
    n.FloorMod: ("%", 2),
}


@dataclass(frozen=True, slots=True)
class ShapeVar:
    """A variable that the caller does not pass, and its value over extents and scalar arguments."""

    var: n.Var
    value: PrimExpr


def own_strides(buffer: n.Buffer) -> tuple[int, ...]:
    """The strides of an argument that is not compact and whose layout is all constants; () for others."""
    strides = tuple(step.value for step in buffer.strides if isinstance(step, n.IntImm))
    sizes = [dim.value for dim in buffer.shape if isinstance(dim, n.IntImm)]
    if not strides or len(strides) != len(buffer.strides) or len(sizes) != len(strides):
        return ()
    return strides if strides != tuple(prod(sizes[dim + 1 :]) for dim in range(len(sizes))) else ()


def shape_vars(func: n.PrimFunc, *, strided: bool = False) -> tuple[ShapeVar, ...]:
    """The variables of `func`'s argument shapes that are no arguments themselves, in order of appearance.

    Raises CodegenError where the shapes do not tell a variable's value, or an argument's layout is not compact.
    With `strided`, it may have constant strides instead.
    """
    if all(type(dim) is n.IntImm for b in func.buffer_map.values() for dim in b.shape) and not any(
        b.strides or b.elem_offset is not None for b in func.buffer_map.values()
    ):
        return ()
    finder = _Finder({var: var for var in func.params if var not in func.buffer_map})
    buffers = [func.buffer_map[var] for var in func.params if var in func.buffer_map]
    for buffer in buffers:
        finder.extents(buffer)
    for buffer in buffers:
        finder.check(buffer)
        finder.layout(buffer, strided and bool(own_strides(buffer)))
    return tuple(finder.found)


@dataclass(slots=True)
class _Finder:
    known: dict[n.Var, n.Var]
    found: list[ShapeVar] = field(default_factory=list)

    def extents(self, buffer: n.Buffer) -> None:
        for dim in buffer.shape:
            if isinstance(dim, n.Var) and dim not in self.known:
                self._bind(dim, dim)

    def check(self, buffer: n.Buffer) -> None:
        for dim in buffer.shape:
            for var in free_vars(dim):
                if var not in self.known:
                    raise CodegenError(
                        f"the shape of argument {buffer.name!r} has {var.name!r} in an expression only, so a call "
                        f"does not tell its value",
                        hint=f"pass {var.name!r} as an argument too, or have an array with {var.name!r} as extent",
                    )

    def layout(self, buffer: n.Buffer, strided: bool) -> None:
        """Strides and offset: variables get the values of a compact array; anything else must equal those."""
        step: PrimExpr = ops.as_expr(1)
        for dim, stride in reversed([] if strided else list(zip(buffer.shape, buffer.strides))):
            self._compact(buffer, "stride", stride, step)
            step = ops.mul(step, dim)
        if buffer.elem_offset is not None:
            self._compact(buffer, "offset", buffer.elem_offset, ops.as_expr(0))

    def _compact(self, buffer: n.Buffer, what: str, given: PrimExpr, value: PrimExpr) -> None:
        if isinstance(given, n.Var) and given not in self.known:
            self._bind(given, value)
            return
        values: Mapping[n.Var, PrimExpr] = {found.var: found.value for found in self.found}
        if not Analyzer().can_prove_equal(substitute(given, values), substitute(value, values)):
            raise CodegenError(
                f"argument {buffer.name!r} has {what} {extent_text(given, {})}, but arrays are passed compact, "
                f"where it is {extent_text(value, {})}",
                hint="leave strides and elem_offset out, or make them variables",
            )

    def _bind(self, var: n.Var, value: PrimExpr) -> None:
        if var.dtype not in ("int32", "int64"):
            raise CodegenError(f"shape variable {var.name!r} is {var.dtype}", hint="make it int32 or int64")
        self.known[var] = var
        self.found.append(ShapeVar(var, value))


def names_for(variables: Iterable[n.Var]) -> dict[n.Var, str]:
    """A name for each variable that no other has."""
    names: dict[n.Var, str] = {}
    taken = {*FUNCTIONS, *kwlist}
    for var in variables:
        stem = "".join(c if c.isalnum() or c == "_" else "_" for c in var.name) or "v"
        stem = stem if stem.isidentifier() else f"v{stem}"
        name, count = stem, 0
        while name in taken:
            count += 1
            name = f"{stem}_{count}"
        taken.add(name)
        names[var] = name
    return names


def extent_text(expr: PrimExpr, names: Mapping[n.Var, str]) -> str:
    """`expr` as `compiler.extents` reads it. Raises CodegenError for what that cannot express."""
    text = _text(expr, names, 0)
    if len(text) > MAX_CHARACTERS:
        raise CodegenError(f"the extent {text[:60]}… of an argument is too long to be checked at the call")
    return text


def _text(expr: PrimExpr, names: Mapping[n.Var, str], around: int) -> str:
    """`around`: how strongly what is around binds: 0 not, 1 as a sum, 2 as a product, 3 as its right side."""
    match expr:
        case n.IntImm():
            return str(expr.value) if expr.value >= 0 else f"({expr.value})"
        case n.Var():
            return names.get(expr, expr.name)
        case n.Cast() if expr.dtype in ("int32", "int64"):
            return _text(expr.value, names, around)
        case n.Min() | n.Max():
            word = "min" if isinstance(expr, n.Min) else "max"
            return f"{word}({_text(expr.a, names, 0)}, {_text(expr.b, names, 0)})"
        case n.BinaryOp() if type(expr) in _OPERATORS:
            sign, strength = _OPERATORS[type(expr)]
            right = strength if isinstance(expr, n.Add) else strength + 1
            text = f"{_text(expr.a, names, strength)}{sign}{_text(expr.b, names, right)}"
            return f"({text})" if strength < around else text
    raise CodegenError(
        f"a {type(expr).__name__} in the shape of an argument cannot be checked at the call",
        hint="shapes are made of +, -, *, //, %, min and max",
    )
