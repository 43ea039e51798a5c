"""Rewriters: patterns and their replacements, as objects that are applied to functions and modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.relax.dpl.constraints import Constraints
from compiler.relax.dpl.graph_match import Match, graph_matches
from compiler.relax.dpl.pattern import CallPattern, DFPattern
from compiler.relax.dpl.rewrite import ExprRule, bindings_rewritten, rewritten_by
from compiler.relax.dpl.value_patterns import (
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    TupleGetItemPattern,
    TuplePattern,
    WildcardPattern,
)
from compiler.relax.nodes import (
    Call,
    DataflowBlock,
    ExternFunc,
    Function,
    ShapeExpr,
    StructInfo,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    info_of,
)
from compiler.relax.nodes.renew import Renewal
from compiler.relax.nodes.symbols import symbols_in
from compiler.relax.nodes.unify import Values, unify
from compiler.tir import nodes as n

TupleRule = Callable[[RelaxExpr, dict[DFPattern, RelaxExpr]], RelaxExpr]
_MOST_ROUNDS = 64


class PatternMatchingRewriter:
    """Base of rewriters.
    A rewriter takes a graph function or a module, and rewrites it until nothing matches."""

    def expr_rules(self) -> list[tuple[DFPattern, ExprRule]]:
        """The rules for single expressions, the first first."""
        return []

    def tuple_rules(self) -> list[tuple[tuple[DFPattern, ...], TupleRule]]:
        """The rules for several values of a dataflow block."""
        return []

    @staticmethod
    def from_pattern(pattern: DFPattern, func: ExprRule) -> PatternMatchingRewriter:
        """The rewriter that puts `func(expr, matches)` in the place of what `pattern` matches."""
        return ExprPatternRewriter(pattern, func)

    @staticmethod
    def from_module(mod: IRModule) -> PatternMatchingRewriter:
        """The rewriter of a module with two functions: "pattern" and, with the same parameters, "replacement".

        Where "pattern" returns a tuple, its fields are several values of one dataflow block.
        """
        return _of_functions(mod)

    def __or__(self, other: PatternMatchingRewriter) -> PatternMatchingRewriter:
        return OrRewriter(self, other)

    def __call__(self, obj: Any) -> Any:
        if isinstance(obj, Function):
            return self._function(obj, None)
        if not isinstance(obj, IRModule):
            raise ArgumentError(f"a rewriter takes a graph function or a module, not {type(obj).__name__}")
        functions = {
            name: self._function(func, obj) if isinstance(func, Function) else func for name, func in obj.items()
        }
        same = all(functions[name] is func for name, func in obj.items())
        return obj if same else obj.with_functions(functions)

    def _function(self, func: Function, mod: IRModule | None) -> Function:
        if func.body is None:
            return func
        for _ in range(_MOST_ROUNDS):
            before, rules = func, self.expr_rules()
            func = rewritten_by(rules, func, mod) if rules else func
            for patterns, rule in self.tuple_rules():
                func = bindings_rewritten(lambda block, p=patterns, r=rule: _changes(block, p, r), func)  # type: ignore[misc]
            if func is before or not self.tuple_rules():
                return func
        return func


class ExprPatternRewriter(PatternMatchingRewriter):
    """Puts `func(expr, matches)` in the place of each expression that `pattern` matches."""

    def __init__(self, pattern: DFPattern, func: ExprRule) -> None:
        self.pattern, self.func = pattern, func

    def expr_rules(self) -> list[tuple[DFPattern, ExprRule]]:
        return [(self.pattern, self.func)]


class OrRewriter(PatternMatchingRewriter):
    """Applies what `lhs` or `rhs` does; where both match, `lhs`."""

    def __init__(self, lhs: PatternMatchingRewriter, rhs: PatternMatchingRewriter) -> None:
        self.lhs, self.rhs = lhs, rhs

    def expr_rules(self) -> list[tuple[DFPattern, ExprRule]]:
        return [*self.lhs.expr_rules(), *self.rhs.expr_rules()]

    def tuple_rules(self) -> list[tuple[tuple[DFPattern, ...], TupleRule]]:
        return [*self.lhs.tuple_rules(), *self.rhs.tuple_rules()]


class TupleRewriter(PatternMatchingRewriter):
    """Puts the fields of `func(values, matches)` in the place of values that `patterns` match together.

    The values are of one dataflow block. `func` gets them as a tuple, and gives a tuple of as many fields.
    """

    def __init__(self, patterns: Sequence[DFPattern], func: TupleRule) -> None:
        self.patterns, self.func = tuple(patterns), func

    def tuple_rules(self) -> list[tuple[tuple[DFPattern, ...], TupleRule]]:
        return [(self.patterns, self.func)]


def _changes(block: DataflowBlock, patterns: Sequence[DFPattern], rule: TupleRule) -> dict[Var, RelaxExpr]:
    """The new values of the first match of several patterns that changes anything."""
    for match in graph_matches(Constraints(), block, patterns=patterns):
        values = Tuple(tuple([match[pattern] for pattern in patterns]))
        made = rule(values, dict(match))
        if made is values:
            continue
        fields = made.fields if isinstance(made, Tuple) else [TupleGetItem(made, i) for i in range(len(patterns))]
        if len(fields) != len(patterns):
            raise ArgumentError(f"a rule for {len(patterns)} values gives {len(fields)}")
        return {match[pattern]: item for pattern, item in zip(patterns, fields)}
    return {}


# ------------------------------------------------------------------------- functions as patterns


def _of_functions(mod: IRModule) -> PatternMatchingRewriter:
    pattern, replacement = mod.get("pattern"), mod.get("replacement")
    if not isinstance(pattern, Function) or not isinstance(replacement, Function):
        raise ArgumentError('a rewriter is made of two graph functions, "pattern" and "replacement"')
    if len(pattern.params) != len(replacement.params):
        raise ArgumentError(
            f"the pattern has {len(pattern.params)} parameters, the replacement {len(replacement.params)}"
        )
    reading = _Reading(pattern)
    result = reading.result

    def rule(expr: RelaxExpr, matches: Mapping[DFPattern, RelaxExpr]) -> RelaxExpr:
        args = [matches[reading.patterns[param]] for param in pattern.params]
        symbols = Values()
        for param, arg in zip(pattern.params, args):
            if unify(param.struct_info, info_of(arg), symbols) is not None:
                return expr  # the sizes do not fit each other
        return _applied(replacement, args)

    if isinstance(result, TuplePattern):
        return TupleRewriter(result.fields, rule)
    return ExprPatternRewriter(result, rule)


def _applied(func: Function, args: Sequence[RelaxExpr]) -> RelaxExpr:
    """Return what a function of plain bindings computes of `args`, as one nested expression."""
    assert func.body is not None
    symbols = Values()
    for param, arg in zip(func.params, args):
        unify(param.struct_info, info_of(arg), symbols)
    renewal = Renewal(dict(zip(func.params, args)), symbols.found)
    for block in func.body.blocks:
        for binding in block.bindings:
            if not isinstance(binding, VarBinding):
                raise ArgumentError("a replacement has plain bindings only, no match_cast")
            renewal.variables[binding.var] = renewal.expr(binding.value)
    made: RelaxExpr = renewal.expr(func.body.body)
    return made


class _Reading:
    """Makes a pattern of a function. Each variable is one pattern, wherever it is read."""

    def __init__(self, func: Function) -> None:
        self.patterns: dict[Var, DFPattern] = {}
        for param in func.params:
            self.patterns[param] = WildcardPattern().has_struct_info(_without_symbols(param.struct_info))
        assert func.body is not None
        for block in func.body.blocks:
            for binding in block.bindings:
                if not isinstance(binding, VarBinding):
                    raise ArgumentError("a pattern has plain bindings only, no match_cast")
                self.patterns[binding.var] = self.pattern(binding.value)
        self.result = self.pattern(func.body.body)

    def pattern(self, expr: RelaxExpr) -> DFPattern:
        match expr:
            case Var():
                return self.patterns[expr]
            case Call():
                made: DFPattern = CallPattern(self.pattern(expr.op), [self.pattern(arg) for arg in expr.args])
                return made.has_attr(expr.attrs) if expr.attrs else made
            case Tuple():
                return TuplePattern([self.pattern(item) for item in expr.fields])
            case TupleGetItem():
                return TupleGetItemPattern(self.pattern(expr.tuple_value), expr.index)
            case GlobalVar():
                return GlobalVarPattern(expr.name_hint)
            case ExternFunc():
                return ExternFuncPattern(expr.global_symbol)
            case ShapeExpr() if not all(isinstance(size, n.IntImm) for size in expr.values):
                return WildcardPattern()
            case Op():
                return ExprPattern(expr)
        return ExprPattern(expr)


def _without_symbols(info: StructInfo) -> StructInfo:
    """Return what is known of a parameter but for dimensions that stand for any."""
    if isinstance(info, TensorStructInfo) and next(iter(symbols_in(info)), None) is not None:
        return TensorStructInfo(dtype=info.dtype, ndim=info.ndim)
    return info


def rewriter(given: IRModule | type) -> PatternMatchingRewriter:
    """The rewriter of a module, or class of scripts, with the functions "pattern" and "replacement"."""
    if isinstance(given, IRModule):
        return _of_functions(given)
    functions = {name: held for name, held in vars(given).items() if isinstance(held, Function)}
    return _of_functions(IRModule(functions))


__all__ = ["ExprPatternRewriter", "Match", "OrRewriter", "PatternMatchingRewriter", "TupleRewriter", "rewriter"]
