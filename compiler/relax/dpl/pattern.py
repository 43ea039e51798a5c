"""Patterns of expressions.

A pattern is told apart by its object: used twice, it stands for one and the same value.

Each class says in `solve` what it matches. It yields once for each way to match; what its parts stand for is noted in
the `Matching` meanwhile. So every choice (of alternatives, of the order of a tuple's fields) is tried with every other.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from compiler.arith.linear import same_expr
from compiler.errors import ArgumentError
from compiler.ir.attrs import as_attrs
from compiler.ir.base import RelaxExpr
from compiler.ir.structural import structural_equal
from compiler.relax import nodes as r
from compiler.relax.dpl.constraints import ANY_ARGUMENT, PatternSeq, UseConstraint, chained, current
from compiler.tir.nodes import PrimExpr

Ways = Generator[None, None, None]
_LEAVES = (r.Constant, r.ShapeExpr, r.ExternFunc)


class Matching:
    """The state of one attempt to match.
    `bindings` has the values of variables that may be looked through."""

    def __init__(self, bindings: Mapping[r.Var, RelaxExpr] | None = None) -> None:
        self.bindings = {} if bindings is None else bindings
        self.values: dict[DFPattern, RelaxExpr] = {}
        self.written: dict[DFPattern, RelaxExpr] = {}  # as it stood: the variable of a value

    def bound(self, expr: RelaxExpr) -> RelaxExpr:
        """Return the value that `expr` is bound to if it is a bound variable, else `expr`."""
        while isinstance(expr, r.Var) and expr in self.bindings:
            expr = self.bindings[expr]
        return expr

    def value(self, expr: RelaxExpr) -> RelaxExpr:
        """Return the value bound to `expr`. A field of a known tuple is looked up in the tuple."""
        while True:
            expr = self.bound(expr)
            if not isinstance(expr, r.TupleGetItem):
                return expr
            whole = self.value(expr.tuple_value)
            if not isinstance(whole, r.Tuple):
                return expr
            expr = whole.fields[expr.index]

    def solve(self, pattern: DFPattern, expr: RelaxExpr) -> Ways:
        """Yield once for each way in which `pattern` matches `expr`.
        A pattern that stands for something already keeps it."""
        if pattern in self.values:
            if same_value(self.values[pattern], self.value(expr)):
                yield
            return
        for _ in pattern.solve(expr, self):
            self.values[pattern] = self.value(expr)
            self.written[pattern] = self._name(expr)
            try:
                yield
            finally:
                del self.values[pattern], self.written[pattern]

    def solve_all(self, patterns: Sequence[DFPattern], exprs: Sequence[RelaxExpr]) -> Ways:
        """Yield once for each way in which the patterns match the expressions one by one."""
        if not patterns:
            yield
            return
        for _ in self.solve(patterns[0], exprs[0]):
            yield from self.solve_all(patterns[1:], exprs[1:])

    def _name(self, expr: RelaxExpr) -> RelaxExpr:
        """Return the variable that is bound to the value of `expr` directly."""
        while isinstance(expr, r.Var) and isinstance(self.bindings.get(expr), r.Var):
            expr = self.bindings[expr]
        return expr


def same_value(a: RelaxExpr, b: RelaxExpr) -> bool:
    """Whether two expressions are one object, or constants or shapes that are equal."""
    return a is b or (type(a) is type(b) and isinstance(a, _LEAVES) and structural_equal(a, b))


class DFPattern:
    """Base of patterns of expressions."""

    __slots__ = ()

    def solve(self, expr: RelaxExpr, matching: Matching) -> Ways:
        """Yield once for each way in which this pattern matches `expr`."""
        if self.accepts(matching.value(expr), matching):
            yield

    def accepts(self, value: RelaxExpr, matching: Matching) -> bool:
        """Whether a pattern without parts matches `value`."""
        raise NotImplementedError(f"{type(self).__name__} has no accepts: override it, or solve")

    def parts(self) -> tuple[DFPattern, ...]:
        """The patterns that this is made of."""
        return ()

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        """A new pattern like this one, made of other parts."""
        raise NotImplementedError(f"{type(self).__name__} has no with_parts: a pattern made of parts overrides it")

    # ----------------------------------------------------------------------------- matching

    def match(self, expr: RelaxExpr, var2val: Mapping[r.Var, RelaxExpr] | None = None) -> bool:
        """Whether this matches `expr`. Variables that `var2val` has are looked through."""
        return self.extract_matched_expr(expr, var2val) is not None

    def extract_matched_expr(
        self, expr: RelaxExpr, var2val: Mapping[r.Var, RelaxExpr] | None = None
    ) -> dict[DFPattern, RelaxExpr] | None:
        """Return what each pattern stands for where this matches `expr`, else None."""
        matching = Matching(var2val)
        for _ in matching.solve(self, expr):
            return dict(matching.values)
        return None

    # --------------------------------------------------------------------------- other patterns

    def __call__(
        self, *args: DFPattern, varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> CallPattern:
        """The calls of what this matches.

        With `varg_default_wildcard`, they may have more arguments than `args`.

        In a `PatternContext` each argument becomes a pattern of the graph, unless `add_constraint` is False.
        """
        return CallPattern(self, args, varg_default_wildcard, add_constraint)

    def __or__(self, other: DFPattern) -> OrPattern:
        return OrPattern(self, other)

    def __and__(self, other: DFPattern) -> AndPattern:
        return AndPattern(self, other)

    def __invert__(self) -> NotPattern:
        return NotPattern(self)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """Return a pattern that matches what this one does if it has these attributes.
        It may have others, too."""
        return AttrPattern(self, attrs)

    def has_struct_info(self, struct_info: r.StructInfo) -> StructInfoPattern:
        """Return what this matches, if its values are covered by `struct_info`."""
        return StructInfoPattern(self, struct_info)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """Return what this matches, if it is a tensor of `dtype`."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[PrimExpr | int]) -> ShapePattern:
        """Return what this matches, if it is a tensor of `shape`."""
        return ShapePattern(self, shape)

    def dup(self) -> DFPattern:
        """Return a copy that matches independently of this pattern.
        A part that occurs twice in it still stands for one value."""
        made: dict[DFPattern, DFPattern] = {}

        def new(part: DFPattern) -> DFPattern:
            if part not in made:
                made[part] = part.with_parts([new(item) for item in part.parts()])
            return made[part]

        return new(self)

    # ------------------------------------------------------------------------------ of graphs

    def used_by(self, other: DFPattern | PatternSeq, index: int = ANY_ARGUMENT) -> PatternSeq:
        """Say in the open context that `other` uses the value of this, as its argument `index`; -1 for any."""
        return chained(PatternSeq([self]), other, index, only=False)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = ANY_ARGUMENT) -> PatternSeq:
        """Say in the open context that `other`, and nothing else, uses the value of this."""
        return chained(PatternSeq([self]), other, index, only=True)

    def fork_to(self, *args: DFPattern | PatternSeq) -> None:
        """Say in the open context that each of `args` uses the value of this."""
        for other in args:
            self.used_by(other)

    def same_shape_as(self, *args: DFPattern) -> SameShapeConstraint:
        """Say in the open context that the values of this and of `args` have one shape."""
        return SameShapeConstraint(self, *args)


