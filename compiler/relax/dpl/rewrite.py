"""Replacing what patterns match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.config import TransformError
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.analysis.unused import remove_all_unused
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.dpl.context import PatternContext
from compiler.relax.dpl.graph_match import Match, graph_matches
from compiler.relax.dpl.pattern import DFPattern
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes.renew import Renewal

MORE_ROUNDS = 64
"""How much oftener than it has bindings something is changed: a rule whose results match without end is an error."""

ExprRule = Callable[[RelaxExpr, dict[DFPattern, RelaxExpr]], RelaxExpr]
BindingsRule = Callable[[Match, dict[r.Var, RelaxExpr]], Mapping[r.Var, RelaxExpr]]


def rewrite_call(pattern: DFPattern, rewriter: ExprRule, func: r.Function) -> r.Function:
    """Return `func` with matches of `pattern` replaced by `rewriter(expr, matches)`, until none is left.

    `matches` says what each pattern stands for. A rule that returns `expr` leaves it. What nothing uses any more is
    removed. Raises TransformError for a rule whose results match without end.
    """
    return rewritten_by([(pattern, rewriter)], func)


def rewritten_by(
    rules: Sequence[tuple[DFPattern, ExprRule]], func: r.Function, mod: IRModule | None = None
) -> r.Function:
    """Rewrite `func` by several rules. If several match an expression, the first rule counts."""
    most = MORE_ROUNDS + (0 if func.body is None else sum(len(block.bindings) for block in func.body.blocks))
    for _ in range(most):  # each goes through all of the function
        made: r.Function = _Expressions(rules, mod).visit_expr(func)
        if made is func:
            return func
        func = remove_all_unused(made)
    raise TransformError(f"patterns still match after {most} rounds", hint="return `expr` where nothing changes")


class _NotingBuilder(BlockBuilder):
    """Notes the values of variables that may be looked through, and the variables of values."""

    def __init__(self, mod: IRModule | None) -> None:
        super().__init__(mod)
        self.known: dict[r.Var, RelaxExpr] = {}
        self.names: dict[int, r.Var] = {}

    def emit_normalized(self, binding: r.Binding) -> None:
        super().emit_normalized(binding)
        if not isinstance(binding, r.MatchCast):  # a cast says more than its value
            self.known[binding.var] = binding.value
            self.names.setdefault(id(binding.value), binding.var)

    def forget_inner(self) -> None:
        """Forget what mentions variables of a dataflow block that is over."""
        self.known = {
            var: value
            for var, value in self.known.items()
            if not any(isinstance(node, r.DataflowVar) for node in (var, *walk(value)))
        }
        kept = {id(value) for value in self.known.values()}
        self.names = {key: var for key, var in self.names.items() if key in kept}


class _Expressions(PyExprMutator):
    """One round of rules for expressions."""

    def __init__(self, rules: Sequence[tuple[DFPattern, ExprRule]], mod: IRModule | None) -> None:
        super().__init__(mod)
        self.builder_: _NotingBuilder = _NotingBuilder(mod)
        self._rules = rules

    def visit_call_(self, op: r.Call) -> Any:
        return self._replaced(self.builder_.normalize(super().visit_call_(op)))

    def visit_tuple_(self, op: r.Tuple) -> Any:
        return self._replaced(super().visit_tuple_(op))

    def visit_tuple_getitem_(self, op: r.TupleGetItem) -> Any:
        return self._replaced(super().visit_tuple_getitem_(op))

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        made = super().visit_dataflow_block_(block)
        self.builder_.forget_inner()
        return made

    def _replaced(self, expr: RelaxExpr) -> RelaxExpr:
        for pattern, rule in self._rules:
            found = pattern.extract_matched_expr(expr, self.builder_.known)
            made = expr if found is None else rule(expr, found)
            if made is not expr:
                replaced: RelaxExpr = _Names(self.builder_.names).expr(made)
                return replaced
        return expr


class _Names(Renewal):
    """Puts variables in the place of the values that they are bound to."""

    def __init__(self, names: Mapping[int, r.Var]) -> None:
        super().__init__()
        self._names = names

    def expr(self, expr: RelaxExpr) -> Any:
        return self._names.get(id(expr)) or super().expr(expr)


# ------------------------------------------------------------------------------------ bindings


def rewrite_bindings(ctx: PatternContext, rewriter: BindingsRule, func: r.Function) -> r.Function:
    """`func` with values replaced where the patterns of `ctx` match together, until they match nowhere.

    `rewriter(matches, bindings)` gets the variable of each pattern and the values of the block's variables. It
    returns the new values, by variable; an empty mapping leaves that match as it is.
    """
    return bindings_rewritten(lambda block: _changes(block, ctx, rewriter), func)


Changes = Callable[[r.DataflowBlock], Mapping[r.Var, RelaxExpr]]
"""The new values of some variables of a block; none where it is to stay."""


def bindings_rewritten(changes: Changes, func: r.Function) -> r.Function:
    """`func` with values of its dataflow blocks replaced, as long as `changes` gives any."""
    if func.body is None:
        return func
    made: r.Function = _Bindings(changes).visit_expr(func)
    return func if made is func else remove_all_unused(made)


def _changes(block: r.DataflowBlock, ctx: PatternContext, rule: BindingsRule) -> dict[r.Var, RelaxExpr]:
    """The new values of the first match that has any."""
    values = {binding.var: binding.value for binding in block.bindings}
    for match in graph_matches(ctx.constraints, block):
        made = dict(rule(match, values))
        unknown = next((var for var in made if var not in values), None)
        if unknown is not None:
            raise IRError(f"the rule gives {unknown!r} a value, which the block does not define")
        changes = {var: value for var, value in made.items() if value is not values[var]}
        if changes:
            return changes
    return {}


class _Bindings(PyExprMutator):
    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self._changes = changes
        self._made: dict[int, tuple[RelaxExpr, Any]] = {}

    def visit_expr(self, expr: RelaxExpr) -> Any:
        """`expr` in normal form; what several new values share is computed once."""
        if not isinstance(expr, r.Call | r.Tuple | r.TupleGetItem):
            return super().visit_expr(expr)
        if id(expr) not in self._made:
            self._made[id(expr)] = expr, super().visit_expr(expr)
        return self._made[id(expr)][1]

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        self._made.clear()
        made: r.BindingBlock = super().visit_dataflow_block_(block)
        most = MORE_ROUNDS + len(block.bindings)
        for _ in range(most):
            assert isinstance(made, r.DataflowBlock)
            changes = self._changes(made)
            if not changes:
                return made
            self._made.clear()
            made = super().visit_dataflow_block_(self._changed(made, changes))
        raise TransformError(f"patterns still match after {most} rounds", hint="return {} where nothing changes")

    def _changed(self, block: r.DataflowBlock, changes: Mapping[r.Var, RelaxExpr]) -> r.DataflowBlock:
        """Return the block with new values, each after what it uses, and without unused values."""
        bindings = {binding.var: binding for binding in block.bindings}
        names = _Names({id(b.value): var for var, b in bindings.items() if var not in changes})
        for var, value in changes.items():
            bindings[var] = r.VarBinding(var, names.expr(value), bindings[var].span)
        order: dict[r.Var, r.Binding] = {}
        open_: set[r.Var] = set()

        def emit(var: r.Var) -> None:
            if var in order or var not in bindings:
                return
            if var in open_:
                raise IRError(f"the rule makes {var.name_hint} use its own value")
            open_.add(var)
            for node in walk(bindings[var].value):
                if isinstance(node, r.Var):
                    emit(node)
            order[var] = bindings[var]

        needed = _needed(bindings)
        for var in bindings:
            if var in needed:
                emit(var)
        return r.DataflowBlock(tuple(order.values()), block.span)


def _needed(bindings: Mapping[r.Var, r.Binding]) -> set[r.Var]:
    """The variables that outputs of a block and its casts are computed from, with these."""
    found: set[r.Var] = set()
    pending = [
        var for var, own in bindings.items() if not isinstance(var, r.DataflowVar) or isinstance(own, r.MatchCast)
    ]
    while pending:
        var = pending.pop()
        if var in bindings and var not in found:
            found.add(var)
            pending += [node for node in walk(bindings[var].value) if isinstance(node, r.Var)]
    return found
