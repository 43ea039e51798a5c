"""Products of one value with several matrices become one product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compiler.ir.base import Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.nodes.dims import proven_equal
from compiler.relax.op.elementwise.binary import add
from compiler.relax.op.linear_algebra import matmul
from compiler.relax.op.movement.joining import concat, split
from compiler.relax.transform.call_rewriter import shape_of
from compiler.relax.transform.passes import relax_pass
from compiler.tir import nodes as n

Check = Callable[[r.Var, list[RelaxExpr], list[RelaxExpr], dict[r.Var, RelaxExpr]], bool]
"""Whether products are combined: `check(value, matrices, biases, bindings of the block)`."""
_ACTIVATIONS = ("relax.nn.relu", "relax.nn.gelu", "relax.nn.gelu_tanh", "relax.nn.silu")


@relax_pass("CombineParallelMatmul", over="block", opt_level=1)
def combine_parallel_matmul(
    block: r.DataflowBlock, mod: IRModule, context: PassContext, *, check: Check | None = None
) -> r.DataflowBlock:
    """Compute several products of one value as one, with the matrices side by side, and cut it apart.

    lv = R.matmul(x, A)    →    lv = R.matmul(x, R.concat((A, B), axis=1))
    lv1 = R.matmul(x, B)        lv1 = R.split(lv, [columns of A], axis=1)

    A cast of each product, then a bias that each is added, and then an activation (relu, gelu, gelu_tanh, silu) of each
    are computed before the cut. `check(value, matrices, biases, bindings)` may refuse.
    """

    def accepted(left: r.Var, branches: Sequence[MatmulBranch], values: dict[r.Var, RelaxExpr]) -> bool:
        biases = [branch.bias for branch in branches if branch.bias is not None]
        return check is None or bool(check(left, [branch.matrix for branch in branches], biases, dict(values)))

    return Combiner(block, accepted).made()


@dataclass(frozen=True, slots=True)
class MatmulBranch:
    """A product, its matrix, and what is computed from it: the variables of `chain`. Others use the last one."""

    matrix: RelaxExpr
    out_dtype: str | None
    chain: tuple[r.Var, ...]
    cast: r.Call | None = None
    bias: RelaxExpr | None = None
    activation: r.Call | None = None

    @property
    def product(self) -> r.Var:
        return self.chain[0]

    @property
    def last(self) -> r.Var:
        return self.chain[-1]

    def followed(self, var: r.Var, **what: Any) -> MatmulBranch:
        """The branch and what `var` is bound to."""
        return replace(self, chain=(*self.chain, var), **what)


Accept = Callable[[r.Var, Sequence[MatmulBranch], dict[r.Var, RelaxExpr]], bool]


class Combiner:
    """Combines products of a block for which `accept(value, branches, values of the block)` is true."""

    def __init__(self, block: r.DataflowBlock, accept: Accept) -> None:
        self._block = block
        self._accept = accept
        self._values: dict[r.Var, RelaxExpr] = {binding.var: binding.value for binding in block.bindings}
        self._users: dict[r.Var, list[r.Binding]] = {}
        for binding in block.bindings:
            for var in dict.fromkeys(node for node in walk(binding.value) if isinstance(node, r.Var)):
                self._users.setdefault(var, []).append(binding)
        self._mentioned: dict[r.Var, frozenset[r.Var]] = {}

    def made(self) -> r.DataflowBlock:
        groups: dict[r.Var, list[r.Binding]] = {}
        for binding in self._block.bindings:
            if (left := self._left(binding)) is not None:
                groups.setdefault(left, []).append(binding)
        instead: dict[r.Var, list[r.Binding]] = {}
        gone: set[r.Var] = set()
        for left, products in groups.items():
            for alike in self._alike(products):
                branches = self._branches(alike)
                if len(branches) < 2 or not self._accept(left, branches, self._values):
                    continue
                new = _combined(left, branches)
                instead[branches[0].last] = new
                gone.update(*(branch.chain for branch in branches))
        return self._in_order(instead, gone) if gone else self._block

    def _left(self, binding: r.Binding) -> r.Var | None:
        value = binding.value
        if not isinstance(value, r.Call) or not _is(value, "relax.matmul"):
            return None
        x, matrix = value.args
        shape = shape_of(matrix)
        fits = isinstance(x, r.Var) and isinstance(matrix, r.Var | r.Constant) and shape is not None and len(shape) >= 2
        left = shape_of(x)
        return x if fits and isinstance(x, r.Var) and left is not None and len(left) >= 2 else None

    def _alike(self, products: Sequence[r.Binding]) -> list[list[r.Binding]]:
        """Group products that may be one: of the same type, with matrices that differ only in their columns."""
        found: list[list[r.Binding]] = []
        for binding in products:
            for group in found:
                if self._fits(group, binding):
                    group.append(binding)
                    break
            else:
                found.append([binding])
        return [group for group in found if len(group) > 1]

    def _fits(self, group: Sequence[r.Binding], binding: r.Binding) -> bool:
        first, other = group[0].value, binding.value
        assert isinstance(first, r.Call)
        assert isinstance(other, r.Call)
        a, b = shape_of(first.args[1]), shape_of(other.args[1])
        assert a is not None
        assert b is not None
        columns = all(isinstance(shape[-1], n.IntImm) for shape in (a, b))
        same = len(a) == len(b) and all(map(proven_equal, a[:-1], b[:-1])) and first.attrs == other.attrs
        types = [r.info_of(call.args[1]) for call in (first, other)]
        dtypes = {info.dtype for info in types if isinstance(info, r.TensorStructInfo)}
        needed = self._needed(other.args[1])
        free = all(item.var not in needed for item in group)
        return columns and same and len(dtypes) == 1 and free

    def _needed(self, expr: RelaxExpr) -> frozenset[r.Var]:
        """The variables of the block that a value follows from."""
        if not isinstance(expr, r.Var) or expr not in self._values:
            return frozenset()
        if expr not in self._mentioned:
            direct = [node for node in walk(self._values[expr]) if isinstance(node, r.Var) and node in self._values]
            self._mentioned[expr] = frozenset({expr}).union(*map(self._needed, direct))
        return self._mentioned[expr]

    # ------------------------------------------------------------------- what follows products

    def _branches(self, products: Sequence[r.Binding]) -> list[MatmulBranch]:
        branches = [_plain(item) for item in products]
        branches = _all_alike([self._with_cast(branch) for branch in branches], "cast") or branches
        biased = [self._with_bias(branch, branches) for branch in branches]
        made = [branch for branch in biased if branch is not None]
        if len(made) < len(biased):
            return branches
        return _all_alike([self._with_activation(branch) for branch in made], "activation") or made

    def _next(self, branch: MatmulBranch, *names: str) -> tuple[r.Var, r.Call] | None:
        """The only use of a branch, if it is a call of one of these operators."""
        users = self._users.get(branch.last, [])
        if len(users) != 1 or not isinstance(branch.last, r.DataflowVar):
            return None
        value = users[0].value
        return (users[0].var, value) if isinstance(value, r.Call) and _is(value, *names) else None

    def _with_cast(self, branch: MatmulBranch) -> MatmulBranch | None:
        found = self._next(branch, "relax.astype")
        return None if found is None else branch.followed(found[0], cast=found[1])

    def _with_bias(self, branch: MatmulBranch, group: Sequence[MatmulBranch]) -> MatmulBranch | None:
        found = self._next(branch, "relax.add")
        if found is None:
            return None
        var, value = found
        bias = value.args[1] if value.args[0] is branch.last else value.args[0]
        shape, columns = shape_of(bias), shape_of(branch.matrix)
        if not isinstance(bias, r.Var | r.Constant) or shape is None or columns is None or len(shape) != 1:
            return None
        if any(other.product in self._needed(bias) for other in group) or not proven_equal(shape[0], columns[-1]):
            return None
        return branch.followed(var, bias=bias)

    def _with_activation(self, branch: MatmulBranch) -> MatmulBranch | None:
        found = self._next(branch, *_ACTIVATIONS)
        return None if found is None else branch.followed(found[0], activation=found[1])

    # -------------------------------------------------------------------------------- order

    def _in_order(self, instead: Mapping[r.Var, list[r.Binding]], gone: set[r.Var]) -> r.DataflowBlock:
        """The block with combined products, each binding behind those that it needs."""
        bindings: list[r.Binding] = []
        for binding in self._block.bindings:
            if binding.var in instead:
                bindings += instead[binding.var]
            elif binding.var not in gone:
                bindings.append(binding)
        makers = {binding.var: binding for binding in bindings}
        done: set[r.Var] = set()
        ordered: list[r.Binding] = []
        stack: list[tuple[r.Binding, bool]] = [(binding, False) for binding in reversed(bindings)]
        while stack:
            binding, ready = stack.pop()
            if binding.var in done:
                continue
            if ready:
                done.add(binding.var)
                ordered.append(binding)
                continue
            stack.append((binding, True))
            needed = [node for node in walk(binding.value) if isinstance(node, r.Var) and node in makers]
            stack += [(makers[var], False) for var in reversed(needed) if var not in done]
        return r.DataflowBlock(tuple(ordered), self._block.span)


def _is(call: r.Call, *names: str) -> bool:
    return isinstance(call.op, Op) and call.op.name in names


def _plain(product: r.Binding) -> MatmulBranch:
    assert isinstance(product.value, r.Call)
    return MatmulBranch(product.value.args[1], product.value.attrs["out_dtype"], (product.var,))


def _all_alike(branches: Sequence[MatmulBranch | None], name: str) -> list[MatmulBranch]:
    """The branches, if each has a call `name`, all of one operator with the same attributes. Else none."""
    made = [branch for branch in branches if branch is not None]
    kinds = {(call.op, call.attrs) for call in (getattr(branch, name) for branch in made)}
    return made if len(made) == len(branches) and len(kinds) == 1 else []


def _combined(left: r.Var, branches: Sequence[MatmulBranch]) -> list[r.Binding]:
    """The bindings of a product with all matrices, and of its parts."""
    made: list[r.Binding] = []

    def bound(value: Any) -> r.Var:
        var = r.DataflowVar("lv")
        made.append(r.VarBinding(var, value))
        return var

    shape = shape_of(branches[0].matrix)
    assert shape is not None
    matrices = bound(concat([branch.matrix for branch in branches], axis=len(shape) - 1))
    value = bound(matmul(left, matrices, branches[0].out_dtype))
    biases = [branch.bias for branch in branches if branch.bias is not None]
    if (cast := branches[0].cast) is not None:
        value = bound(_applied(cast, value))
    if biases:
        value = bound(add(value, bound(concat(biases, axis=0))))
    if (activation := branches[0].activation) is not None:
        value = bound(_applied(activation, value))
    ends: list[int] = []
    for branch in branches[:-1]:
        columns = shape_of(branch.matrix)
        assert columns is not None
        ends.append((ends[-1] if ends else 0) + columns[-1].value)  # type: ignore[attr-defined]
    parts = bound(split(value, ends, axis=-1))
    made += [r.VarBinding(branch.last, r.TupleGetItem(parts, index)) for index, branch in enumerate(branches)]
    return made


def _applied(call: r.Call, value: r.Var) -> r.Call:
    return r.Call(call.op, (value,), call.attrs, call.sinfo_args, call.span)