class SameShapeConstraint:
    """Patterns whose values have one shape. Added to the open context."""

    __slots__ = ("args",)

    def __init__(self, *args: DFPattern) -> None:
        self.args = args
        constraints = current()
        if constraints is not None:
            constraints.same_shapes.append(args)


# -------------------------------------------------------------------------------- of several


class CallPattern(DFPattern):
    """Matches calls by what they call and their arguments."""

    __slots__ = ("args", "op", "varg_default_wildcard")

    def __init__(
        self, op: DFPattern, args: Sequence[DFPattern], varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> None:
        self.op, self.args, self.varg_default_wildcard = op, tuple(args), varg_default_wildcard
        for arg in (op, *self.args):
            checked(arg)
        constraints = current()
        if add_constraint and constraints is not None:
            constraints.uses += [UseConstraint(arg, self, place) for place, arg in enumerate(self.args)]

    def solve(self, expr: RelaxExpr, matching: Matching) -> Ways:
        call = matching.value(expr)
        if not isinstance(call, r.Call):
            return
        fewer = len(self.args) < len(call.args) and self.varg_default_wildcard
        if fewer or len(self.args) == len(call.args):
            for _ in matching.solve(self.op, call.op):
                yield from matching.solve_all(self.args, call.args)

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.op, *self.args)

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return CallPattern(parts[0], parts[1:], self.varg_default_wildcard)

    def __repr__(self) -> str:
        more = ["..."] if self.varg_default_wildcard else []
        return f"{self.op!r}({', '.join([*map(repr, self.args), *more])})"


class OrPattern(DFPattern):
    """Matches what `left` or `right` matches; `left` is tried first."""

    __slots__ = ("left", "right")

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left, self.right = checked(left), checked(right)

    def solve(self, expr: RelaxExpr, matching: Matching) -> Ways:
        yield from matching.solve(self.left, expr)
        yield from matching.solve(self.right, expr)

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.left, self.right)

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return OrPattern(*parts)

    def __repr__(self) -> str:
        return f"OrPattern({self.left!r} | {self.right!r})"


class AndPattern(DFPattern):
    """Matches what both `left` and `right` match."""

    __slots__ = ("left", "right")

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left, self.right = checked(left), checked(right)

    def solve(self, expr: RelaxExpr, matching: Matching) -> Ways:
        for _ in matching.solve(self.left, expr):
            yield from matching.solve(self.right, expr)

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.left, self.right)

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return AndPattern(*parts)

    def __repr__(self) -> str:
        return f"AndPattern({self.left!r} & {self.right!r})"


