"""Patterns of variables, constants, shapes, tuples and functions."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.structural import structural_equal
from compiler.relax.dpl.pattern import DFPattern, Matching, Ways, as_dims, checked, equal_dims
from compiler.relax.nodes import Constant, DataflowVar, ExternFunc, Function, ShapeExpr, Tuple, TupleGetItem, Var
from compiler.tir.nodes import PrimExpr


class WildcardPattern(DFPattern):
    """Matches anything."""

    __slots__ = ()

    def accepts(self, value: RelaxExpr, matching: Matching) -> bool:
        return True

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return WildcardPattern()

    def __repr__(self) -> str:
        return "*"


class ConstantPattern(DFPattern):
    """Matches constants."""

    __slots__ = ()

    def accepts(self, value: RelaxExpr, matching: Matching) -> bool:
        return isinstance(value, Constant)

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return ConstantPattern()

    def __repr__(self) -> str:
        return "ConstantPattern()"


class ExprPattern(DFPattern):
    """Matches one expression: an operator, a variable, or anything of the same structure as `expr`."""

    __slots__ = ("expr",)

    def __init__(self, expr: RelaxExpr) -> None:
        self.expr = expr

    def accepts(self, value: RelaxExpr, matching: Matching) -> bool:
        wanted = matching.value(self.expr)
        if wanted is value:
            return True
        alike = type(wanted) is type(value) and not isinstance(value, Op | Var)
        return alike and structural_equal(wanted, value)

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return ExprPattern(self.expr)

    def __repr__(self) -> str:
        return self.expr.name if isinstance(self.expr, Op) else repr(self.expr)


class _Named(DFPattern):
    """Matches what has a name; every such for ""."""

    __slots__ = ("name",)

    def __init__(self, name_hint: str = "") -> None:
        self.name = name_hint

    @property
    def name_hint(self) -> str:
        return self.name

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return type(self)(self.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class VarPattern(_Named):
    """Matches variables that are not looked through.
    They are parameters, and all variables where no values are known."""

    __slots__ = ()

    def accepts(self, value: RelaxExpr, matching: Matching) -> bool:
        return isinstance(value, Var) and self.name in ("", value.name_hint)


class DataflowVarPattern(VarPattern):
    """Matches variables of dataflow blocks that are not looked through."""

    __slots__ = ()

    def accepts(self, value: RelaxExpr, matching: Matching) -> bool:
        return isinstance(value, DataflowVar) and super().accepts(value, matching)


class GlobalVarPattern(_Named):
    """Matches names of functions of the module."""

    __slots__ = ()

    def accepts(self, value: RelaxExpr, matching: Matching) -> bool:
        return isinstance(value, GlobalVar) and self.name in ("", value.name_hint)


class ExternFuncPattern(_Named):
    """Matches functions of the runtime."""

    __slots__ = ()

    def __init__(self, global_symbol: str = "") -> None:
        super().__init__(global_symbol)

    @property
    def global_symbol(self) -> str:
        return self.name

    def accepts(self, value: RelaxExpr, matching: Matching) -> bool:
        return isinstance(value, ExternFunc) and self.name in ("", value.global_symbol)


class PrimArrPattern(DFPattern):
    """Matches shapes of these dimensions."""

    __slots__ = ("fields",)

    def __init__(self, shape: Sequence[PrimExpr | int]) -> None:
        self.fields = as_dims(shape)

    def accepts(self, value: RelaxExpr, matching: Matching) -> bool:
        return isinstance(value, ShapeExpr) and equal_dims(self.fields, value.values)

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return PrimArrPattern(self.fields)

    def __getitem__(self, index: int) -> PrimExpr:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        return f"PrimArrPattern({self.fields})"


class FunctionPattern(DFPattern):
    """Matches functions by their parameters and by their result, which is looked for in their bindings."""

    __slots__ = ("body", "params")

    def __init__(self, params: Sequence[DFPattern], body: DFPattern) -> None:
        self.params, self.body = tuple(params), body

    def solve(self, expr: RelaxExpr, matching: Matching) -> Ways:
        func = matching.value(expr)
        if not isinstance(func, Function) or func.body is None or len(func.params) != len(self.params):
            return
        bindings = {binding.var: binding.value for block in func.body.blocks for binding in block.bindings}
        outer, matching.bindings = matching.bindings, {**matching.bindings, **bindings}
        try:
            for _ in matching.solve_all(self.params, func.params):
                yield from matching.solve(self.body, func.body.body)
        finally:
            matching.bindings = outer

    def parts(self) -> tuple[DFPattern, ...]:
        return (*self.params, self.body)

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return FunctionPattern(parts[:-1], parts[-1])

    def __repr__(self) -> str:
        return f"FunctionPattern({self.params}, {self.body!r})"


class _FieldsPattern(DFPattern):
    """A pattern with one pattern for each field of a tuple."""

    __slots__ = ("fields",)

    def __init__(self, fields: Sequence[DFPattern]) -> None:
        self.fields = tuple(map(checked, fields))

    def parts(self) -> tuple[DFPattern, ...]:
        return self.fields

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return type(self)(parts)

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fields})"


class TuplePattern(_FieldsPattern):
    """Matches tuples field by field."""

    __slots__ = ()

    def solve(self, expr: RelaxExpr, matching: Matching) -> Ways:
        value = matching.value(expr)
        if isinstance(value, Tuple) and len(value.fields) == len(self.fields):
            yield from matching.solve_all(self.fields, value.fields)

    def __getitem__(self, index: int | None) -> TupleGetItemPattern:
        """The field `index` of what this matches. Raises IndexError where there is none."""
        if index is not None and not 0 <= index < len(self.fields):
            raise IndexError(f"field {index} of a pattern of {len(self.fields)} fields")
        return TupleGetItemPattern(self, index)


class UnorderedTuplePattern(_FieldsPattern):
    """Matches tuples whose fields match in any order, one pattern each."""

    __slots__ = ()

    def solve(self, expr: RelaxExpr, matching: Matching) -> Ways:
        value = matching.value(expr)
        if isinstance(value, Tuple) and len(value.fields) == len(self.fields):
            yield from self._orders(self.fields, list(value.fields), matching)

    def _orders(self, patterns: Sequence[DFPattern], left: list[RelaxExpr], matching: Matching) -> Ways:
        if not patterns:
            yield
        for place in range(len(left)):
            rest = [*left[:place], *left[place + 1 :]]
            for _ in matching.solve(patterns[0], left[place]):
                yield from self._orders(patterns[1:], rest, matching)


class TupleGetItemPattern(DFPattern):
    """Matches fields of tuples; those at any place where `index` is None."""

    __slots__ = ("index", "tuple")

    def __init__(self, tuple_value: DFPattern, index: int | None = None) -> None:
        self.tuple, self.index = checked(tuple_value), index

    def solve(self, expr: RelaxExpr, matching: Matching) -> Ways:
        item = matching.bound(expr)
        if isinstance(item, TupleGetItem) and self.index in (None, item.index):
            yield from matching.solve(self.tuple, item.tuple_value)

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.tuple,)

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return TupleGetItemPattern(parts[0], self.index)

    def __repr__(self) -> str:
        return f"TupleGetItemPattern({self.tuple!r}, {self.index})"
