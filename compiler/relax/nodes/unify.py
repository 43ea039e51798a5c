"""Match what a function takes with what it is given; the values of its dimensions follow."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.arith.analyzer import Analyzer
from compiler.relax.nodes.base import StructInfo
from compiler.relax.nodes.dims import proven_different, proven_equal, replaced, shape_text, text, variables
from compiler.relax.nodes.shape import ObjectStructInfo, PrimStructInfo, ShapeStructInfo
from compiler.relax.nodes.struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo
from compiler.tir.nodes import PrimExpr, Var


class Values:
    """Values found so far for the dimensions of one signature.
    `own` are those it may give values to (None: all)."""

    def __init__(self, own: Sequence[Var] | None = None) -> None:
        self.found: dict[Var, PrimExpr] = {}
        self.analyzer = Analyzer()
        self._own = None if own is None else frozenset(own)

    def may_learn(self, var: Var) -> bool:
        return self._own is None or var in self._own


def unify(pattern: StructInfo, given: StructInfo | None, values: Values) -> str | None:
    """Learn `values` from a value described by `given` that stands where `pattern` is asked for.

    Returns the reason why no such value fits, or None if one may fit. What cannot be decided is checked at run time.
    """
    if given is None or isinstance(given, ObjectStructInfo) or isinstance(pattern, ObjectStructInfo):
        return None
    match pattern, given:
        case TensorStructInfo(), TensorStructInfo():
            if pattern.dtype and given.dtype and pattern.dtype != given.dtype:
                return f"the element type is {given.dtype}, not {pattern.dtype}"
            if -1 not in (pattern.ndim, given.ndim) and pattern.ndim != given.ndim:
                return f"it has {given.ndim} dimensions, not {pattern.ndim}"
            return _dims(pattern.dims, given.dims, values)
        case ShapeStructInfo(), ShapeStructInfo():
            if -1 not in (pattern.ndim, given.ndim) and pattern.ndim != given.ndim:
                return f"it has {given.ndim} dimensions, not {pattern.ndim}"
            return _dims(pattern.values, given.values, values)
        case PrimStructInfo(), PrimStructInfo():
            if pattern.dtype != given.dtype:
                return f"its type is {given.dtype}, not {pattern.dtype}"
            if pattern.value is None or given.value is None:
                return None
            return _dims((pattern.value,), (given.value,), values)
        case TupleStructInfo(), TupleStructInfo():
            if len(pattern.fields) != len(given.fields):
                return f"it has {len(given.fields)} fields, not {len(pattern.fields)}"
            reasons = (unify(p, g, values) for p, g in zip(pattern.fields, given.fields))
            found = [(index, reason) for index, reason in enumerate(reasons) if reason is not None]
            return f"field {found[0][0]}: {found[0][1]}" if found else None
        case FuncStructInfo(), FuncStructInfo():
            if pattern.purity and not given.purity:
                return "it may have side effects"
            if pattern.params is None or given.params is None or len(pattern.params) == len(given.params):
                return None
            return f"it takes {len(given.params)} arguments, not {len(pattern.params)}"
    return f"it is {_kind(given)}, not {_kind(pattern)}"


def _kind(info: StructInfo) -> str:
    name = type(info).__name__.removesuffix("StructInfo").lower()
    return {"prim": "a scalar", "func": "a function"}.get(name, f"a {name}")


def _dims(pattern: Sequence[PrimExpr] | None, given: Sequence[PrimExpr] | None, values: Values) -> str | None:
    if pattern is None or given is None:
        return None
    later: list[tuple[PrimExpr, PrimExpr]] = []
    for want, have in zip(pattern, given):
        if isinstance(want, Var) and values.may_learn(want) and want not in values.found:
            values.found[want] = have
        else:
            later.append((want, have))
    for want, have in later:  # once all is known
        value = replaced(want, values.found.get)
        if proven_equal(value, have, values.analyzer):
            continue
        if proven_different(value, have, values.analyzer) and not _open(value, values):
            wanted = text(want) if value is want else f"{text(want)}, which is {text(value)}"
            return f"a dimension is {text(have)}, not {wanted}; the whole shape is {shape_text(given)}"
    return None


def _open(value: PrimExpr, values: Values) -> bool:
    """Whether `value` has variables that may still get a value."""
    return any(values.may_learn(var) and var not in values.found for var in variables(value))