class NotPattern(DFPattern):
    """Matches what `reject` does not match, given what other patterns stand for so far."""

    __slots__ = ("reject",)

    def __init__(self, to_reject: DFPattern) -> None:
        self.reject = checked(to_reject)

    def solve(self, expr: RelaxExpr, matching: Matching) -> Ways:
        ways = matching.solve(self.reject, expr)
        try:
            next(ways)
        except StopIteration:
            yield
        else:
            ways.close()

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.reject,)

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return NotPattern(parts[0])

    def __repr__(self) -> str:
        return f"!({self.reject!r})"


# ------------------------------------------------------------------------------- of properties


class HavingPattern(DFPattern):
    """Matches what `pattern` does, if the expression has a property."""

    __slots__ = ("pattern",)

    def __init__(self, pattern: DFPattern) -> None:
        self.pattern = checked(pattern)

    def parts(self) -> tuple[DFPattern, ...]:
        return (self.pattern,)

    def solve(self, expr: RelaxExpr, matching: Matching) -> Ways:
        value = matching.value(expr)
        known = r.info_of(expr)
        if self.holds(value, r.info_of(value) if known is None else known):
            yield from matching.solve(self.pattern, expr)

    def holds(self, value: RelaxExpr, info: r.StructInfo | None) -> bool:
        """Whether an expression, of which `info` is known, has the property."""
        raise NotImplementedError(f"{type(self).__name__} has no holds: a pattern of a property overrides it")


class DataTypePattern(HavingPattern):
    """Matches tensors of an element type."""

    __slots__ = ("dtype",)

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        super().__init__(pattern)
        self.dtype = dtype

    def holds(self, value: RelaxExpr, info: r.StructInfo | None) -> bool:
        return isinstance(info, r.TensorStructInfo) and info.dtype == self.dtype

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return DataTypePattern(parts[0], self.dtype)

    def __repr__(self) -> str:
        return f"DataTypePattern({self.pattern!r} has dtype {self.dtype})"


class ShapePattern(HavingPattern):
    """Matches tensors of a shape."""

    __slots__ = ("shape",)

    def __init__(self, pattern: DFPattern, shape: Sequence[PrimExpr | int]) -> None:
        super().__init__(pattern)
        self.shape = as_dims(shape)

    def holds(self, value: RelaxExpr, info: r.StructInfo | None) -> bool:
        return isinstance(info, r.TensorStructInfo) and info.dims is not None and equal_dims(self.shape, info.dims)

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return ShapePattern(parts[0], self.shape)

    def __repr__(self) -> str:
        return f"ShapePattern({self.pattern!r} has shape {self.shape})"


class StructInfoPattern(HavingPattern):
    """Matches what a StructInfo covers."""

    __slots__ = ("struct_info",)

    def __init__(self, pattern: DFPattern, struct_info: r.StructInfo) -> None:
        super().__init__(pattern)
        self.struct_info = struct_info

    def holds(self, value: RelaxExpr, info: r.StructInfo | None) -> bool:
        return info is not None and self.struct_info.is_base_of(info)

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return StructInfoPattern(parts[0], self.struct_info)

    def __repr__(self) -> str:
        return f"StructInfoPattern({self.pattern!r} has relax StructInfo {self.struct_info!r})"


class AttrPattern(HavingPattern):
    """Matches calls and functions that have attributes of these values."""

    __slots__ = ("attrs",)

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        super().__init__(pattern)
        self.attrs = as_attrs(attrs)

    def holds(self, value: RelaxExpr, info: r.StructInfo | None) -> bool:
        found = getattr(value, "attrs", None)
        if found is None:
            return False
        return all(name in found and _equal_values(found[name], wanted) for name, wanted in self.attrs.items())

    def with_parts(self, parts: Sequence[DFPattern]) -> DFPattern:
        return AttrPattern(parts[0], self.attrs)

    def __repr__(self) -> str:
        return f"AttrPattern({self.pattern!r} has attributes {dict(self.attrs)})"


def _equal_values(found: Any, wanted: Any) -> bool:
    if isinstance(found, PrimExpr) or isinstance(wanted, PrimExpr):
        return bool(equal_dims(as_dims((found,)), as_dims((wanted,))))
    if isinstance(found, tuple | list) and isinstance(wanted, tuple | list):
        return len(found) == len(wanted) and all(map(_equal_values, found, wanted))
    return bool(found == wanted)


def as_dims(shape: Sequence[PrimExpr | int]) -> tuple[PrimExpr, ...]:
    return r.ShapeStructInfo(tuple(shape)).values or ()  # type: ignore[arg-type]


def equal_dims(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    return len(a) == len(b) and all(map(same_expr, a, b))


def checked(pattern: Any) -> DFPattern:
    if not isinstance(pattern, DFPattern):
        raise ArgumentError(f"{pattern!r} ({type(pattern).__name__}) is no pattern", hint="relax.dpl.is_expr makes one")
    return pattern
