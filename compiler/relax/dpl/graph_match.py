"""Finding patterns that use each other in a dataflow block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from compiler.arith.linear import same_expr
from compiler.ir.base import Op, RelaxExpr
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.dpl.constraints import Constraints, UseConstraint
from compiler.relax.dpl.pattern import AndPattern, DFPattern, HavingPattern, Matching, NotPattern, OrPattern, same_value

Match = dict[DFPattern, r.Var]

_KERNEL_CALLS = ("relax.call_tir", "relax.call_tir_inplace", "relax.call_tir_with_grad", "relax.call_dps_packed")


def graph_matches(
    constraints: Constraints,
    dfb: r.DataflowBlock,
    bindings: Mapping[r.Var, RelaxExpr] | None = None,
    patterns: Sequence[DFPattern] = (),
) -> Iterator[Match]:
    """Yield each way to assign a variable to every pattern so that the constraints hold.

    The variables are those that the block binds or uses. Different patterns stand for different variables. A part that
    matched a constant is in the result, too. Patterns that stand for alternatives need no variable of their own.
    `bindings` are values known beside the block's, `patterns` stand for variables that the block binds.
    """
    if constraints.uses or patterns:
        yield from _Search(constraints, dfb, bindings or {}, patterns).found()


class _Search:
    def __init__(
        self,
        constraints: Constraints,
        dfb: r.DataflowBlock,
        bindings: Mapping[r.Var, RelaxExpr],
        bound: Sequence[DFPattern],
    ) -> None:
        self._constraints = constraints
        own = {binding.var: binding.value for binding in dfb.bindings if isinstance(binding, r.VarBinding)}
        self._matching = Matching({**bindings, **own})
        self._users: dict[r.Var, set[r.Var]] = {}
        for binding in dfb.bindings:
            for node in walk(binding.value):
                if isinstance(node, r.Var):
                    self._users.setdefault(node, set()).add(binding.var)
        self._variables = list(dict.fromkeys([*(binding.var for binding in dfb.bindings), *self._users]))
        self._bound, self._own = set(bound), own
        patterns = list(dict.fromkeys([*constraints.patterns(), *bound]))
        options = _optional(patterns)
        self._patterns = [pattern for pattern in patterns if pattern not in options]
        self._same_place = {pattern: _alternatives(pattern) for pattern in patterns}
        self._sinks = set(self._patterns).difference(use.producer for use in constraints.uses)

    def found(self) -> Iterator[Match]:
        """Each match, with all patterns that stand for something."""
        written = self._matching.written
        left = [pattern for pattern in self._patterns if pattern not in written]
        if not left:
            if self._shapes_agree():
                yield {key: value for key, value in written.items() if isinstance(value, r.Var | r.Constant)}  # type: ignore[misc]
            return
        pattern, candidates = self._next(left)
        for candidate in candidates:
            for _ in self._matching.solve(pattern, candidate):
                if self._is_consistent():
                    yield from self.found()

    def _next(self, left: list[DFPattern]) -> tuple[DFPattern, list[RelaxExpr]]:
        """The pattern to assign next, and its candidates. Known uses narrow them."""
        written = self._matching.written
        for use in self._constraints.uses:
            if use.producer in left and use.consumer in written:
                return use.producer, list(dict.fromkeys(self._operands(written[use.consumer], use.index)))
            if use.consumer in left and isinstance(producer := written.get(use.producer), r.Var):
                return use.consumer, [var for var in self._variables if var in self._users.get(producer, ())]
        first = next((pattern for pattern in left if pattern in self._sinks), left[0])
        return first, list(self._variables)

    def _operands(self, user: RelaxExpr, index: int) -> list[RelaxExpr]:
        """Return what the value of a variable uses as its argument `index`; all that it mentions for -1."""
        value = self._matching.bound(user)
        if index < 0:
            return [] if value is user else [node for node in walk(value) if isinstance(node, r.Var | r.Constant)]
        args: tuple[RelaxExpr, ...] = ()
        match value:
            case r.Call():
                args = value.args
                is_kernel = isinstance(value.op, Op) and value.op.name in _KERNEL_CALLS
                if is_kernel and isinstance(held := self._matching.bound(args[1]), r.Tuple):
                    args = held.fields
            case r.Tuple():
                args = value.fields
            case r.TupleGetItem():
                args = (value.tuple_value,)
        return [args[index]] if index < len(args) else []

    def _is_consistent(self) -> bool:
        written = self._matching.written
        if not all(
            self._holds(use) for use in self._constraints.uses if use.producer in written and use.consumer in written
        ):
            return False
        if any(written[pattern] not in self._own for pattern in self._bound if pattern in written):
            return False
        owners: dict[RelaxExpr, DFPattern] = {}
        for pattern in self._same_place:
            place = written.get(pattern)
            if not isinstance(place, r.Var):
                continue
            other = owners.setdefault(place, pattern)
            if other is not pattern and not (pattern in self._same_place[other] or other in self._same_place[pattern]):
                return False
        return True

    def _holds(self, use: UseConstraint) -> bool:
        producer, consumer = self._matching.written[use.producer], self._matching.written[use.consumer]
        if not any(same_value(producer, operand) for operand in self._operands(consumer, use.index)):
            return False
        return not use.only or (isinstance(producer, r.DataflowVar) and self._users.get(producer) == {consumer})

    def _shapes_agree(self) -> bool:
        for patterns in self._constraints.same_shapes:
            infos = [r.info_of(self._matching.written[p]) for p in patterns if p in self._matching.written]
            dims = [info.dims if isinstance(info, r.TensorStructInfo) else None for info in infos]
            first = dims[0] if dims else ()
            if len(dims) < len(patterns) or first is None:
                return False
            if not all(d is not None and len(d) == len(first) and all(map(same_expr, d, first)) for d in dims):
                return False
        return True


def _alternatives(pattern: DFPattern) -> set[DFPattern]:
    """The patterns that stand for the same expression as `pattern`, wherever they stand for any."""
    found: set[DFPattern] = set()
    if isinstance(pattern, OrPattern | AndPattern | HavingPattern):
        for part in pattern.parts():
            found |= {part, *_alternatives(part)}
    return found


def _optional(patterns: list[DFPattern]) -> set[DFPattern]:
    """Return the patterns that are only parts of alternatives, or of patterns that must not match."""
    needed: set[DFPattern] = set()
    maybe: set[DFPattern] = set()

    def visit(pattern: DFPattern, sure: bool) -> None:
        (needed if sure else maybe).add(pattern)
        for part in pattern.parts():
            visit(part, sure and not isinstance(pattern, OrPattern | NotPattern))

    inner = {part for pattern in patterns for part in _all_parts(pattern)}
    for pattern in patterns:
        if pattern not in inner:
            visit(pattern, True)
    return maybe - needed


def _all_parts(pattern: DFPattern) -> set[DFPattern]:
    return {found for part in pattern.parts() for found in (part, *_all_parts(part))}
